"""Files to a board and back, on a board that is a folder with a real shell, faults included."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import threading
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import (
    BoardError,
    ContentDiffers,
    LostConnection,
    NoSpaceOnBoard,
    PermissionOnBoard,
    RemoteFileMissing,
    TransferError,
    UnsafePath,
    UsageError,
)
from core.session import Session
from deploy import pull, transfer
from deploy.inspect import Question, read_survey, survey_board
from deploy.pull import as_pattern, fetch_files, pull_files
from deploy.transfer import FileToPlace, place_files, push_files
from tests.support.local_board import LocalBoard

CONTENT = os.urandom(20_000)
NAME = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"
    path.write_bytes(CONTENT)
    return path


def place(session: Session, board: LocalBoard, file: Path, name: str = "a.bin", executable: bool = False) -> Path:
    target = board.folder / "target"
    place_files(session, board, [FileToPlace(local=file, name=name, executable=executable)], str(target))
    return target / name


# to the board --------------------------------------------------------------------------------------


def test_a_file_arrives_under_its_name_and_in_the_store(session: Session, board: LocalBoard, file: Path) -> None:
    there = place(session, board, file)
    assert there.read_bytes() == CONTENT
    assert (board.store / NAME).read_bytes() == CONTENT


def test_what_is_there_is_not_sent_again_and_costs_one_round_trip(
    session: Session, board: LocalBoard, file: Path
) -> None:
    place(session, board, file)
    board.calls.clear()
    summary = place_files(session, board, [FileToPlace(local=file, name="b.bin")], str(board.folder / "other"))
    assert board.calls == ["shell", "shell"]  # to ask, and to put it where it is wanted
    assert (summary.bytes_sent, summary.bytes_reused) == (0, len(CONTENT))
    assert (board.folder / "other" / "b.bin").read_bytes() == CONTENT


def test_many_files_are_asked_for_and_verified_in_one_round_trip_each(
    session: Session, board: LocalBoard, tmp_path: Path
) -> None:
    files = []
    for number in range(30):
        (tmp_path / f"f{number}").write_text(f"content {number}")
        files.append(FileToPlace(local=tmp_path / f"f{number}", name=f"f{number}"))
    summary = place_files(session, board, files, str(board.folder / "target"))
    assert summary.files_sent == 30
    assert board.calls == ["shell", *["send"] * 30, "shell", "shell"]


def test_the_same_content_under_two_names_is_sent_once(session: Session, board: LocalBoard, file: Path) -> None:
    files = [FileToPlace(local=file, name="one"), FileToPlace(local=file, name="sub/two")]
    summary = place_files(session, board, files, str(board.folder / "target"))
    assert summary.bytes_sent == len(CONTENT)
    assert (board.folder / "target/sub/two").read_bytes() == CONTENT


def test_execute_bits_are_given_though_hdc_loses_them(session: Session, board: LocalBoard, file: Path) -> None:
    assert os.access(place(session, board, file, executable=True), os.X_OK)


def test_execute_bits_are_given_to_what_was_stored_without(session: Session, board: LocalBoard, file: Path) -> None:
    assert not os.access(place(session, board, file), os.X_OK)
    assert os.access(place(session, board, file, name="program", executable=True), os.X_OK)


def flip_byte(path: str | Path) -> None:
    content = bytearray(Path(path).read_bytes())
    content[len(content) // 2] ^= 1
    Path(path).write_bytes(content)


def test_a_file_that_arrives_corrupted_is_sent_once_more(session: Session, board: LocalBoard, file: Path) -> None:
    faults = [flip_byte]
    board.on_send = lambda remote: faults.pop()(remote) if faults else None
    assert place(session, board, file).read_bytes() == CONTENT
    assert board.calls.count("send") == 2


def test_a_file_that_arrives_corrupted_twice_is_told_and_nothing_of_it_stays(
    session: Session, board: LocalBoard, file: Path
) -> None:
    board.on_send = flip_byte
    with pytest.raises(ContentDiffers, match=r"model\.bin"):
        place(session, board, file)
    assert board.stored() == []
    assert not (board.folder / "target").exists()


def cut(remote: str) -> None:
    with Path(remote).open("r+b") as part:
        part.truncate(1000)


def test_a_file_that_was_cut_short_in_silence_is_sent_once_more(
    session: Session, board: LocalBoard, file: Path
) -> None:
    faults = [cut]
    board.on_send = lambda remote: faults.pop()(remote) if faults else None
    assert place(session, board, file).read_bytes() == CONTENT


def test_a_cut_transfer_leaves_no_file_under_the_final_name(session: Session, board: LocalBoard, file: Path) -> None:
    def cut_link(remote: str) -> None:
        cut(remote)
        raise LostConnection("the link ended")

    board.on_send = cut_link
    with pytest.raises(LostConnection):
        place(session, board, file)
    assert board.stored() == [f"{NAME}.part"]
    board.on_send = lambda remote: None
    assert place(session, board, file).read_bytes() == CONTENT
    assert board.stored() == [NAME]


def test_an_old_file_stays_whole_when_its_successor_is_cut(session: Session, board: LocalBoard, file: Path) -> None:
    there = place(session, board, file)
    file.write_bytes(b"new content")
    board.on_send = flip_byte
    with pytest.raises(ContentDiffers):
        place(session, board, file)
    assert there.read_bytes() == CONTENT


def test_a_program_that_changes_its_input_does_not_spoil_the_next_run(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "COPY_BYTES", 0)
    there = place(session, board, file)
    with there.open("ab") as changed:
        changed.write(b"changed")
    assert (board.store / NAME).read_bytes() == CONTENT + b"changed"
    there.unlink()
    assert place(session, board, file, name="next").read_bytes() == CONTENT


def test_a_change_that_keeps_the_size_is_noticed(session: Session, board: LocalBoard, file: Path) -> None:
    place(session, board, file)
    flip_byte(board.store / NAME)
    assert place(session, board, file, name="next").read_bytes() == CONTENT
    assert board.calls.count("send") == 2


def test_an_untouched_file_whose_note_is_lost_is_hashed_and_not_sent(
    session: Session, board: LocalBoard, file: Path
) -> None:
    place(session, board, file)
    (board.store / f"{NAME}.ok").unlink()
    board.calls.clear()
    place(session, board, file)
    assert "send" not in board.calls
    assert (board.store / f"{NAME}.ok").exists()
    board.calls.clear()
    place(session, board, file)
    assert board.calls == ["shell", "shell"]


def test_a_note_of_another_file_proves_nothing(session: Session, board: LocalBoard, file: Path) -> None:
    place(session, board, file)
    replaced = (board.store / NAME).with_name("x")
    replaced.write_bytes(bytes(len(CONTENT)))
    replaced.replace(board.store / NAME)
    assert place(session, board, file, name="next").read_bytes() == CONTENT


def test_a_leftover_part_is_never_trusted(session: Session, board: LocalBoard, file: Path) -> None:
    board.store.mkdir(parents=True)
    (board.store / f"{NAME}.part").write_bytes(CONTENT)
    assert place(session, board, file).read_bytes() == CONTENT
    assert board.calls.count("send") == 1


def test_two_small_files_of_one_content_do_not_change_together_after_a_push(
    session: Session, board: LocalBoard, file: Path
) -> None:
    one, two = board.folder / "one", board.folder / "two"
    push_files(session, board, [file], str(one))
    push_files(session, board, [file], str(two))
    one.write_bytes(b"changed")
    assert two.read_bytes() == CONTENT


def test_large_files_do_not_take_up_room_twice(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "COPY_BYTES", 1000)
    there = place(session, board, file)
    assert there.stat().st_ino == (board.store / NAME).stat().st_ino


def record_progress(session: Session, monkeypatch: pytest.MonkeyPatch) -> tuple[list[float], threading.Event]:
    """What a progress display is told, and an event that is set by the first word."""
    reached: list[float] = []
    seen = threading.Event()

    class Recorder:
        def advance(self, count: float) -> None: ...

        def say(self, text: str) -> None: ...

        def reach(self, done: float, total: float | None = None) -> None:
            reached.append(done)
            seen.set()

    monkeypatch.setattr(session.console, "progress", lambda *_: contextlib.nullcontext(Recorder()))
    return reached, seen


def test_how_far_a_long_transfer_is_is_asked_of_the_board(
    session: Session, board: LocalBoard, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, seen = record_progress(session, monkeypatch)
    monkeypatch.setattr(transfer, "POLL_SECONDS", 0.01)

    def half_way(remote: str) -> None:
        Path(remote).write_bytes(CONTENT[:12_345])
        assert seen.wait(30)
        Path(remote).write_bytes(CONTENT)

    board.on_send = half_way
    place(session, board, file)
    assert reached[0] == 12_345
    assert reached[-1] == len(CONTENT)


# room ----------------------------------------------------------------------------------------------

NO_ROOM = {r"^(\S+ +\d+ +\d+) +\d+( +\d+%)": r"\1 9\2"}


def test_too_little_room_is_told_before_anything_is_sent(session: Session, board: LocalBoard, file: Path) -> None:
    board.replies = NO_ROOM
    with pytest.raises(NoSpaceOnBoard, match=r"9\.2 kB free"):
        place(session, board, file)
    assert "send" not in board.calls


def test_what_needs_no_room_is_placed_on_a_full_board(session: Session, board: LocalBoard, file: Path) -> None:
    place(session, board, file)
    board.replies = NO_ROOM
    assert place(session, board, file, name="next").read_bytes() == CONTENT


def test_a_disk_that_fills_up_unnoticed_is_found_by_size_and_told_as_that(
    session: Session, board: LocalBoard, file: Path
) -> None:
    def fill(remote: str) -> None:
        cut(remote)
        board.replies = {r"^free (.*) \d+( +\d+%)": r"free \1 9\2"}

    board.on_send = fill
    with pytest.raises(NoSpaceOnBoard):
        place(session, board, file)
    assert board.stored() == []


def test_after_a_full_disk_the_partial_file_is_removed(session: Session, board: LocalBoard, file: Path) -> None:
    def full(remote: str) -> None:
        cut(remote)
        raise NoSpaceOnBoard("full")

    board.on_send = full
    with pytest.raises(NoSpaceOnBoard):
        place(session, board, file)
    assert board.stored() == []


def test_a_board_that_cannot_tell_its_room_is_tried(session: Session, board: LocalBoard, file: Path) -> None:
    board.replies = {r"^\S+ +\d+ +\d+ +\d+ +\d+%.*$": ""}
    assert place(session, board, file).read_bytes() == CONTENT


# what is refused -----------------------------------------------------------------------------------


def test_a_board_that_cannot_be_written_is_told_before_anything_is_sent(
    session: Session, board: LocalBoard, file: Path
) -> None:
    board.replies = {"^@@writable\nyes": "@@writable"}
    with pytest.raises(PermissionOnBoard, match="cannot be written"):
        place(session, board, file)
    assert "send" not in board.calls


def test_without_a_hash_tool_nothing_is_sent(session: Session, board: LocalBoard, file: Path) -> None:
    board.replies = {"^sha256sum$": ""}
    with pytest.raises(BoardError, match="sha256sum or md5sum"):
        place(session, board, file)
    assert "send" not in board.calls


def test_md5sum_serves_where_sha256sum_is_a_link_to_nothing(
    session: Session, board: LocalBoard, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sha256sum").write_text("#!/bin/sh\necho unknown command >&2\nexit 1\n")
    (tools / "sha256sum").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    faults = [flip_byte]
    board.on_send = lambda remote: faults.pop()(remote) if faults else None
    summary = place_files(session, board, [FileToPlace(local=file, name="a")], str(board.folder / "t"))
    assert summary.hash_tool == "md5sum"
    assert (board.folder / "t/a").read_bytes() == CONTENT
    assert board.calls.count("send") == 2
    board.calls.clear()
    flipped = [flip_byte]
    board.on_receive = lambda local: flipped.pop()(local) if flipped else None
    pull_files(session, board, [str(board.folder / "t/a")], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == CONTENT
    assert board.calls.count("receive") == 2


@pytest.mark.parametrize("name", ["", "/abs", "../up", "a/../../b", "x\ny", "n" * 300])
def test_impossible_names_are_refused_before_the_board_is_asked(
    session: Session, board: LocalBoard, file: Path, name: str
) -> None:
    with pytest.raises(UsageError):
        place(session, board, file, name=name)
    assert board.calls == []


@pytest.mark.parametrize("name", ["it's", 'quo"te', "100%d", "-x", "remote", "$HOME", "a b", "模型.gguf", "#"])
def test_names_that_hdc_would_change_arrive_unharmed(
    session: Session, board: LocalBoard, file: Path, name: str
) -> None:
    assert place(session, board, file, name=name).read_bytes() == CONTENT


def test_a_place_that_cannot_be_written_is_named(session: Session, board: LocalBoard, file: Path) -> None:
    with pytest.raises(PermissionOnBoard, match="/proc/no"):
        place_files(session, board, [FileToPlace(local=file, name="a")], "/proc/no")


def test_a_folder_in_the_way_is_not_filled(session: Session, board: LocalBoard, file: Path) -> None:
    (board.folder / "target/a.bin").mkdir(parents=True)
    with pytest.raises(PermissionOnBoard, match=r"a\.bin"):
        place(session, board, file)


# folders -------------------------------------------------------------------------------------------


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    (top / "sub/empty").mkdir(parents=True)
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    (top / "sub/it's data").write_text("data")
    (top / "none").write_text("")
    return top


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def test_a_folder_arrives_with_modes_and_empty_folders(session: Session, board: LocalBoard, tree: Path) -> None:
    push_files(session, board, [tree], str(board.folder / "copy"))
    assert names(board.folder / "copy") == names(tree)
    assert os.access(board.folder / "copy/run.sh", os.X_OK)


def test_a_folder_goes_into_one_that_is_there(session: Session, board: LocalBoard, tree: Path) -> None:
    (board.folder / "there").mkdir()
    push_files(session, board, [tree], str(board.folder / "there"))
    assert names(board.folder / "there/tree") == names(tree)


def test_several_go_into_the_folder_that_is_named(session: Session, board: LocalBoard, tree: Path, file: Path) -> None:
    push_files(session, board, [tree, file], str(board.folder / "new"))
    assert {path.name for path in (board.folder / "new").iterdir()} == {"tree", "model.bin"}


def test_a_folder_without_files_is_told(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    with pytest.raises(UsageError, match="no files"):
        push_files(session, board, [tmp_path / "nothing"], str(board.folder / "x"))


# from the board ------------------------------------------------------------------------------------


def test_a_file_comes_back_as_it_is_named(session: Session, board: LocalBoard, file: Path, tmp_path: Path) -> None:
    there = place(session, board, file)
    (pulled,) = pull_files(session, board, [str(there)], tmp_path / "back.bin")
    assert (tmp_path / "back.bin").read_bytes() == CONTENT
    assert (pulled.sha256, pulled.size) == (NAME, len(CONTENT))


@pytest.mark.parametrize(("mode", "executable"), [(0o755, True), (0o644, False)])
def test_the_execute_bit_comes_back_too(
    session: Session, board: LocalBoard, file: Path, tmp_path: Path, mode: int, executable: bool
) -> None:
    place(session, board, file).chmod(mode)

    def lose_mode(local: Path) -> None:
        local.chmod(0o644)

    board.on_receive = lose_mode
    pull_files(session, board, [f"{board.folder}/target/a.bin"], tmp_path / "back")
    assert os.access(tmp_path / "back", os.X_OK) is executable
    assert (tmp_path / "back").stat().st_mode & 0o022 == 0


def test_a_folder_comes_back_with_all_that_is_below_it(
    session: Session, board: LocalBoard, tree: Path, tmp_path: Path
) -> None:
    push_files(session, board, [tree], str(board.folder / "copy"))
    pull_files(session, board, [str(board.folder / "copy")], tmp_path / "back")
    assert names(tmp_path / "back") == names(tree) - {"sub/empty"}
    (tmp_path / "there").mkdir()
    pull_files(session, board, [str(board.folder / "copy")], tmp_path / "there")
    assert (tmp_path / "there/copy/sub/it's data").read_text() == "data"


def test_how_far_a_pull_is_is_seen_while_it_goes_on(
    session: Session, board: LocalBoard, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, seen = record_progress(session, monkeypatch)
    monkeypatch.setattr(pull, "POLL_SECONDS", 0.01)

    def half_way(local: Path) -> None:
        local.write_bytes(CONTENT[:12_345])
        assert seen.wait(30)
        local.write_bytes(CONTENT)

    board.on_receive = half_way
    (board.folder / "file").write_bytes(CONTENT)
    pull_files(session, board, [f"{board.folder}/file"], tmp_path / "back")
    assert reached[0] == 12_345
    assert reached[-1] == len(CONTENT)


def test_an_agent_that_runs_there_hashes_what_is_pulled(board: LocalBoard) -> None:
    (board.folder / "file").write_bytes(CONTENT)
    agent, broken = board.folder / "agent", board.folder / "broken"
    agent.write_text(
        f"#!/bin/sh\n[ $1 = version ] && echo '{{\"agent\":1}}' && exit\necho {NAME[::-1]} {len(CONTENT)} -\n"
    )
    broken.write_text("#!/bin/sh\necho cannot execute >&2; exit 126\n")
    for program in (agent, broken):
        program.chmod(0o755)

    def found(*agents: str) -> tuple[str, str, int]:
        paths = [str(board.folder / name) for name in agents]
        deadline = Deadline.after(20, "the test")
        (file,) = pull.list_remote(board, ["file"], folder=str(board.folder), deadline=deadline, agents=paths)
        return file.tool, file.hash, file.size

    assert found("absent", "broken") == ("sha256sum", NAME, len(CONTENT))
    # That the agent was asked is seen by its answer, which is wrong on purpose.
    assert found("absent", "agent", "broken") == ("sha256sum", NAME[::-1], len(CONTENT))


def test_a_corrupted_pull_is_repeated_and_the_old_file_stays_until_the_new_one_is_whole(
    session: Session, board: LocalBoard, file: Path, tmp_path: Path
) -> None:
    there = place(session, board, file)
    back = tmp_path / "back"
    back.write_bytes(b"old")
    board.on_receive = flip_byte
    with pytest.raises(ContentDiffers):
        pull_files(session, board, [str(there)], back)
    assert back.read_bytes() == b"old"
    assert names(tmp_path) & {".back.part"} == set()
    assert board.calls.count("receive") == 2


def test_what_is_not_there_is_named(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    for remote in (board.folder / "nope", board.folder / "no/where"):
        with pytest.raises(RemoteFileMissing, match=r"nope|no$|no\."):
            pull_files(session, board, [str(remote)], tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_path_that_hdc_would_change_is_refused(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    (board.folder / "100%d").write_text("x")
    with pytest.raises(UnsafePath):
        pull_files(session, board, [str(board.folder / "100%d")], tmp_path / "back")


def test_patterns_name_files_and_all_else_in_them_is_quoted(
    session: Session, board: LocalBoard, tmp_path: Path
) -> None:
    (board.folder / "out").mkdir()
    for name in ("a 1.npy", "a 2.npy", "b.npy", "$(touch x).npy"):
        (board.folder / name).write_text(name)
    found = fetch_files(
        session,
        board,
        [as_pattern("a *.npy"), as_pattern("$(touch x).np?")],
        folder=str(board.folder),
        place=lambda name: tmp_path / "back" / name,
    )
    assert [file.local.name for file in found] == ["a 1.npy", "a 2.npy", "$(touch x).npy"]
    assert not (board.folder / "x").exists()


def test_a_pattern_that_fits_nothing_is_an_error(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    with pytest.raises(RemoteFileMissing, match=r"\*\.npy"):
        fetch_files(session, board, ["*.npy"], folder=str(board.folder), place=lambda name: tmp_path / name)


def test_a_name_that_would_leave_the_folder_is_refused(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    (board.folder / "in").mkdir()
    (board.folder / "secret").write_text("x")
    with pytest.raises(UsageError):
        fetch_files(session, board, ["../secret"], folder=str(board.folder / "in"), place=lambda name: tmp_path / name)


# the survey ----------------------------------------------------------------------------------------


def test_a_board_is_asked_again_when_its_first_answer_is_swallowed(session: Session, board: LocalBoard) -> None:
    faults = [LostConnection("no answer"), LostConnection("no answer")]

    def swallow(script: str) -> None:
        if faults:
            raise faults.pop()

    board.on_shell = swallow
    assert survey_board(session, board).hash_tool == "sha256sum"
    assert len(board.calls) == 3


def test_a_board_that_never_answers_is_told(session: Session, board: LocalBoard) -> None:
    def swallow(script: str) -> None:
        raise LostConnection("no answer")

    board.on_shell = swallow
    with pytest.raises(LostConnection):
        survey_board(session, board)


def test_an_answer_that_is_cut_is_no_answer() -> None:
    with pytest.raises(BoardError, match="not whole"):
        read_survey("@@hash\nsha256sum\n@@machine\naarch64\n5.10\n")


SAID = """@@hash
md5sum
@@writable
yes
@@space
Filesystem     1024-blocks     Used Available Capacity Mounted on
/dev/block/platform/fe310000.sdhci/by-name/userdata 25165824 1000 25164824 1% /data
@@machine
aarch64
5.10.184
#1 SMP Thu Jan 1 00:00:00 UTC 2026
@@loaders
/lib/ld-musl-arm.so.1
@@libraries
1 /system/lib/libc++.so
2 /system/lib64/libodd.so
@@memory
MemTotal:        1982468 kB
MemFree:          983040 kB
MemAvailable:    1310720 kB
@@cpu
processor\t: 0
Features\t: fp asimd asimddp

