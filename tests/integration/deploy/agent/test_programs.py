"""The agent itself, built for all arches: what it says of programs, and that nothing of them outlives it."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.agents import LIMIT_SECONDS, Agent, build_agent, started
from tests.support.waiting import is_alive, wait_until

SIZES = (0, 1, 3, 55, 56, 63, 64, 65, 119, 120, 127, 128, 1000, 262_143, 262_144, 262_145, 3_000_001)
"""Around the edges of a block, of the padding and of the read buffer."""

# A grandchild that has left the session, lost its parent and ignores every polite signal.
STUBBORN = """
trap '' TERM HUP INT
echo $$ >>"$1/pids"
(setsid sh -c 'trap "" TERM HUP INT; echo $$ >>"$0/pids"; while :; do sleep 0.1; done' "$1" & )
while [ "$(wc -l <"$1/pids")" -lt 2 ]; do sleep 0.05; done
echo ready
while :; do sleep 0.1; done
"""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """A folder whose file ``pids`` names processes; whatever a failed test leaves of them is ended."""
    folder = tmp_path / "tree"
    folder.mkdir()
    (folder / "pids").touch()
    yield folder
    for pid in map(int, (folder / "pids").read_text().split()):
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


@contextmanager
def stubborn_tree(agent: Agent, folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """The agent with the stubborn tree below it, and the pids of the tree's two processes."""
    with agent.started(*options, "--", "/bin/sh", "-c", STUBBORN, "stubborn", folder) as process:
        pids = folder / "pids"
        wait_until("the start of the tree", lambda: len(pids.read_text().split()) == 2)
        yield process, [int(word) for word in pids.read_text().split()]


# the program itself ----------------------------------------------------------------------------------


def test_the_agent_is_small_static_and_says_what_it_is(agent: Agent) -> None:
    assert agent.product.size < 200_000
    assert (agent.product.interpreter, agent.product.needed) == ("", ())
    answer = json.loads(subprocess.run(agent.command("version"), capture_output=True, check=True, timeout=60).stdout)
    assert (answer["agent"], answer["arch"]) == (3, agent.arch)
    if agent.arch != "x86_64":
        assert answer["sha256"] == "armv8"  # qemu-user offers the instructions


@pytest.mark.parametrize("words", [[], ["dance"], ["version", "now"], ["hash"], ["hash", "--fast", "x"], ["run"], ["follow", "x"],
                                   ["run", "--", ], ["run", "true"], ["run", "--deadline=soon", "--", "true"],
                                   ["run", "--deadline", "-5", "--", "true"], ["run", "--cpus=3-1", "--", "true"],
                                   ["run", "--limit=speed=1", "--", "true"], ["run", "--env=NAME", "--", "true"],
                                   ["follow", "--size=1"], ["follow", "--size=0", "x"], ["follow", "--size=1", "x", "y"],
                                   ["follow", "--fast", "--size=1", "x"], ["follow", "--size=1", "/none"],
                                   ["run", "--nice=20", "--", "true"], ["run", "--deadline"]])  # fmt: skip
def test_a_wrong_call_is_refused_with_a_sentence(native_agent: Agent, words: list[str]) -> None:
    answer = subprocess.run(native_agent.command(*words), capture_output=True, timeout=60, check=False)
    assert answer.returncode == 125
    assert answer.stdout == b""
    assert answer.stderr.startswith((b"ohforge-agent: ", b"usage: "))


# hash ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("files to hash")
    source = random.Random(42)
    paths = []
    for size in SIZES:
        paths.append(folder / f"of {size} bytes")
        paths[-1].write_bytes(source.randbytes(size))
    return paths


@pytest.mark.parametrize("options", [(), ("--portable",)])
def test_hashes_are_those_of_hashlib(agent: Agent, files: list[Path], options: tuple[str, ...]) -> None:
    contents = {path: path.read_bytes() for path in files}
    expected = [f"{hashlib.sha256(text).hexdigest()} {len(text)} {path}" for path, text in contents.items()]
    assert agent.hash(*options, *files) == expected


