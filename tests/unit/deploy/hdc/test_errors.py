"""What hdc says, in the words of its versions, and what we make of it.

The list below is not made from the table: its texts are those that hdc was seen to print and those in its sources
(openharmony/developtools_hdc, branches OpenHarmony-3.2-Release to 7.0-Release), its policies what a user would want.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from core import errors
from core.deadline import Deadline
from core.errors import InvalidData, LostConnection, OhforgeError, TransferError
from core.process import Result
from core.session import Session
from core.testing import FakeRunner
from deploy.board.protocol import Profile
from deploy.hdc import errors as hdc_errors
from deploy.hdc.board import HdcBoard
from deploy.hdc.errors import find_fault, make_error, read_faults, without_log_lines
from deploy.hdc.program import Hdc

NEVER = "never"
AGAIN = "again"
AGAIN_BY_TCP = "again by tcp"
USER = "when the user has confirmed"
SERVER = "once, with a server of our own"
FORGET = "once, by another server of our own, as one remembers the answer; the last is ended too"

USB_KEY, TCP_KEY = "7001005458323933328a01bce16d3800", "192.168.1.9:8710"
AGAIN_CALLS = 4
"""The first try and three more."""
AUTH_2 = (
    "[Fail][E000002]:The device unauthorized.\r\nThis server's public key is not set.\r\n"
    "Please check for a confirmation dialog on your device.\r\nOtherwise try 'hdc kill' if that seems wrong.\r\n"
)
AUTH_3 = (
    "[Fail][E000003]:The device unauthorized.\r\nThe user denied the access for the device.\r\n"
    "Please execute 'hdc kill' and redo your command,\r\nthen check for a confirmation dialog on your device.\r\n"
)
STARTING = (
    "[Fail][E000004]:The communication channel is being established.\r\n"
    "Please wait for several seconds and try again.\r\n"
)
NO_LOCAL = (
    "[Fail]Error opening file: no such file or directory, path:/home/me/x\n"
    "[F][2026-01-31 12:00:00] open path:/home/me/x, localPath:/home/me/x, "
    "error:no such file or directory, dir:0, master:1\n"
)
NO_MATCH = "[Fail]Not match target founded, check connect-key please\r\n"
NO_KEY = "[Fail]ExecuteCommand need connect-key? please confirm a device by help info\r\n"

# operation, what hdc prints, our class, whether it is tried again, first release, last release
SAID = [
    # the server on this computer
    ("shell", "Connect server failed\n", "HdcServerError", SERVER, "", ""),
    ("send", "Connect server failed\n", "HdcServerError", SERVER, "", ""),
    ("shell", "OHOS_HDC_SERVER_PORT 99999 is not in (0, 65535] range\n", "HdcServerError", NEVER, "", ""),
    ("shell", "OHOS_HDC_SERVER_PORT abc is not digit\n", "HdcServerError", NEVER, "", ""),
    ("shell", "[Fail][E002103] hdc server start failed\r\n", "HdcServerError", SERVER, "", ""),
    ("shell", "[E002101]:Terminal hdc process failed, \r\n", "HdcServerError", NEVER, "5.0", ""),
    # authorisation
    ("shell", "[E000001]:The sdk hdc.exe version is too low\r\n", "BoardUnauthorised", NEVER, "5.0", ""),
    ("shell", AUTH_2, "BoardUnauthorised", USER, "5.0", ""),
    ("send", AUTH_2, "BoardUnauthorised", USER, "5.0", ""),
    ("shell", AUTH_3, "BoardUnauthorised", FORGET, "5.0", ""),
    ("shell", "[Fail][E000005]: public key\r\n", "BoardUnauthorised", NEVER, "5.1", ""),
    ("shell", "[E000006]:The current computer has not obtained\r\n", "BoardUnauthorised", NEVER, "6.1", ""),
    ("shell", "[E000008]: The hdc server fails to read\r\n", "BoardUnauthorised", NEVER, "5.1", ""),
    ("shell", "[E000009]: The hdc server fails to read\r\n", "BoardUnauthorised", NEVER, "5.1", ""),
    ("shell", "[E00000A]: The public key and private key\r\n", "BoardUnauthorised", NEVER, "5.1", ""),
    ("shell", "[Fail][E000010]:Auth failed, cannt login the device.\r\n", "BoardUnauthorised", NEVER, "5.0", ""),
    ("send", "[Fail][E00C001]Operation restricted\r\n", "PermissionOnBoard", NEVER, "6.1", ""),
    ("send", "[Fail][E00C002]Execution intercepted\r\n", "PermissionOnBoard", NEVER, "6.1", ""),
    # which board, and whether it is there
    ("shell", STARTING, "BoardOffline", AGAIN, "5.0", ""),
    ("shell", "[Fail][E001005] Device not found or connected\r\n", "BoardOffline", AGAIN, "5.1", ""),
    ("send", "[Fail]Device not founded or connected\r\n", "BoardOffline", AGAIN, "", "5.0.3"),
    ("send", "[Fail][E002106] Failed to communicate with daemon\r\n", "BoardOffline", AGAIN, "", ""),
    ("shell", "[Fail]Failed to communicate with daemon\r\n", "BoardOffline", AGAIN, "", ""),
    ("shell", "[Fail][E001003] USB communication abnormal\r\n", "BoardOffline", AGAIN, "5.1", ""),
    ("shell", NO_MATCH, "NoBoard", AGAIN_BY_TCP, "", ""),
    ("shell", NO_MATCH + NO_KEY, "NoBoard", AGAIN_BY_TCP, "", ""),
    ("shell", "[Fail]ExecuteCommand need connect-key?\r\n", "NoBoard", NEVER, "", ""),
    ("shell", NO_KEY, "NoBoard", NEVER, "", ""),
    ("shell", "[Fail]No target available\r\n", "NoBoard", NEVER, "", ""),
    ("shell", "[Fail]No any connected target\r\n", "NoBoard", NEVER, "", ""),
    ("shell", "Sizeo of of parament '-t' 33 is too long\n", "NoBoard", NEVER, "", ""),
    # files
    ("send", "[Fail]Transfer Stop at:8/9(Bytes), Reason: no space left on device\r\n", "NoSpaceOnBoard", NEVER, "", ""),
    ("receive", "[Fail]Transfer Stop at:8/9, no space left on device\r\n", "NotEnoughSpace", NEVER, "", ""),
    ("send", "[Fail]Transfer Stop at:8/9(Bytes), Reason: io error\r\n", "TransferError", NEVER, "", ""),
    ("send", "[Fail]Error opening file: read-only file system, path:/x\r\n", "PermissionOnBoard", NEVER, "", ""),
    ("send", "[Fail]Error opening file: permission denied, path:/x\r\n", "PermissionOnBoard", NEVER, "", ""),
    ("receive", "[Fail]Error opening file: permission denied, path:/x\r\n", "PermissionOnBoard", NEVER, "", ""),
    ("send", "[Fail]Error opening file: text file is busy, path:/x\r\n", "Busy", NEVER, "", ""),
    ("send", "[Fail]Error opening file: no such file or directory, path:/x\r\n", "RemoteFolderMissing", NEVER, "", ""),
    ("receive", "[Fail]Error opening file: no such file or directory, path:/x\r\n", "RemoteFileMissing", NEVER, "", ""),
    ("send", NO_LOCAL, "UsageError", NEVER, "", ""),
    (
        "send",
        "[Fail][E005005] Error create directory: no such file or directory, path:/da******o/t(L:20)\r\n",
        "RemoteFolderMissing",
        NEVER,
        "5.1",
        "",
    ),
    (
        "send",
        "[Fail][E005005] Error create directory: permission denied, path:/da******o/t(L:20)\r\n",
        "PermissionOnBoard",
        NEVER,
        "",
        "",
    ),
    (
        "send",
        "[Fail][E005005] Error create directory: read-only file system, path:/da******o/t(L:20)\r\n",
        "PermissionOnBoard",
        NEVER,
        "",
        "",
    ),
    ("send", "[Fail]Error create directory, path:/data/x/y\r\n", "RemoteFolderMissing", NEVER, "", "5.0.3"),
    ("send", "[Fail]Not a directory, path:/data/x\r\n", "TransferError", NEVER, "", ""),
    ("send", "[Fail]Operation failed, because the source folder is empty.\n", "UsageError", NEVER, "4.0", ""),
    (
        "send",
        "[Fail]Transfer Stop at:0/4096(Bytes), Reason: illegal operation on a directory\n",
        "TransferError",
        NEVER,
        "",
        "",
    ),
    ("send", "[Fail]Target file is the same date or newer,path: /x\r\n", "TransferError", NEVER, "", ""),
    ("send", "[Fail][E005008] Operation not allowed\r\n", "PermissionOnBoard", NEVER, "5.1", ""),
    ("receive", "[Fail][E005008] Operation not allowed\r\n", "PermissionOnBoard", NEVER, "5.1", ""),
    ("send", "[Fail]There is no remote path\n", "HdcServerError", NEVER, "", ""),
    ("receive", "[Fail]There is no local and remote path\r\n", "HdcServerError", NEVER, "", ""),
    ("send", "[Fail]Unknown file option: -q\n", "HdcServerError", NEVER, "", ""),
    ("send", "[Fail][E005003] The parameter is missing\r\n", "BoardError", NEVER, "5.0.3", ""),
    ("send", "[Fail][E005004] -b doesn't support -a option.\r\n", "BoardError", NEVER, "5.0.3", ""),
    ("send", "[Fail][E005101] Invalid bundle name: b\r\n", "BoardError", NEVER, "5.0.3", ""),
    ("send", "[Fail][E005102] Remote path: /x is invalid\r\n", "BoardError", NEVER, "5.0.3", ""),
    ("send", "[Fail][E005200] Unsupport file command\r\n", "HdcServerError", NEVER, "", ""),
    ("send", "[Fail][E006001] Not any installation package was found\r\n", "UsageError", NEVER, "5.1", ""),
    # commands
    ("shell", "[Fail]Unknown command...\n", "HdcServerError", NEVER, "", ""),
    ("shell", "Unknown operation command...\n", "HdcServerError", NEVER, "", ""),
    ("shell", "[Fail][E001001]Unknown command\r\n", "HdcServerError", NEVER, "", ""),
    ("shell", "[Fail][E002105] Unsupport command\r\n", "HdcServerError", NEVER, "5.0.3", ""),
    ("shell", "[Fail][E001105] Unsupport option [s], please try\r\n", "HdcServerError", NEVER, "5.0.3", ""),
    ("shell", "[Fail][E003001] Invalid bundle name: b\r\n", "BoardError", NEVER, "5.0.3", ""),
    *(
        ("shell", f"[Fail][E00300{digit}] Unsupport shell option: -c\n", "HdcServerError", NEVER, "5.0.3", "")
        for digit in range(2, 10)
    ),
    ("shell", "start shell failed -1: Argument list too long\n", "UsageError", NEVER, "", ""),
    # what only a user's own hdc asks for
    ("shell", "[Fail]TCP Port listen failed at 19801\r\n", "BoardError", NEVER, "", ""),
    ("shell", "[Fail]Forward parament failed\r\n", "UsageError", NEVER, "", ""),
    ("shell", "[Fail]Incorrect forward command\n", "UsageError", NEVER, "", ""),
    ("shell", "[Fail]Remove forward ruler failed, ruler is not exist tcp:1 tcp:2\r\n", "UsageError", NEVER, "", ""),
    ("shell", "[Fail]Mount failed\r\n", "PermissionOnBoard", NEVER, "", ""),
    ("shell", "[Fail]Operate need running as root\r\n", "PermissionOnBoard", NEVER, "", ""),
    ("shell", "[Fail][E007100] Operate need running under debug mode\r\n", "PermissionOnBoard", NEVER, "", ""),
    ("shell", "[Fail]Cannot set root run mode in undebuggable version.\r\n", "PermissionOnBoard", NEVER, "", ""),
    ("shell", "[Fail][E001000]For USB debugging, please set it\r\n", "BoardError", NEVER, "5.0", ""),
    ("shell", "[Fail][E001300]Not support tmode for Emulator\r\n", "BoardError", NEVER, "5.0", ""),
]
CONNECTING = [
    ("[Fail][E001104]:IP address incorrect\n", "NoBoard", NEVER),
    ("[Fail][E001100]Invalid port\r\n", "NoBoard", NEVER),
    ("[Fail]Port incorrect\n", "NoBoard", NEVER),
    ("[Fail]IP:Port incorrect\n", "NoBoard", NEVER),
    ("[Fail]CreateConnect failed\r\n", "NoBoard", NEVER),
    ("[Fail]Connect failed\r\n", "BoardOffline", AGAIN),
]
PROFILE = Profile(
    name="generic", title="any", soc="", cpu="generic", cores=1, memory_bytes=0, arches=("arm64",), static_only=()
)
STDERR = ("Connect server failed", "OHOS_HDC_SERVER_PORT")


def say(text: str) -> Result:
    """An hdc that says `text`: status 0, and on standard output but for a few."""
    on_stderr = text.startswith(STDERR)
    out, err = (b"", text.encode()) if on_stderr else (text.encode(), b"")
    return Result(argv=(), exit_code=0, stdout=out, stderr=err, seconds=0.0)


@pytest.mark.parametrize("key", [USB_KEY, TCP_KEY], ids=["usb", "tcp"])
@pytest.mark.parametrize(("during", "text", "error", "policy", "since", "until"), SAID)
def test_every_text_of_hdc_has_its_class_and_is_tried_again_only_when_that_may_help(
    session: Session, tmp_path: Path, key: str, during: str, text: str, error: str, policy: str, since: str, until: str
) -> None:
    verb = {"shell": ["shell"], "send": ["file", "send"], "receive": ["file", "recv"]}[during]
    command = ["hdc", "-t", key, *verb]
    runner = FakeRunner(answers=[(command, lambda argv: say(text)), (["hdc"], say(""))])
    renewed: list[Hdc] = []

    def renew(session: Session) -> Hdc:
        renewed.append(hdc)
        return hdc

    hdc = Hdc(argv=("hdc",), title="hdc", renew=renew)
    pauses: list[float] = []
    board = HdcBoard(dataclasses.replace(session, runner=runner), hdc, key, lambda: PROFILE, pause=pauses.append)
    with pytest.raises(OhforgeError) as caught:
        ask(board, during, tmp_path)
    assert type(caught.value).__name__ == error
    assert caught.value.remedy
    asked = sum(list(call[: len(command)]) == command for call in runner.calls)
    by_tcp = key == TCP_KEY
    again = policy == AGAIN or (policy == AGAIN_BY_TCP and by_tcp)
    assert asked == (AGAIN_CALLS if again else 2 if policy in (SERVER, FORGET) and by_tcp else 1)
    assert len(renewed) == {SERVER: 1, FORGET: 2}.get(policy, 0) * by_tcp
    assert sum(pauses) < 10


def ask(board: HdcBoard, during: str, folder: Path) -> None:
    deadline = Deadline.after(20, "the test")
    if during == "shell":
        board.shell("true", deadline=deadline)
    elif during == "send":
        (folder / "x").write_text("content")
        board.send(folder / "x", "/data/local/tmp/x", deadline=deadline)
    else:
        board.receive("/data/local/tmp/x", folder / "x", deadline=deadline)


@pytest.mark.parametrize(("during", "text", "error", "policy", "since", "until"), SAID)
def test_the_table_names_the_releases_that_say_it(
    during: str, text: str, error: str, policy: str, since: str, until: str
) -> None:
    fault = find_fault(text, during)
    assert fault is not None
    assert (fault.since, fault.until) == (since, until)


@pytest.mark.parametrize(("text", "error", "policy"), CONNECTING)
def test_every_text_about_connecting_has_its_class(text: str, error: str, policy: str) -> None:
    fault = find_fault(text, "connect")
    assert fault is not None
    assert fault.error.__name__ == error
    assert fault.transient is (policy == AGAIN)


@pytest.mark.parametrize(
    "text", ["", "[F][2026-01-31 12:00:00] SendWithCmd hChannel nullptr channelId:7\n"], ids=["silence", "a log line"]
)
def test_a_daemon_that_dies_in_a_transfer_is_a_lost_connection_and_the_file_is_not_sent_again_here(
    session: Session, tmp_path: Path, text: str
) -> None:
    runner = FakeRunner(answers=[(["hdc"], say(text))])
    board = HdcBoard(
        dataclasses.replace(session, runner=runner), Hdc(argv=("hdc",), title="hdc"), TCP_KEY, lambda: PROFILE
    )
    with pytest.raises(LostConnection):
        ask(board, "send", tmp_path)
    assert len(runner.calls) == 1


def test_every_entry_of_the_table_is_asserted_above() -> None:
    found = [find_fault(text, during) for during, text, *_ in SAID]
    found += [find_fault(text, "connect") for text, *_ in CONNECTING]
    assert {fault.id for fault in read_faults()} == {fault.id for fault in found if fault is not None}


def test_every_error_of_the_table_is_in_the_catalogue() -> None:
    assert {fault.error for fault in read_faults()} <= set(errors.all_errors())


def test_an_error_says_what_board_what_it_means_and_what_hdc_said() -> None:
    text = "[Fail]Error opening file: read-only file system, path:/system/x\r\n"
    error = make_error(find_fault(text, "send"), text, subject="Board K, sending x")
    assert error.message.startswith("Board K, sending x: the file system is read-only.")
    assert "[Fail]Error opening file" in error.message
    assert "/data/local/tmp" in error.remedy


def test_what_to_type_is_typed_where_the_user_sits() -> None:
    text = "[Fail]Connect failed\r\n"
    error = make_error(find_fault(text, "connect"), text, subject="Board K", typed="ssh ssh://lab1 /opt/hdc -s 8711")
    assert "`ssh ssh://lab1 /opt/hdc -s 8711 tconn ADDRESS`" in error.remedy


def test_a_text_that_is_not_in_the_table_is_shown_as_it_is() -> None:
    error = make_error(None, "[Fail]something new\r\n", subject="Board K", otherwise=TransferError)
    assert type(error) is TransferError
    assert "[Fail]something new" in error.message


def test_lines_that_hdc_logs_are_no_answer() -> None:
    text = "[W][2026-01-31 12:00:00] hot\nFileTransfer finish, Size:1, File count = 1\n[F][2026-01-31 12:00:01] x"
    assert without_log_lines(text) == "FileTransfer finish, Size:1, File count = 1\n"


@pytest.fixture
def read_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def read(entry: str) -> None:
        table = tmp_path / "table.yaml"
        table.write_text(f"- {{id: odd, pattern: x, meaning: m, {entry}}}\n")
        monkeypatch.setattr(hdc_errors, "TABLE", table)
        read_faults.cache_clear()
        try:
            read_faults()
        finally:
            read_faults.cache_clear()

    return read


@pytest.mark.parametrize(
    "entry",
    [
        "error: NoSuchError",
        "error: NoBoard, during: [sleep]",
        "error: NoBoard, colour: red",
        "error: NoBoard, since: soon",
        "error: NoBoard, since: '5.1', until: '5.0.3'",
    ],
)
def test_an_entry_of_another_form_is_named(read_table: Callable[[str], None], entry: str) -> None:
    with pytest.raises(InvalidData, match="odd"):
        read_table(entry)