processor\t: 1
@@parameters
const.product.model=DAYU200
const.debuggable=Get parameter "const.debuggable" fail! errNum is:106!
@@stored
aaa 100 17 2026-01-01 00:00:00.5 +0000
bbb 200 18 2026-01-01 00:00:00.5 +0000
@@proven
aaa 100 17 2026-01-01 00:00:00.5 +0000
bbb 200 18 2026-01-01 00:00:00.4 +0000
@@end
"""


def test_what_a_board_says_is_understood() -> None:
    survey = read_survey(SAID)
    assert survey.arches == ("arm32", "arm64")  # the system is 32-bit, the kernel 64-bit
    assert survey.static_only == ("arm64",)
    assert survey.free_bytes == 25164824 * 1024
    assert survey.memory_bytes == 1982468 * 1024
    assert survey.available_bytes == 1310720 * 1024
    assert survey.libraries == {("libc++.so", 32), ("libodd.so", 64)}
    assert survey.parameters == {"const.product.model": "DAYU200"}
    assert (survey.cores, survey.cpu_features) == (2, ("fp", "asimd", "asimddp"))
    assert survey.stored == {"aaa": 100, "bbb": 200}
    assert survey.proven == {"aaa"}


def test_every_part_of_the_survey_is_a_script_that_runs(session: Session, board: LocalBoard) -> None:
    survey = survey_board(
        session, board, Question(stored=["0" * 64], libraries=["libc.so.6"], interpreters=["/bin/sh"])
    )
    assert survey.machine == os.uname().machine
    assert "/bin/sh" in survey.loaders
    assert survey.memory_bytes > 0
    assert survey.free_bytes is not None


def test_two_transfers_to_one_board_wait_for_each_other(session: Session, board: LocalBoard, file: Path) -> None:
    from core.errors import Busy
    from core.locks import hold

    impatient = dataclasses.replace(
        session,
        settings=dataclasses.replace(
            session.settings, timeouts=dataclasses.replace(session.settings.timeouts, lock=0.2)
        ),
    )
    lock = session.settings.data / "locks" / f"{board.serial}.lock"
    with hold(lock, Deadline.after(5, "the test")), pytest.raises(Busy):
        place(impatient, board, file)
    place(impatient, board, file)


def test_a_short_count_by_hdc_is_sent_once_more(session: Session, board: LocalBoard, file: Path) -> None:
    faults = [TransferError("999 bytes were reported")]

    def short(remote: str) -> None:
        if faults:
            raise faults.pop()

    board.on_send = short
    assert place(session, board, file).read_bytes() == CONTENT