def test_a_cpu_without_the_instructions_gets_the_portable_hash(shared_cache: Path, files: list[Path]) -> None:
    agent = build_agent(shared_cache, "arm32")
    command = agent.command("version", cpu="cortex-a15")
    assert (
        json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)["sha256"] == "portable"
    )
    [line] = agent.hash(files[-1], cpu="cortex-a15")
    assert line.startswith(hashlib.sha256(files[-1].read_bytes()).hexdigest())


def test_files_that_cannot_be_hashed_are_named_and_the_others_are_hashed(agent: Agent, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good").write_bytes(b"abc")
    names = [tmp_path / "none", tmp_path, tmp_path / "pipe", tmp_path / "good"]
    assert agent.hash(*names) == [
        f"- 2 {names[0]}",
        f"- 21 {names[1]}",
        f"- 22 {names[2]}",
        # The example of the standard, FIPS 180-4.
        f"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad 3 {names[3]}",
    ]


# how a program ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 3, 124, 125, 126, 127, 128, 143, 255])
def test_every_exit_status_comes_back(agent: Agent, code: int) -> None:
    ended = agent.run("--", "/bin/sh", "-c", f"exit {code}")
    assert (ended.report.exit_code, ended.report.signal, ended.report.reason) == (code, 0, "")
    assert ended.status == code


@pytest.mark.parametrize("name", ["SEGV", "KILL", "ABRT", "TERM", "ILL"])
def test_a_signal_comes_back_as_one(agent: Agent, name: str) -> None:
    ended = agent.run("--limit=core=0", "--", "/bin/sh", "-c", f"kill -{name} $$")
    number = signal.Signals[f"SIG{name}"].value
    assert (ended.report.exit_code, ended.report.signal, ended.report.reason) == (None, number, "")
    assert ended.status == 128 + number


@pytest.mark.parametrize(
    ("words", "stage", "errno", "status"),
    [
        (["--", "/no/such/program"], "exec", 2, 127),
        (["--", "no-such-program-in-the-path"], "exec", 2, 127),
        (["--", "{folder}/text"], "exec", 13, 126),
        (["--", "{folder}/garbage"], "exec", 8, 126),
        (["--cwd={folder}/none", "--", "true"], "folder", 2, 125),
        (["--cpus=1023", "--", "true"], "cpus", 22, 125),
    ],
)
def test_a_program_that_cannot_be_started_is_told_with_the_reason(
    agent: Agent, tmp_path: Path, words: list[str], stage: str, errno: int, status: int
) -> None:
    (tmp_path / "text").write_text("echo no exec bit\n")
    (tmp_path / "garbage").write_bytes(b"\x7fELF but not really")
    (tmp_path / "garbage").chmod(0o755)
    ended = agent.run(*(word.format(folder=tmp_path) for word in words))
    failure = ended.report.failure
    assert failure is not None
    assert (failure.stage, failure.errno, ended.status) == (stage, errno, status)
    assert failure.error


# output ----------------------------------------------------------------------------------------------


def test_stdout_and_stderr_stay_apart_byte_for_byte(agent: Agent) -> None:
    script = r"printf 'no newline\0\377\r\n'; printf 'error\365OHF' >&2; printf end"
    ended = agent.run("--", "/bin/sh", "-c", script)
    assert ended.out == b"no newline\0\xff\r\nend"
    assert ended.err == b"error\xf5OHF"
    assert (ended.report.stdout_bytes, ended.report.stderr_bytes) == (len(ended.out), len(ended.err))
    assert ended.report.noise == b""


def test_a_flood_on_both_streams_arrives_whole_at_a_slow_reader(agent: Agent) -> None:
    # Each stream counts for itself, so a lost, doubled or swapped byte shows.
    script = "seq 1 400000 & seq 1000001 1400000 >&2; wait"
    with agent.started("--", "/bin/sh", "-c", script) as process:
        assert process.stdout is not None
        already = b""
        for _ in range(20):
            already += os.read(process.stdout.fileno(), 4096)
            time.sleep(0.01)
        ended = agent.finish(process, already)
    assert ended.out == b"".join(b"%d\n" % n for n in range(1, 400_001))
    assert ended.err == b"".join(b"%d\n" % n for n in range(1_000_001, 1_400_001))
    assert ended.report.exit_code == 0


def test_a_reader_that_pauses_stops_the_program_and_costs_no_memory(native_agent: Agent, tmp_path: Path) -> None:
    done = tmp_path / "done"

    def resident(pid: int) -> int:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    script = 'head -c 30000000 /dev/zero; : >"$0"'
    with native_agent.started("--", "/bin/sh", "-c", script, done) as process:
        sizes = [0]

        def moves_no_more() -> bool:
            sizes.append(resident(process.pid))
            return sizes[-1] == sizes[-2]

        wait_until("the filling of all buffers", moves_no_more, pause=0.1)
        assert not done.exists()
        assert resident(process.pid) < 3_000_000
        ended = native_agent.finish(process)
    assert ended.out == bytes(30_000_000)
    assert done.exists()


def test_a_program_that_reads_its_input_finds_it_at_its_end(agent: Agent) -> None:
    ended = agent.run("--", "/bin/sh", "-c", "cat; read -r line || echo end")
    assert (ended.out, ended.report.exit_code) == (b"end\n", 0)


def test_output_comes_while_the_program_runs(native_agent: Agent) -> None:
    with native_agent.started("--", "/bin/sh", "-c", "echo early; exec sleep 100") as process:
        assert process.stdout is not None
        seen = b""
        while b"early\n" not in seen:
            seen += os.read(process.stdout.fileno(), 4096)
        process.terminate()
        ended = native_agent.finish(process, seen)
    assert (ended.out, ended.report.signal) == (b"early\n", signal.SIGTERM)


DEADLINES = (1500, 9000, 90_000)
"""Milliseconds until the agent ends a program: of the real clock, so the next is taken when the program was not ready by then."""

# the end of everything -------------------------------------------------------------------------------


def test_on_the_deadline_the_whole_tree_is_ended(agent: Agent, tree: Path) -> None:
    for deadline in DEADLINES:
        ended = agent.run(f"--deadline={deadline}", "--grace=200", "--", "/bin/sh", "-c", STUBBORN, "stubborn", tree)
        assert (ended.report.reason, ended.report.survivors, ended.status) == ("deadline", 0, 124)
        pids = [int(word) for word in (tree / "pids").read_text().split()]
        assert [pid for pid in pids if is_alive(pid)] == []
        if ended.out == b"ready\n":
            break
        (tree / "pids").write_text("")
    assert (ended.out, ended.report.signal) == (b"ready\n", signal.SIGKILL)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_when_the_agent_is_told_to_stop_the_whole_tree_is_ended(agent: Agent, tree: Path, name: str) -> None:
    with stubborn_tree(agent, tree) as (process, pids):
        process.send_signal(signal.Signals[name])
        ended = agent.finish(process)
    assert (ended.report.reason, ended.report.survivors) == (name, 0)
    assert [pid for pid in pids if is_alive(pid)] == []


def test_when_nobody_reads_any_more_the_whole_tree_is_ended(agent: Agent, tree: Path) -> None:
    with stubborn_tree(agent, tree) as (process, pids):
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=LIMIT_SECONDS)
    assert [pid for pid in pids if is_alive(pid)] == []


