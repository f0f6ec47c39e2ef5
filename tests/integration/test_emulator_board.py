"""The emulated board itself: what it is made of, which programs run on it, how it starts and ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import HostToolMissing, HostUnsupported
from deploy.emulator import tools
from deploy.emulator.binfmt import FORCE_HOST
from deploy.emulator.disk import (
    SANDBOX,
    create_board,
    is_running,
    list_emulated,
    read_board,
    start_board,
    stop_board,
)
from deploy.profiles import load_emulation
from tests.support.emulated import ROOT, Hdc, emulated_home
from tests.support.tiny_elf import write_arm32, write_arm64, write_dynamic

TMP = "/data/local/tmp"


@pytest.fixture(scope="module")
def hdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdc]:
    with emulated_home(tmp_path_factory.mktemp("emulated")) as environment:
        yield Hdc(environment=environment)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hdc]:
    """A home for boards that this test alone uses; also what the functions called here see."""
    with emulated_home(tmp_path) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield Hdc(environment=environment)


def run_pushed(hdc: Hdc, program: Path, *words: str) -> str:
    remote = f"{TMP}/{program.name}"
    hdc.shell(f"rm -f {remote}")
    assert b"finish" in hdc.board("file", "send", str(program), remote)
    return hdc.shell(f"cd {TMP}; chmod 755 {program.name}; ./{program.name} {' '.join(words)}; echo =$?").decode()


# what it is made of --------------------------------------------------------------------------------


def test_the_board_shows_its_own_kernel_and_machine(hdc: Hdc) -> None:
    shown = load_emulation("dayu200")[1]
    assert hdc.shell("uname -m") == b"aarch64\n"
    assert hdc.shell("uname -sr").decode() == f"Linux {shown.kernel}\n"
    assert hdc.shell("uname -n; hostname") == b"localhost\nlocalhost\n"
    assert hdc.shell("cat /proc/version").startswith(f"Linux version {shown.kernel} (emulated".encode())
    assert b"bad option" in hdc.shell("uname -Q")


def test_proc_and_sys_come_from_the_profile(hdc: Hdc) -> None:
    cpu = hdc.shell("cat /proc/cpuinfo").decode()
    assert cpu.count("processor\t: ") == 4
    assert cpu.count("CPU part\t: 0xd05\n") == 4
    assert "MemTotal:        1982468 kB\n" in hdc.shell("cat /proc/meminfo").decode()
    assert hdc.shell("cat /sys/class/thermal/thermal_zone0/type") == b"soc-thermal\n"
    assert hdc.shell("cat /sys/class/thermal/thermal_zone0/temp") == b"42500\n"
    assert hdc.shell("cat /sys/devices/system/cpu/online") == b"0-3\n"
    assert hdc.shell("cat /sys/devices/system/cpu/cpu2/cpufreq/scaling_max_freq") == b"1992000\n"


def test_the_governor_of_one_core_is_that_of_all(hdc: Hdc) -> None:
    folder = "/sys/devices/system/cpu"
    hdc.shell(f"echo powersave >{folder}/cpu3/cpufreq/scaling_governor")
    assert hdc.shell(f"cat {folder}/cpu0/cpufreq/scaling_governor {folder}/cpufreq/policy0/scaling_governor") == (
        b"powersave\npowersave\n"
    )
    hdc.shell(f"echo ondemand >{folder}/cpu0/cpufreq/scaling_governor")


def test_parameters_are_answered_and_can_be_set(hdc: Hdc) -> None:
    assert hdc.shell("param get const.product.model") == b"DAYU200\n"
    assert hdc.shell("param get const.product.cpu.abilist") == b"armeabi-v7a\n"
    assert b"fail" in hdc.shell("param get no.such.thing")
    hdc.shell("param set test.own.value 'one two'")
    assert hdc.shell("param get test.own.value") == b"one two\n"
    hdc.shell("param set test.own.value three")
    assert hdc.shell("param get test.own.value") == b"three\n"
    assert b"fail" in hdc.shell("param set const.product.model other")
    assert b"const.ohos.apiversion = 15\n" in hdc.shell("param get")


def test_the_log_can_be_filtered_and_cleared(hdc: Hdc) -> None:
    entries = [
        "01-31 12:00:00.000   100   100 I C02d10/Camera: opened",
        "01-31 12:00:01.000   101   102 E C03f00/MsLite: no model",
        "01-31 12:00:02.000   101   102 D A00000/MsLite: detail: more",
    ]
    hdc.shell("cat >/data/log/hilog/hilog.log <<'END'\n" + "\n".join(entries) + "\nEND\n")
    assert hdc.shell("hilog -x").decode().splitlines() == entries
    assert hdc.shell("hilog -x -T MsLite").decode().splitlines() == entries[1:]
    assert hdc.shell("hilog -x -L E,I").decode().splitlines() == entries[:2]
    assert hdc.shell("hilog -x -P 100").decode().splitlines() == entries[:1]
    assert hdc.shell("hilog -z 1").decode().splitlines() == entries[2:]
    hdc.shell("hilog -r")
    assert hdc.shell("hilog -x") == b""


def test_the_log_is_streamed_until_the_client_goes(hdc: Hdc) -> None:
    line = b"01-31 12:00:00.000   100   100 I C02d10/Test: hello"
    with hdc.start("hilog", "--ignored", "words") as process:
        try:
            time.sleep(1.0)
            hdc.shell(f"echo '{line.decode()}' >>/data/log/hilog/hilog.log")
            assert process.stdout is not None
            assert process.stdout.readline() == line + b"\n"
        finally:
            process.kill()


def test_only_the_disk_can_be_written(hdc: Hdc) -> None:
    assert b"Read-only file system" in hdc.shell("touch /system/x")
    assert b"Read-only file system" in hdc.shell("touch /x")
    assert hdc.shell("touch /data/x && rm /data/x && echo yes") == b"yes\n"


def test_nothing_of_this_machine_is_there(hdc: Hdc) -> None:
    assert hdc.shell("ls /").decode().split() == [
        *("bin", "config", "data", "dev", "etc", "lib", "lib64", "mnt"),
        *("proc", "storage", "sys", "system", "tmp", "usr", "vendor"),
    ]
    assert hdc.shell("ls /mnt /usr") == b"/mnt:\n\n/usr:\nbin\nlocal\n"
    assert str(ROOT).encode() not in hdc.shell("cat /proc/mounts")


def test_only_processes_of_the_board_are_seen(hdc: Hdc) -> None:
    names = hdc.shell("ps -A -o CMD").decode().split()[1:]
    assert names[:2] == ["init", "hdcd"]
    assert set(names[2:]) <= {"sh", "ps"}


def test_the_disk_is_the_folder_and_is_told_by_df(hdc: Hdc) -> None:
    hdc.shell(f"echo kept >{TMP}/kept")
    home = Path(hdc.environment["OHFORGE_EMULATOR_HOME"])
    assert (home / "emulated-dayu200/data/local/tmp/kept").read_text() == "kept\n"
    words = hdc.shell(f"df -k {TMP}").decode().splitlines()[-1].split()
    state = os.statvfs(home)
    assert words[-1] == "/data"
    assert int(words[1]) == state.f_blocks * state.f_frsize // 1024


# which programs run --------------------------------------------------------------------------------


def test_static_programs_of_both_arches_run_on_the_32_bit_board(hdc: Hdc, tmp_path: Path) -> None:
    assert run_pushed(hdc, write_arm64(tmp_path / "p64", b"64 bit\n", status=7)) == "64 bit\n=7\n"
    assert run_pushed(hdc, write_arm32(tmp_path / "p32", b"32 bit\n", status=8)) == "32 bit\n=8\n"


def test_a_program_that_crashes_gives_the_status_of_its_signal(hdc: Hdc, tmp_path: Path) -> None:
    output = run_pushed(hdc, write_arm64(tmp_path / "crash", b"before\n", crash=True))
    assert output.startswith("before\n")
    assert output.endswith("=139\n")


def test_a_dynamic_program_without_its_loader_is_refused_as_by_the_kernel(hdc: Hdc, tmp_path: Path) -> None:
    output = run_pushed(hdc, write_dynamic(tmp_path / "dynamic", "/lib/ld-musl-aarch64.so.1"))
    assert "./dynamic: No such file or directory" in output or "not found" in output
    assert output.splitlines()[-1] in ("=126", "=127")


def test_a_program_of_this_machine_is_no_program_of_the_board(hdc: Hdc) -> None:
    true = shutil.which("true")
    assert true is not None
    output = run_pushed(hdc, Path(true))
    assert "not executable" in output
    assert "=0" not in output


def test_scripts_run_with_the_boards_shell(hdc: Hdc, tmp_path: Path) -> None:
    (tmp_path / "script").write_text("#!/bin/sh\necho $1-$#; exit 4\n")
    assert run_pushed(hdc, tmp_path / "script", "a", "b") == "a-2\n=4\n"


def test_a_running_arm_program_is_busy(hdc: Hdc, tmp_path: Path) -> None:
    program = write_arm64(tmp_path / "spin", b"up\n", spin=True)
    hdc.board("file", "send", "-m", str(program), f"{TMP}/spin")
    started = hdc.shell(f"chmod 755 {TMP}/spin; {TMP}/spin </dev/null >/dev/null 2>&1 & echo $!").decode().strip()
    try:
        time.sleep(0.5)
        answer = hdc.board("file", "send", str(program), f"{TMP}/spin")
    finally:
        hdc.shell(f"kill -9 {started}")
    assert answer == f"[Fail]Error opening file: text file is busy, path:{TMP}/spin\r\n".encode()


def test_the_64_bit_board_is_another_board(hdc: Hdc, tmp_path: Path) -> None:
    other = Hdc(environment=hdc.environment, key="emulated-dayu200-arm64")
    assert other.shell("param get const.product.cpu.abilist; uname -m") == b"arm64-v8a\naarch64\n"
    assert run_pushed(other, write_arm64(tmp_path / "p64", b"hi\n")) == "hi\n=0\n"
    assert b"emulated-dayu200\nemulated-dayu200-arm64\n" in hdc("list", "targets").stdout
    answer = hdc("shell", "echo which ").stdout
    assert answer == b"[Fail]ExecuteCommand need connect-key? please confirm a device by help info\r\n"


def test_pushed_libraries_make_dynamic_programs_run(own: Hdc, tmp_path: Path) -> None:
    # The "loader" is a static program under the loader's name: that it runs shows that it was found.
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    write_arm64(libraries / "libc.so", b"the loader ran\n", status=5).chmod(0o755)
    create_board("emulated-dayu200", libraries={"arm64": str(libraries)})
    assert b"libc.so" in own.shell("ls -l /lib/ld-musl-aarch64.so.1")
    output = run_pushed(own, write_dynamic(tmp_path / "dynamic", "/lib/ld-musl-aarch64.so.1"))
    assert "No such file" not in output


def test_the_cpu_of_the_plain_board_lacks_dot_products(own: Hdc, tmp_path: Path) -> None:
    # sdot v0.4s, v0.16b, v0.16b (A64: 0x4e809400): on an ARMv8.0 CPU an illegal instruction, signal 4.
    program = write_arm64(tmp_path / "dot", b"")
    code = program.read_bytes().replace(b"\x20\x00\x80\xd2", b"\x00\x94\x80\x4e", 1)
    program.write_bytes(code)
    assert run_pushed(own, program).endswith("=0\n")
    plain = Hdc(environment=own.environment, key="emulated-generic")
    assert run_pushed(plain, program).endswith("=132\n")


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
    until = time.monotonic() + 30
    while is_running(board) and time.monotonic() < until:
        time.sleep(0.2)
    assert not is_running(board)


def test_a_board_whose_folder_is_removed_ends(own: Hdc) -> None:
    own.shell("true ")
    (board,) = list_emulated()
    shutil.rmtree(board.folder)
    until = time.monotonic() + 30
    while _processes_of(board.serial, own) and time.monotonic() < until:
        time.sleep(0.2)
    assert _processes_of(board.serial, own) == []


def test_a_reboot_ends_all_programs_and_keeps_the_disk(own: Hdc) -> None:
    own.shell(f"sleep 600 </dev/null >/dev/null 2>&1 & echo written >{TMP}/kept")
    assert own.board("target", "boot") == b""
    assert own.board("shell", "echo hi ") == b"[Fail][E001005] Device not found or connected\r\n"
    own.board("wait")
    assert own.shell(f"cat {TMP}/kept; ps -A -o ARGS | grep -c '^sleep 600'") == b"written\n0\n"


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
            until = time.monotonic() + 30
            while before - available_kib(own) < 150_000:
                assert time.monotonic() < until
                time.sleep(0.3)
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


def test_an_unprivileged_user_can_have_a_board(tmp_path_factory: pytest.TempPathFactory) -> None:
    if os.geteuid() != 0:
        pytest.skip("the tests run as an ordinary user already")
    check_as_nobody(tmp_path_factory, "namespaces")


def test_an_unprivileged_user_can_have_a_board_without_namespaces(tmp_path_factory: pytest.TempPathFactory) -> None:
    if os.geteuid() != 0 or shutil.which("proot") is None:
        pytest.skip("needs root and proot")
    check_as_nobody(tmp_path_factory, "proot")


def check_as_nobody(factory: pytest.TempPathFactory, kind: str) -> None:
    """Copies what is needed to where nobody can read it, and runs an ARM program as nobody."""
    python = "/usr/bin/python3"
    version = subprocess.run(
        [python, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, check=False
    )
    if version.stdout.decode().strip() != str(sys.version_info[:2]):
        pytest.skip(f"needs {python} of this Python's version, because this one lies where nobody may read")
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    folder = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    try:
        shutil.copytree(ROOT / "core", folder / "code/core")
        shutil.copytree(ROOT / "deploy", folder / "code/deploy")
        shutil.copytree(ROOT / "toolchains", folder / "code/toolchains")
        write_arm64(folder / "program", b"ran as nobody\n", status=3).chmod(0o644)
        subprocess.run(["chown", "-R", "65534:65534", folder], check=True)
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{folder}/code:{packages}",
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "OHFORGE_EMULATOR_HOME": str(folder / "boards"),
            SANDBOX: kind,
        }

        def call(*words: str) -> str:
            prefix = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
            done = subprocess.run(
                [*prefix, python, *words],
                env=environment,
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            return done.stdout + done.stderr

        try:
            assert "finish" in call("-m", "deploy.emulator.cli", "file", "send", str(folder / "program"), f"{TMP}/p")
            script = f"chmod 755 {TMP}/p; {TMP}/p; echo $?; uname -m; id -u"
            assert call("-m", "deploy.emulator.cli", "shell", script) == "ran as nobody\n3\naarch64\n0\n"
            assert call("-m", "deploy.emulator.manage", "start") == f"emulated-dayu200 runs ({kind})\n"
        finally:
            assert "stopped" in call("-m", "deploy.emulator.manage", "stop")
    finally:
        shutil.rmtree(folder)


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
    number = proot.shell("setsid sleep 600 </dev/null >/dev/null 2>&1 & sleep 0.3; pgrep -f 'sleep 600'").split()[0]
    (board,) = list_emulated()
    stop_board(board)
    assert not Path(f"/proc/{number.decode()}").exists()
    assert _processes_of(board.serial, proot) == []


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
        {call}.cli shell 'echo one ' 2>&1 || true
        printf '%b' ':q32:M::{arm32}::{shutil.which("qemu-arm-static")}:' >/proc/sys/fs/binfmt_misc/register
        {call}.cli file send {program} {TMP}/program >/dev/null
        {call}.cli shell 'cd {TMP}; chmod 755 program; ./program; echo =$?'
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
