"""What the emulated board is made of, and which programs run on it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from deploy.board.profiles import load_emulation
from deploy.emulator.board.boards import (
    create_board,
)
from tests.support.emulated import ROOT, Hdc
from tests.support.emulated_programs import TMP, run_pushed
from tests.support.tiny_elf import write_arm32, write_arm64, write_dynamic
from tests.support.waiting import wait_until

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


def test_the_daemon_is_seen_by_its_name_and_tells_its_version(hdc: Hdc) -> None:
    assert hdc.shell("hdcd -v") == b"Ver: 3.2.0f\n"
    assert hdc.shell("param get const.hdc.version") == b"Ver: 3.2.0f\n"
    number = hdc.shell("pidof hdcd").strip()
    assert hdc.shell("pgrep -x hdcd").strip() == number
    assert hdc.shell(f"cat /proc/{number.decode()}/cmdline") == b"/system/bin/hdcd\0"


def test_a_forwarded_port_belongs_to_the_daemon(hdc: Hdc) -> None:
    hdc.shell("nc -l -p 7011 -s 127.0.0.1 >/dev/null 2>&1 </dev/null &")
    wait_until("the port", lambda: b":7011 " in hdc.shell("netstat -lnt"))
    hdc.board("rport", "tcp:7010", "tcp:7012")
    try:
        listening = {line.split()[3]: line.split()[-1] for line in hdc.shell("netstat -lntp").splitlines()[2:]}
        assert listening[b"127.0.0.1:7010"] == b"%b/hdcd" % hdc.shell("pidof hdcd").strip()
        assert listening[b"127.0.0.1:7011"].endswith(b"/nc")
        assert hdc.shell("netstat -lnt").splitlines()[1:] == hdc.shell("toybox netstat -lnt").splitlines()[1:]
    finally:
        hdc("fport", "rm", "tcp:7010", "tcp:7012")
        hdc.shell("pkill nc")


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


def test_a_form_of_the_log_that_does_not_exist_is_refused(hdc: Hdc) -> None:
    assert hdc.shell("hilog -v xxx") == b"Invalid argument: xxx\n"
    assert hdc.shell("hilog -v time -x -e no.such.text") == b""


def test_the_log_is_streamed_until_the_client_goes(hdc: Hdc) -> None:
    lines = [f"01-31 12:00:0{second}.000   100   100 I C02d10/Test: hello" for second in (1, 2)]
    with hdc.start("hilog", "--ignored", "words") as process:
        try:
            for line in lines:  # The second comes when the first has been shown.
                hdc.shell(f"echo '{line}' >>/data/log/hilog/hilog.log")
                assert process.stdout is not None
                assert process.stdout.readline() == f"{line}\n".encode()
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
        wait_until("the start", lambda: b"/spin\0" in hdc.shell(f"cat /proc/{started}/cmdline"))
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