def test_when_the_agents_parent_is_killed_the_whole_tree_is_ended(native_agent: Agent, tree: Path) -> None:
    words = native_agent.command("run", "--", "/bin/sh", "-c", STUBBORN, "stubborn", tree)
    files = [tree / "pids", tree / "agent"]
    files[1].touch()
    script = '"$@" >/dev/null & echo $! >"$0"; wait'  # so that only the parent's death can be the cause
    with started(["/bin/sh", "-c", script, str(files[1]), *words]) as parent:
        wait_until("the start of the tree", lambda: sum(len(file.read_text().split()) for file in files) == 3)
        pids = [int(word) for file in files for word in file.read_text().split()]
        parent.kill()
    wait_until("the end of the tree", lambda: not any(map(is_alive, pids)))


def test_when_the_agent_itself_is_killed_the_program_is_ended(native_agent: Agent, tmp_path: Path) -> None:
    with native_agent.started("--", "/bin/sh", "-c", 'echo $$ >"$0"; exec sleep 1000', tmp_path / "pid") as process:
        wait_until("the start", lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
        process.kill()
    wait_until("the end of the program", lambda: not is_alive(int((tmp_path / "pid").read_text())))


def test_a_stopped_program_is_ended_too(agent: Agent) -> None:
    ended = agent.run("--deadline=1500", "--grace=60000", "--", "/bin/sh", "-c", "kill -STOP $$")
    assert (ended.report.reason, ended.report.signal) == ("deadline", signal.SIGTERM)


def test_what_a_program_leaves_running_is_ended_and_counted(agent: Agent, tmp_path: Path) -> None:
    script = 'echo kept; (setsid sleep 1000 & echo $! >"$0"); exit 7'
    ended = agent.run("--", "/bin/sh", "-c", script, tmp_path / "pid")
    assert (ended.report.exit_code, ended.report.reason, ended.out) == (7, "", b"kept\n")
    assert ended.report.left == 1
    assert not is_alive(int((tmp_path / "pid").read_text()))


def test_a_program_that_ends_in_time_is_not_waited_for_longer(agent: Agent) -> None:
    ended = agent.run("--deadline=3600000", "--", "/bin/true")
    assert (ended.report.exit_code, ended.report.left) == (0, 0)


# surroundings ----------------------------------------------------------------------------------------


def test_the_program_gets_the_surroundings_that_were_asked_for(native_agent: Agent, tmp_path: Path) -> None:
    script = (
        'echo "$ADDED|$EMPTY|${HOME-none}|$(pwd)|$(ulimit -n)|$(ulimit -c)"; nice; '
        "grep Cpus_allowed_list: /proc/self/status; ls /proc/self/fd | wc -l"
    )
    os.environ["HOME"] = "/root"
    ended = native_agent.run(
        "--env=ADDED=a b=c", "--env", "EMPTY=", "--unset=HOME", f"--cwd={tmp_path}", "--limit=nofile=77",
        "--limit", "core=0", "--nice=7", "--cpus=0", "--", "/bin/sh", "-c", script,
    )  # fmt: skip
    lines = ended.out.decode().splitlines()
    assert lines[0] == f"a b=c||none|{tmp_path}|77|0"
    assert lines[1] == "7"
    assert lines[2].split() == ["Cpus_allowed_list:", "0"]
    assert lines[3] == "4"  # 0, 1, 2 and the folder that ls reads


def test_the_program_leads_a_session_of_its_own_without_blocked_or_ignored_signals(agent: Agent) -> None:
    script = 'read -r line </proc/$$/stat; echo $$ $line; grep -E "^Sig(Blk|Ign)" /proc/$$/status'
    words = agent.command("run", "--", "/bin/bash", "-c", script)
    with started(["/bin/sh", "-c", 'trap "" HUP INT QUIT; exec "$@"', "sh", *words]) as process:
        ended = agent.finish(process)
    numbers, *signals = ended.out.decode().splitlines()
    pid, _, _, _, _, group, session = numbers.split()[:7]
    assert pid == group == session
    # Signals 32 to 34 belong to the C library, which lets nobody reset them; below make, glibc's posix_spawn ignores 32.
    ours = ~(0b111 << 31)
    assert [int(line.split()[1], 16) & ours for line in signals] == [0, 0]


def test_the_agent_copes_without_standard_descriptors(native_agent: Agent) -> None:
    words = native_agent.command("run", "--", "/bin/sh", "-c", "echo out; echo err >&2; cat")
    with started(["/bin/sh", "-c", 'exec "$@" <&- 2>&-', "sh", *words]) as process:
        ended = native_agent.finish(process)
    assert (ended.out, ended.err, ended.report.exit_code) == (b"out\n", b"err\n", 0)


# measuring -------------------------------------------------------------------------------------------

BURN = """
import resource, time
block = bytearray(60_000_000)
block[::4096] = b"x" * len(block[::4096])
end = time.process_time() + 0.5
while time.process_time() < end: pass
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_maxrss, usage.ru_utime, usage.ru_stime, usage.ru_minflt, usage.ru_nvcsw, flush=True)
"""


def test_what_the_program_used_agrees_with_its_own_measurement(native_agent: Agent) -> None:
    ended = native_agent.run("--", sys.executable, "-c", BURN)
    peak_kb, user, system, faults, switches = (float(word) for word in ended.out.split())
    usage = ended.report.usage
    assert usage is not None
    # The program's own numbers lack only its last moments.
    assert usage.max_rss_bytes == pytest.approx(peak_kb * 1024, rel=0.05)
    assert usage.max_rss_bytes > 60_000_000
    assert user + system <= usage.user_seconds + usage.system_seconds + 0.01
    assert usage.user_seconds + usage.system_seconds < user + system + 1.0
    assert faults <= usage.minor_faults < faults + 5000
    assert usage.voluntary_switches >= switches
    assert ended.report.wall_seconds > 0.4


def test_time_and_memory_of_what_the_program_waited_for_are_counted(native_agent: Agent) -> None:
    ended = native_agent.run("--", "/bin/sh", "-c", '"$0" -c "$1"; true', sys.executable, BURN)
    usage = ended.report.usage
    assert usage is not None
    assert usage.max_rss_bytes > 60_000_000
    assert usage.user_seconds + usage.system_seconds > 0.45


def test_the_board_is_sampled_while_the_program_runs(agent: Agent) -> None:
    ended = agent.run("--sample=100", "--", "/bin/sleep", "1.05")
    assert len(ended.samples) >= 2
    times = [sample.seconds for sample in ended.samples]
    assert times == sorted(times)
    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(meminfo["MemAvailable"].split()[0]) * 1024
    for sample in ended.samples:
        assert sample.available_bytes == pytest.approx(available, rel=0.5)
        assert 0 < sample.resident_bytes < 100_000_000
        assert sample.major_faults is not None and sample.read_bytes is not None
    zones = sorted(Path("/sys/class/thermal").glob("thermal_zone*")) if Path("/sys/class/thermal").is_dir() else []
    assert len(ended.samples[0].temperatures) <= len(zones)


def test_the_first_output_is_timed_by_the_boards_clock(native_agent: Agent) -> None:
    ended = native_agent.run("--", "/bin/sh", "-c", "sleep 0.3; echo first; sleep 0.3")
    assert ended.report.first_output_seconds is not None
    assert 0.3 <= ended.report.first_output_seconds < ended.report.wall_seconds


def test_a_hundred_processes_are_ended_at_once(native_agent: Agent) -> None:
    script = "for i in $(seq 100); do (trap '' TERM; while :; do sleep 5; done) & done; echo started; wait"
    for deadline in DEADLINES:
        ended = native_agent.run(f"--deadline={deadline}", "--grace=100", "--", "/bin/sh", "-c", script)
        assert (ended.report.reason, ended.report.survivors) == ("deadline", 0)
        if ended.out:
            break
    assert ended.out == b"started\n"


def test_a_program_that_starts_others_without_end_is_ended(native_agent: Agent, tmp_path: Path) -> None:
    script = 'trap "" TERM; f() { while :; do (trap "" TERM; : >>"$0"; sleep 0.02) & sleep 0.01; done; }; f & f & f'
    for deadline in DEADLINES:
        options = (f"--deadline={deadline}", "--grace=100")
        ended = native_agent.run(*options, "--", "/bin/sh", "-c", script, tmp_path / "mark")
        assert (ended.report.reason, ended.report.survivors) == ("deadline", 0)
        if (tmp_path / "mark").exists():
            break
    last = (tmp_path / "mark").stat().st_mtime_ns
    time.sleep(0.3)
    assert (tmp_path / "mark").stat().st_mtime_ns == last
