"""Packages, lists, reports and parameters: what the emulated board's daemon answers, recorded from a real one."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.emulator.protocol.wire import Command, LinkEnded, frame, pack
from tests.support.daemon_client import agreed, next_frame, output_of

TMP = "/data/local/tmp"

NO_MANAGER = b"E: /bin/sh: bm: inaccessible or not found "


def test_packages_are_answered_as_an_image_without_bundle_manager_does(daemons: dict[str, tuple[int, Path]]) -> None:
    with agreed(daemons["open"][0]) as link:
        link.sendall(frame(50, Command.WAKEUP))
        said = b""
        for name in (b"56f7d11c6.hsp", b"6af4717de.hap"):
            check = pack(2, 0, 0, b"", b"", name, 0, 0, 0, b"install", b"/w/", b"", b"")
            link.sendall(frame(50, Command.APP_CHECK, check))
            assert next_frame(link) == (50, Command.APP_BEGIN, bytes.fromhex("05 00 00 00 00 00 00 00"))
            prefix = bytes.fromhex("08 00 10 00 18 02 20 02") + bytes(56)
            link.sendall(frame(50, Command.APP_DATA, prefix + b"x\n"))
            said += NO_MANAGER  # Each answer repeats those before.
            assert next_frame(link) == (50, Command.APP_FINISH, b"\1\0" + said)
        link.sendall(frame(50, Command.CHANNEL_CLOSE, b"\1"))
        assert next_frame(link) == (50, Command.CHANNEL_CLOSE, b"\0")
        link.sendall(frame(51, Command.WAKEUP))
        link.sendall(frame(51, Command.APP_UNINSTALL, b"-n com.a\0"))
        assert next_frame(link) == (51, Command.WAKEUP, b"")
        assert next_frame(link) == (51, Command.APP_FINISH, b"\2\0" + NO_MANAGER)
        assert output_of(link, 52, f"ls {TMP} | grep -c 'hap\\|hsp'".encode()) == b"0\n"


def test_debuggable_programs_and_reports_are_answered_as_by_an_image_without_them(
    daemons: dict[str, tuple[int, Path]],
) -> None:
    with agreed(daemons["open"][0]) as link:
        link.sendall(frame(53, Command.JDWP_TRACK, b"a"))
        assert next_frame(link) == (53, Command.ECHO, b"\x020000\n")
        link.sendall(frame(54, Command.BUGREPORT))
        missing = b"E: /bin/sh: hidumper: inaccessible or not found\n"
        assert next_frame(link) == (54, Command.BUGREPORT_DATA, missing)
        assert next_frame(link) == (54, Command.CHANNEL_CLOSE, b"\1")


@pytest.mark.parametrize(
    ("kind", "frames"),
    [
        (
            "shell",
            [(Command.EXECUTE, b"id"), (Command.HILOG, b"h"), (Command.RUNMODE, b"usb"), (Command.SHELL_START, b"")],
        ),
        ("file", [(Command.FILE_INIT, b"/system a"), (Command.FILE_CHECK, b""), (Command.APP_CHECK, b"")]),
        ("fport", [(Command.FORWARD_INIT, b"tcp:7005 tcp:7006"), (Command.FORWARD_CHECK, bytes(12) + b"tcp:1\0")]),
    ],
)
def test_a_parameter_keeps_hosts_from_what_it_names(
    daemons: dict[str, tuple[int, Path]], kind: str, frames: list[tuple[Command, bytes]]
) -> None:
    port, folder = daemons["open"]
    set_here = folder / "data/.emulator-param"
    set_here.write_text(f"persist.hdc.control.{kind} = false\n")
    try:
        with agreed(port) as link:
            for channel, (command, data) in enumerate(frames, 60):
                link.sendall(frame(channel, Command.WAKEUP) + frame(channel, command, data))
                assert next_frame(link) == (channel, Command.ECHO, b"\0debugging is not allowed")
                assert next_frame(link) == (channel, Command.CHANNEL_CLOSE, b"\1")
    finally:
        set_here.unlink()


def test_a_killed_daemon_is_started_again_and_its_programs_go_on(daemons: dict[str, tuple[int, Path]]) -> None:
    port = daemons["open"][0]
    with agreed(port) as link:
        # Read before it is killed: what is on its way through the daemon then is lost with it.
        line = b"sleep 300 >/dev/null 2>&1 </dev/null & until pgrep -x sleep >/dev/null; do :; done; pidof hdcd"
        before = output_of(link, 55, line)
        assert before.strip().isdigit()
        link.sendall(frame(56, Command.EXECUTE, b"kill -9 $(pidof hdcd); sleep 60"))
        with pytest.raises(LinkEnded):
            next_frame(link)
    with agreed(port) as link:
        now, programs = output_of(link, 57, b"pidof hdcd; ps -A -o ARGS | grep -c '^sleep 300'").splitlines()
        assert now.isdigit()
        assert now != before.strip()
        assert programs == b"1"
