"""How the emulated board starts and ends, with namespaces, without them, on old kernels and on poor machines."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import HostToolMissing, HostUnsupported, UsageError
from deploy.emulator.board.boards import (
    SANDBOX,
    create_board,
    is_running,
    list_emulated,
    read_board,
    start_board,
    stop_board,
)
from deploy.emulator.sandbox import tools
from deploy.emulator.sandbox.binfmt import FORCE_HOST
from tests.support.emulated import ROOT, Hdc
from tests.support.emulated_programs import TMP, run_pushed
from tests.support.nobody import Nobody
from tests.support.tiny_elf import write_arm32, write_arm64, write_dynamic
from tests.support.waiting import wait_until

# how it starts and ends ----------------------------------------------------------------------------


def test_the_first_command_starts_the_board_and_stopping_it_leaves_no_process(own: Hdc) -> None:
    assert own.shell("setsid sleep 600 </dev/null >/dev/null 2>&1 & echo up") == b"up\n"
    (board,) = list_emulated()
    assert is_running(board)
    assert len(_processes_of(board.serial, own)) >= 3
    assert stop_board(board)
    assert not is_running(board)
    assert _processes_of(board.serial, own) == []
    assert not stop_board(board)


def _processes_of(serial: str, hdc: Hdc) -> list[str]:
    home = hdc.environment["OHFORGE_EMULATOR_HOME"]
    listed = subprocess.run(["ps", "-ewwo", "args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if f"{home}/{serial}" in line]


def test_the_board_outlives_who_started_it_and_the_disk_outlives_the_board(own: Hdc) -> None:
    sleepers = "ps -A -o ARGS | grep -c '^sleep 600'"
    assert own.shell(f"sleep 600 </dev/null >/dev/null 2>&1 & echo written >{TMP}/kept") == b""
    assert own.shell(sleepers) == b"1\n"
    (board,) = list_emulated()
    stop_board(board)
    assert own.shell(f"cat {TMP}/kept; {sleepers}") == b"written\n0\n"


def test_many_first_commands_at_once_start_one_board(own: Hdc) -> None:
    running = [own.start("shell", f"echo {number} ") for number in range(6)]
    answers = [process.communicate(timeout=60)[0] for process in running]
    assert answers == [f"{number}\n".encode() for number in range(6)]
    assert len(_processes_of("emulated-dayu200", own)) == 3


def test_an_idle_board_ends_by_itself(own: Hdc) -> None:
    board = create_board("emulated-dayu200", idle_seconds=1.0)
    own.shell("true ")
    assert is_running(board)
    wait_until("the end of the board", lambda: not is_running(board))


def test_a_board_whose_folder_is_removed_ends(own: Hdc) -> None:
    own.shell("true ")
    (board,) = list_emulated()
    shutil.rmtree(board.folder)
    wait_until("the end of the board", lambda: not _processes_of(board.serial, own))


def test_a_reboot_ends_all_programs_and_keeps_the_disk(own: Hdc) -> None:
    own.shell(f"sleep 600 </dev/null >/dev/null 2>&1 & echo written >{TMP}/kept")
    boot = own.shell("cat /proc/sys/kernel/random/boot_id")
    assert own.shell("cat /proc/sys/kernel/random/boot_id") == boot
    assert boot.strip() != Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
    assert own.board("target", "boot") == b""
    assert own.board("shell", "echo hi ") == b"[Fail][E001005] Device not found or connected\r\n"
    own.board("wait")
    assert own.shell(f"cat {TMP}/kept; ps -A -o ARGS | grep -c '^sleep 600'") == b"written\n0\n"
    assert len(own.shell("cat /proc/sys/kernel/random/boot_id")) == len(boot) == 37
    assert own.shell("cat /proc/sys/kernel/random/boot_id") != boot


def test_a_restart_of_the_daemon_keeps_the_programs(own: Hdc) -> None:
    started = own.shell("setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!").strip().decode()
    assert own.board("smode") == b""
    own.board("wait")
    assert own.shell(f"kill -0 {started} && echo alive") == b"alive\n"


def test_a_disk_in_memory_is_full_when_it_is_full(own: Hdc, tmp_path: Path) -> None:
    create_board("emulated-dayu200", memory_disk=3_000_000)
    words = own.shell(f"df -k {TMP}").decode().splitlines()[-1].split()
    assert int(words[1]) == -(-3_000_000 // 4096) * 4
    (tmp_path / "big").write_bytes(bytes(5_000_000))
    answer = own.board("file", "send", str(tmp_path / "big"), f"{TMP}/big").decode()
    assert answer.endswith("/5000000(Bytes), Reason: no space left on device\r\n")
    stopped_at = int(answer.split("at:")[1].split("/")[0])
    left = int(own.shell(f"stat -c %s {TMP}/big"))
    assert stopped_at % 418_611 == 0
    assert stopped_at <= left <= int(words[1]) * 1024
    assert b"No space left" in own.shell(f"head -c 5000000 /dev/zero >{TMP}/more")


@pytest.mark.parametrize("kind", ["namespaces", "proot"])
def test_a_program_that_takes_too_much_memory_is_killed(own: Hdc, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "proot" and shutil.which("proot") is None:
        pytest.skip("proot is not installed")
    monkeypatch.setenv(SANDBOX, kind)
    create_board("emulated-dayu200", memory_kib=100_000)
    assert b"MemTotal:         100000 kB" in own.shell("cat /proc/meminfo")
    # sort keeps a line in memory until it has come whole, and this one never does.
    output = own.shell("(head -c 300000000 /dev/zero; sleep 20) | sort >/dev/null; echo =$?")
    assert output.splitlines()[-1] == b"=137"
    assert own.shell("echo alive") == b"alive\n"


def test_memory_in_use_is_told(own: Hdc) -> None:
    before = available_kib(own)
    with own.start("shell", "(head -c 200000000 /dev/zero; sleep 600) | sort >/dev/null") as process:
        try:
            wait_until("the use of the memory", lambda: before - available_kib(own) >= 150_000)
        finally:
            own.shell("pkill sleep; pkill sort")
            process.kill()


def available_kib(hdc: Hdc) -> int:
    return int(hdc.shell("grep MemAvailable /proc/meminfo").split()[1])


def test_commands_can_be_missing_or_hollow(own: Hdc) -> None:
    create_board("emulated-dayu200", hidden_tools=["timeout"], hollow_tools=["sha256sum"])
    assert b"not found" in own.shell("timeout 1 true")
    assert own.shell("ls /bin/sha256sum; sha256sum </dev/null; echo $?") == (
        b"/bin/sha256sum\ntoybox: Unknown command sha256sum\n127\n"
    )
    assert own.shell("md5sum </dev/null") == b"d41d8cd98f00b204e9800998ecf8427e  -\n"


def test_every_tool_that_openharmony_images_always_have_is_there(hdc: Hdc) -> None:
    names = (
        "md5sum sha1sum cksum df dd du stat truncate split timeout setsid nohup pgrep pkill kill ps top free tail head"
        " cmp taskset nice nproc wc od base64 tar gzip grep sed find xargs sort seq mktemp readlink realpath flock tee watch"
    )
    missing = hdc.shell(f"for tool in {names}; do type $tool >/dev/null || echo $tool; done").split()
    assert missing in ([], [b"dd", b"gzip"]), "busybox gives dd and gzip; without it they are missing"


def test_an_unprivileged_user_can_have_a_board() -> None:
    check_as_nobody("namespaces")


def test_an_unprivileged_user_can_have_a_board_without_namespaces() -> None:
    check_as_nobody("proot")


def check_as_nobody(kind: str) -> None:
    with Nobody.settled(kind) as nobody:
        write_arm64(nobody.folder / "program", b"ran as nobody\n", status=3).chmod(0o644)
        assert "finish" in nobody.hdc("file", "send", str(nobody.folder / "program"), f"{TMP}/p")
        script = f"chmod 755 {TMP}/p; {TMP}/p; echo $?; uname -m; id -u"
        assert nobody.hdc("shell", script) == "ran as nobody\n3\naarch64\n0\n"
        assert nobody.manage("start") == f"emulated-dayu200 runs ({kind})\n"


# the sandbox without namespaces --------------------------------------------------------------------


@pytest.fixture
def proot(own: Hdc, monkeypatch: pytest.MonkeyPatch) -> Hdc:
    if shutil.which("proot") is None:
        pytest.skip("proot is not installed")
    monkeypatch.setenv(SANDBOX, "proot")
    return own


def test_without_namespaces_programs_of_both_arches_run(proot: Hdc, tmp_path: Path) -> None:
    assert run_pushed(proot, write_arm64(tmp_path / "p64", b"64 bit\n", status=7)) == "64 bit\n=7\n"
    assert run_pushed(proot, write_arm32(tmp_path / "p32", b"32 bit\n", status=8)) == "32 bit\n=8\n"
    dynamic = run_pushed(proot, write_dynamic(tmp_path / "dynamic", "/lib/ld-musl-aarch64.so.1"))
    assert dynamic == "/bin/sh: ./dynamic: No such file or directory\n=126\n"


def test_without_namespaces_the_shell_behaves_the_same(proot: Hdc) -> None:
    assert proot.shell("uname -m; id -u; pwd; cat /proc/cpuinfo | grep -c 0xd05") == b"aarch64\n0\n/\n4\n"
    with proot.start("shell", "sleep 20 </dev/null >/dev/null 2>&1 & echo $!") as process:
        number = process.communicate(timeout=15)[0].decode().strip()
    proot.shell(f"kill {number}")
    fields = proot.shell("cut -d ' ' -f 5,6 /proc/$$/stat; echo $$").split()
    assert len(set(fields)) == 1


def test_without_namespaces_links_on_the_disk_are_followed_as_on_the_board(proot: Hdc, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("text")
    proot.shell(f"cd {TMP}; mkdir real; ln -s {TMP}/real link; ln -s /etc up")
    assert b"finish" in proot.board("file", "send", str(tmp_path / "x"), f"{TMP}/link/x")
    assert proot.shell(f"cat {TMP}/real/x") == b"text"
    assert b"finish" in proot.board("file", "recv", f"{TMP}/up/passwd", str(tmp_path / "passwd"))
    assert (tmp_path / "passwd").read_text().startswith("root:x:0:0")


def test_without_namespaces_stopping_leaves_no_process_either(proot: Hdc) -> None:
    number = proot.shell("setsid sleep 600 </dev/null >/dev/null 2>&1 & echo $!; sleep 0.3").strip()
    assert Path(f"/proc/{number.decode()}/cmdline").read_bytes().endswith(b"sleep\x00600\x00")
    (board,) = list_emulated()
    stop_board(board)
    assert not Path(f"/proc/{number.decode()}").exists()
    assert _processes_of(board.serial, proot) == []


def test_proot_is_taken_only_when_it_is_asked_for(own: Hdc) -> None:
    if shutil.which("proot") is None:
        pytest.skip("proot is not installed")
    # In a user namespace that may have none within it, as in a container.
    forbidding = [
        "unshare",
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        'echo 0 >/proc/sys/user/max_user_namespaces; exec "$@"',
    ]
    start = [*forbidding, "sh", sys.executable, "-m", "deploy.emulator.manage", "start"]

    def call(**more: str) -> tuple[int, str, str]:
        environment = {**os.environ, **own.environment, **more}
        done = subprocess.run(
            start, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
        )
        return done.returncode, done.stdout, done.stderr

    assert call(**{SANDBOX: "prot"})[0] == UsageError.category.value
    status, said, complaint = call()
    assert (status, said) == (HostUnsupported.category.value, "")
    assert "User namespaces are forbidden here" in complaint
    assert f"{SANDBOX}=any" in complaint
    assert call(**{SANDBOX: "any"})[:2] == (0, "emulated-dayu200 runs (proot)\n")


def test_the_network_ends_at_the_board_unless_its_settings_say_otherwise(own: Hdc) -> None:
    with socket.socket() as service:
        service.bind(("127.0.0.1", 0))
        service.listen()
        ask = f"nc -w 2 127.0.0.1 {service.getsockname()[1]} </dev/null; echo =$?"
        assert own.shell(ask).splitlines()[-1] == b"=1"
        stop_board(create_board("emulated-dayu200", network="host"))
        service.settimeout(60)
        with own.start("shell", ask):
            service.accept()[0].close()


# kernels before 6.7 ---------------------------------------------------------------------------------


def test_the_machines_own_emulators_serve_where_namespaces_have_none(tmp_path: Path) -> None:
    # A user namespace around everything plays the machine: its binfmt_misc is what the boards inside find.
    qemu = shutil.which("qemu-aarch64-static")
    assert qemu is not None
    program = write_arm64(tmp_path / "program", b"ran\n", status=3)
    magic = "".join(f"\\\\x{byte:02x}" for byte in b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00")
    arm32 = magic.replace("x02", "x01", 1).replace("xb7", "x28")
    call = f"{sys.executable} -m deploy.emulator"
    script = f"""set -e
        mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
        printf '%b' ':q64:M::{magic}::{qemu}:F' >/proc/sys/fs/binfmt_misc/register
        {call}.stand_in.cli shell 'echo one ' 2>&1 || true
        printf '%b' ':q32:M::{arm32}::{shutil.which("qemu-arm-static")}:' >/proc/sys/fs/binfmt_misc/register
        {call}.stand_in.cli file send {program} {TMP}/program >/dev/null
        {call}.stand_in.cli shell 'cd {TMP}; chmod 755 program; ./program; echo =$?'
        {call}.manage stop"""
    environment = {
        **os.environ,
        "OHFORGE_EMULATOR_HOME": str(tmp_path / "boards"),
        "TMPDIR": str(tmp_path),
        SANDBOX: "namespaces",
        FORCE_HOST: "host",
    }
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    first, rest = done.stdout.split("\n", 1)
    assert "has no emulator for arm32" in first
    assert rest == "ran\n=3\nemulated-dayu200 stopped\n"
    assert done.stderr == ""


# what this machine lacks ---------------------------------------------------------------------------


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "_SEARCH", "/nowhere")
    with pytest.raises(HostToolMissing, match="'mksh'") as caught:
        tools.find_tools(("arm32", "arm64"))
    assert caught.value.remedy.endswith("sudo apt install mksh toybox qemu-user-static")


def test_a_board_that_cannot_be_started_says_why(own: Hdc) -> None:
    board = create_board("emulated-dayu200")
    shutil.rmtree(board.run / "root")
    (board.run / "root").write_text("no folder")
    with pytest.raises(HostUnsupported, match="run/root"):
        _start_with(board.folder, "namespaces")
    answer = Hdc(environment={**own.environment, SANDBOX: "namespaces"})("shell", "echo hi ")
    assert answer.stdout == b""
    assert answer.stderr.startswith(b"emulated board: The kernel refused")
    assert answer.status == 77


def _start_with(folder: Path, kind: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SANDBOX, kind)
        start_board(read_board(folder))
