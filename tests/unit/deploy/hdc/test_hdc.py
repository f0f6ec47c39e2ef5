"""The hdc client against an hdc that answers as the real one does, faults included."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import (
    BoardOffline,
    BoardUnauthorised,
    ContentDiffers,
    HdcNotFound,
    HdcServerError,
    HostToolMissing,
    LostConnection,
    NoBoard,
    NoSpaceOnBoard,
    PermissionOnBoard,
    RemoteFileMissing,
    RemoteFolderMissing,
    TransferError,
    UnsafePath,
    UsageError,
)
from core.process import Result
from core.session import Session
from core.testing import Answer, FakeRunner
from deploy.board.protocol import Profile
from deploy.hdc.board import HdcBoard
from deploy.hdc.paths import check_key
from deploy.hdc.program import Hdc
from tests.support.hdc_answers import answered, cut_off, in_turn, received, sent

KEY = "7001005458323933328a01bce16d3800"
OFFLINE = b"[Fail][E001005] Device not found or connected\r\n"
PROFILE = Profile(
    name="generic", title="any", soc="", cpu="generic", cores=1, memory_bytes=0, arches=("arm64",), static_only=()
)


def soon() -> Deadline:
    return Deadline.after(20, "the test")


MakeBoard = Callable[..., HdcBoard]


@pytest.fixture
def make_board(session: Session) -> MakeBoard:
    def make(*answers: tuple[list[str], Answer], key: str = KEY) -> HdcBoard:
        runner = FakeRunner(answers=[(["hdc", "-t", key, *words], answer) for words, answer in answers])
        runner.answers += [(["hdc", "tconn"], b"Connect OK\r\n")]
        board = HdcBoard(
            dataclasses.replace(session, runner=runner),
            Hdc(argv=("hdc",), title="hdc"),
            key,
            lambda: PROFILE,
            pause=pauses.append,
        )
        board.runner = runner  # type: ignore[attr-defined]
        return board

    pauses: list[float] = []
    make.pauses = pauses  # type: ignore[attr-defined]
    return make


def calls(board: HdcBoard) -> list[tuple[str, ...]]:
    return list(board.runner.calls)  # type: ignore[attr-defined]


# shell ---------------------------------------------------------------------------------------------


def test_a_command_costs_one_process_and_its_status_comes_back(make_board: MakeBoard) -> None:
    board = make_board((["shell"], answered(b"hi\n", status=3)))
    result = board.shell("echo hi; exit 3", deadline=soon())
    assert (result.exit_code, result.output) == (3, b"hi\n")
    assert len(calls(board)) == 1


def test_the_whole_command_is_one_argument_with_a_blank_in_it(make_board: MakeBoard) -> None:
    board = make_board((["shell"], answered()))
    board.shell("id", deadline=soon())
    (argv,) = calls(board)
    assert argv[:4] == ("hdc", "-t", KEY, "shell")
    assert len(argv) == 5
    assert " " in argv[4]


def test_bytes_that_are_no_text_reach_the_board_as_they_are(make_board: MakeBoard) -> None:
    board = make_board((["shell"], answered()))
    board.shell(os.fsdecode(b"echo \xff"), deadline=soon())
    (argv,) = calls(board)
    assert b"echo \xff" in os.fsencode(argv[4])
    long = b"echo \xff" + b"x" * 70_000
    board = make_board((["file", "send"], sent()), (["shell"], answered()))
    board.shell(os.fsdecode(long), deadline=soon())
    assert hashlib.md5(long + b"\n").hexdigest() in calls(board)[-1][-1]


def test_output_is_handed_on_without_the_markers(make_board: MakeBoard) -> None:
    shown = bytearray()
    make_board((["shell"], answered(b"a\nb"))).shell("x", deadline=soon(), on_output=shown.extend)
    assert shown == b"a\nb"


def test_no_marker_is_never_a_success(make_board: MakeBoard) -> None:
    board = make_board((["shell"], in_turn(cut_off(b"half a li"), answered(b"dead"))))
    with pytest.raises(LostConnection, match="Nothing of it runs") as caught:
        board.shell("x", deadline=soon())
    assert caught.value.details["output"] == "half a li"


def test_what_may_still_run_after_a_lost_link_is_named(make_board: MakeBoard) -> None:
    board = make_board((["shell"], in_turn(cut_off(pid=815), OFFLINE)))
    with pytest.raises(LostConnection, match=f"process 815 may still run on board {KEY}"):
        board.shell("x", deadline=soon())


def test_silence_is_a_lost_connection(make_board: MakeBoard) -> None:
    with pytest.raises(LostConnection, match="no answer"):
        make_board((["shell"], b"")).shell("x", deadline=soon())


def test_a_program_that_prints_what_hdc_prints_is_not_mistaken_for_it(make_board: MakeBoard) -> None:
    text = b"[Fail][E001005] Device not found or connected\r\n"
    assert make_board((["shell"], answered(text))).shell("x", deadline=soon()).output == text


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"[Fail]Not match target founded, check connect-key please\r\n", NoBoard),
        (
            b"[Fail][E000003]:The device unauthorized.\r\nThe user denied the access for the device.\r\n",
            BoardUnauthorised,
        ),
        (b"[Fail][E000002]:The device unauthorized.\r\n", BoardUnauthorised),
    ],
)
def test_a_refusal_that_lasts_is_not_tried_again(make_board: MakeBoard, said: bytes, error: type[Exception]) -> None:
    board = make_board((["shell"], said))
    with pytest.raises(error, match=KEY):
        board.shell("x", deadline=soon())
    assert len(calls(board)) == 1


def test_a_refusal_that_passes_is_tried_again_with_pauses(make_board: MakeBoard) -> None:
    starting = b"[Fail][E000004]:The communication channel is being established.\r\n"
    board = make_board((["shell"], in_turn(starting, starting, answered(b"ok"))))
    assert board.shell("x", deadline=soon()).output == b"ok"
    assert make_board.pauses == [0.5, 1.0]  # type: ignore[attr-defined]


def test_trying_again_has_an_end(make_board: MakeBoard) -> None:
    board = make_board((["shell"], OFFLINE))
    with pytest.raises(BoardOffline):
        board.shell("x", deadline=soon())
    assert len(calls(board)) == 4


def test_a_lost_tcp_board_is_connected_again(make_board: MakeBoard) -> None:
    key = "192.168.1.9:8710"
    board = make_board((["shell"], in_turn(OFFLINE, answered(b"ok"))), key=key)
    assert board.shell("x", deadline=soon()).output == b"ok"
    assert calls(board)[1] == ("hdc", "tconn", key)


def test_no_server_is_told_from_the_error_stream(make_board: MakeBoard) -> None:
    silent = Result(argv=(), exit_code=0, stdout=b"", stderr=b"Connect server failed\n", seconds=12.3)
    with pytest.raises(HdcServerError, match="server"):
        make_board((["shell"], silent)).shell("x", deadline=soon())


def test_a_missing_folder_is_named(make_board: MakeBoard) -> None:
    with pytest.raises(RemoteFolderMissing, match="/no/where"):
        make_board((["shell"], answered(status="C"))).shell("x", deadline=soon(), folder="/no/where")


def test_a_missing_hdc_is_told_as_that_and_nothing_else_is_tried(make_board: MakeBoard) -> None:
    board = make_board((["shell"], HostToolMissing("The program 'hdc' is not on this machine.")))
    with pytest.raises(HdcNotFound):
        board.shell("x", deadline=soon())
    assert len(calls(board)) == 1


# long scripts --------------------------------------------------------------------------------------


def test_a_script_too_long_for_an_argument_is_pushed_and_checked_before_it_runs(make_board: MakeBoard) -> None:
    board = make_board((["file", "send"], sent()), (["shell"], answered(b"ok")))
    assert board.shell("echo " + "x" * 70_000, deadline=soon()).output == b"ok"
    push, run = calls(board)
    assert push[-1].startswith("/data/local/tmp/ohforge-")
    assert f"md5sum <{push[-1]}" in run[-1]
    assert len(run[-1]) < 2_000


def test_no_argument_ever_reaches_the_length_that_hdc_swallows(make_board: MakeBoard) -> None:
    board = make_board((["file", "send"], sent()), (["shell"], answered(b"ok")))
    for length in (59_000, 59_700, 60_000, 61_437, 61_438):
        board.shell("'" * (length // 4), deadline=soon())
        board.shell("x" * length, deadline=soon())
    assert max(len(argv[-1].encode()) for argv in calls(board)) < 61_438


def test_a_script_that_arrives_damaged_twice_is_not_run(make_board: MakeBoard) -> None:
    board = make_board((["file", "send"], sent()), (["shell"], answered(status="S")))
    with pytest.raises(ContentDiffers, match="not run"):
        board.shell("x" * 70_000, deadline=soon())
    assert [argv[3] for argv in calls(board)] == ["file", "shell", "file", "shell"]


def test_a_nul_in_a_command_is_refused(make_board: MakeBoard) -> None:
    with pytest.raises(UsageError, match="NUL"):
        make_board().shell("a\0b", deadline=soon())


# files ---------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file.bin"
    path.write_bytes(b"x" * 1000)
    return path


def test_a_file_is_sent_by_one_command(make_board: MakeBoard, file: Path) -> None:
    board = make_board((["file", "send"], sent()))
    board.send(file, "/data/local/tmp/file.bin", deadline=soon())
    assert calls(board) == [("hdc", "-t", KEY, "file", "send", str(file), "/data/local/tmp/file.bin")]


def test_a_short_count_is_a_failed_transfer(make_board: MakeBoard, file: Path) -> None:
    with pytest.raises(TransferError, match="999 bytes"):
        make_board((["file", "send"], sent(999))).send(file, "/data/x", deadline=soon())


def test_finish_and_fail_together_is_a_failure(make_board: MakeBoard, file: Path) -> None:
    said = (
        b"[Fail]Error opening file: permission denied, path:/x\r\nFileTransfer finish, Size:1000, File count = 1, \r\n"
    )
    with pytest.raises(PermissionOnBoard):
        make_board((["file", "send"], said)).send(file, "/x", deadline=soon())


def test_a_log_line_of_hdc_does_not_disturb_a_transfer(make_board: MakeBoard, file: Path) -> None:
    said = b"[W][2026-01-31 12:00:00] [Fail] nothing\nFileTransfer finish, Size:1000, File count = 1, time:0ms\r\n"
    make_board((["file", "send"], said)).send(file, "/x", deadline=soon())


@pytest.mark.parametrize("said", [b"", b"[F][2026-01-31 12:00:00] SendWithCmd hChannel nullptr channelId:7\n"])
def test_a_transfer_that_ends_in_silence_is_a_lost_connection(make_board: MakeBoard, file: Path, said: bytes) -> None:
    noisy = Result(
        argv=(), exit_code=0, stdout=said, stderr=b"ld.so: x.so cannot be preloaded: ignored.\n", seconds=1.0
    )
    for answer in (said, noisy):
        with pytest.raises(LostConnection, match="only a part"):
            make_board((["file", "send"], answer)).send(file, "/x", deadline=soon())


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (b"[Fail]Transfer Stop at:418611/9000000(Bytes), Reason: no space left on device\r\n", NoSpaceOnBoard),
        (b"[Fail]Error opening file: read-only file system, path:/x\r\n", PermissionOnBoard),
        (b"[Fail]Error opening file: no such file or directory, path:/no/x\r\n", RemoteFolderMissing),
        (b"[Fail]Some text of a later version\r\n", TransferError),
    ],
)
def test_every_refusal_of_a_file_has_its_error(
    make_board: MakeBoard, file: Path, said: bytes, error: type[Exception]
) -> None:
    with pytest.raises(error, match=KEY):
        make_board((["file", "send"], said)).send(file, "/x", deadline=soon())


def test_a_file_that_is_not_on_the_board_is_told(make_board: MakeBoard, tmp_path: Path) -> None:
    said = b"[Fail]Error opening file: no such file or directory, path:/no/x\r\n"
    with pytest.raises(RemoteFileMissing):
        make_board((["file", "recv"], said)).receive("/no/x", tmp_path / "x", deadline=soon())


def test_a_received_file_is_what_came(make_board: MakeBoard, tmp_path: Path) -> None:
    board = make_board((["file", "recv"], received(b"abc")))
    board.receive("/data/x", tmp_path / "x", deadline=soon())
    assert (tmp_path / "x").read_bytes() == b"abc"


def test_a_success_without_a_file_is_a_failed_transfer(make_board: MakeBoard, tmp_path: Path) -> None:
    said = b"FileTransfer finish, Size:3, File count = 1, time:3ms rate:9.00kB/s\n"
    with pytest.raises(TransferError, match="no file"):
        make_board((["file", "recv"], said)).receive("/data/x", tmp_path / "x", deadline=soon())


@pytest.mark.parametrize("name", ['quo"te', "模型.gguf", "new\nline"])
def test_a_local_name_that_hdc_would_change_is_replaced(make_board: MakeBoard, tmp_path: Path, name: str) -> None:
    awkward = tmp_path / name
    awkward.write_bytes(b"abc")
    board = make_board((["file", "send"], sent()), (["file", "recv"], received(b"def")))
    board.send(awkward, "/data/x", deadline=soon())
    board.receive("/data/x", awkward, deadline=soon())
    assert awkward.read_bytes() == b"def"
    for argv in calls(board):
        assert name not in " ".join(argv)


def test_a_link_under_such_a_name_leads_where_it_leads_from_there(make_board: MakeBoard, tmp_path: Path) -> None:
    (tmp_path / "模型/blobs").mkdir(parents=True)
    (tmp_path / "模型/blobs/1").write_bytes(b"abc")
    (tmp_path / "模型/model.gguf").symlink_to("blobs/1")
    make_board((["file", "send"], sent())).send(tmp_path / "模型/model.gguf", "/data/x", deadline=soon())


def test_what_comes_under_such_a_name_takes_up_no_room_elsewhere(make_board: MakeBoard, tmp_path: Path) -> None:
    awkward = tmp_path / "模型.gguf"

    def answer(argv: tuple[str, ...]) -> Result | bytes:
        said = received(b"abc")(argv)
        assert awkward.read_bytes() == b"abc"
        return said

    make_board((["file", "recv"], answer)).receive("/data/x", awkward, deadline=soon())


def test_a_file_named_remote_and_one_with_a_dash_are_sent_by_their_whole_path(
    make_board: MakeBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    board = make_board((["file", "send"], sent()))
    for name in ("remote", "-z"):
        Path(name).write_bytes(b"abc")
        board.send(Path(name), "/data/x", deadline=soon())
    assert [argv[-2] for argv in calls(board)] == [str(tmp_path / "remote"), str(tmp_path / "-z")]


@pytest.mark.parametrize("path", ['/data/"x', "/data/a\nb", "/data/100%d", "relative", "-x", "remote"])
def test_a_path_on_the_board_that_hdc_would_change_is_refused(make_board: MakeBoard, file: Path, path: str) -> None:
    board = make_board()
    with pytest.raises(UnsafePath):
        board.send(file, path, deadline=soon())
    with pytest.raises(UnsafePath):
        board.receive(path, file, deadline=soon())
    assert calls(board) == []


def test_what_is_no_file_is_refused_before_hdc_is_called(make_board: MakeBoard, tmp_path: Path) -> None:
    board = make_board()
    os.mkfifo(tmp_path / "pipe")
    for name in ("missing", "pipe", ""):
        with pytest.raises(UsageError, match=str(tmp_path)):
            board.send(tmp_path / name, "/data/x", deadline=soon())
    assert calls(board) == []


@pytest.mark.parametrize("key", ["", "any", "wait", "waiting1", "shell", "x" * 33, "a b", "-x"])
def test_a_key_that_hdc_takes_for_something_else_is_refused(key: str) -> None:
    with pytest.raises(NoBoard):
        check_key(key)
