"""Files from a board: verified, whole or not at all, and nothing outside the folder."""

from __future__ import annotations

import functools
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import (
    ContentDiffers,
    RemoteFileMissing,
    TransferError,
    UsageError,
)
from core.session import PROJECT, Session
from deploy.transfer import pull
from deploy.transfer.early_end import EarlyEnd
from deploy.transfer.part import PART_NAME, own_part, remove_abandoned_parts
from deploy.transfer.pull import as_name, as_pattern, fetch_files, pull_files
from deploy.transfer.push import push_files
from tests.support.local_board import LocalBoard
from tests.support.transfers import CONTENT, NAME, flip_byte, names, place, record_progress
from tests.support.trees import nest
from tests.support.waiting import wait_until


def test_a_file_comes_back_as_it_is_named(session: Session, board: LocalBoard, file: Path, tmp_path: Path) -> None:
    there = place(session, board, file)
    (pulled,) = pull_files(session, board, [str(there)], tmp_path / "back.bin").files
    assert (tmp_path / "back.bin").read_bytes() == CONTENT
    assert (pulled.sha256, pulled.size) == (NAME, len(CONTENT))


@pytest.mark.parametrize("mode", [0o755, 0o644, 0o600, 0o640])
def test_the_mode_comes_back_too(session: Session, board: LocalBoard, file: Path, tmp_path: Path, mode: int) -> None:
    place(session, board, file).chmod(mode)
    seen: list[int] = []

    def lose_mode(local: Path) -> None:
        seen.append(local.stat().st_mode & 0o777)
        local.chmod(0o644)

    board.on_receive = lose_mode
    pull_files(session, board, [f"{board.folder}/target/a.bin"], tmp_path / "back")
    assert (tmp_path / "back").stat().st_mode & 0o7777 == mode
    assert seen == [0o600]  # nobody else could read it on the way


def test_a_folder_comes_back_with_all_that_is_below_it(
    session: Session, board: LocalBoard, tree: Path, tmp_path: Path
) -> None:
    push_files(session, board, [tree], str(board.folder / "copy"))
    pull_files(session, board, [str(board.folder / "copy")], tmp_path / "back")
    assert names(tmp_path / "back") == names(tree)
    (tmp_path / "there").mkdir()
    pull_files(session, board, [str(board.folder / "copy")], tmp_path / "there")
    assert (tmp_path / "there/copy/sub/it's data").read_text() == "data"


def test_how_far_a_pull_is_is_seen_while_it_goes_on(
    session: Session, board: LocalBoard, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = record_progress(session, monkeypatch)
    monkeypatch.setattr(pull, "POLL_SECONDS", 0.01)

    def half_way(local: Path) -> None:
        local.write_bytes(CONTENT[:12_345])
        wait_until("half of it to be told", lambda: 12_345 in reached)
        local.write_bytes(CONTENT)

    board.on_receive = half_way
    (board.folder / "file").write_bytes(CONTENT)
    pull_files(session, board, [f"{board.folder}/file"], tmp_path / "back")
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
        wanted = [as_name("file")]
        (file,) = pull.list_remote(board, wanted, folder=str(board.folder), deadline=deadline, agents=paths).files
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


def test_a_file_that_is_changed_there_meanwhile_is_told_and_not_fetched_again(
    session: Session, board: LocalBoard, tmp_path: Path
) -> None:
    log = board.folder / "log.txt"
    log.write_text("one\n")

    def write_on(local: Path) -> None:
        log.write_text("one\ntwo\n")
        local.write_text("one\ntw")

    board.on_receive = write_on
    with pytest.raises(TransferError, match="was changed while") as told:
        pull_files(session, board, [str(log)], tmp_path / "back")
    assert not isinstance(told.value, ContentDiffers)  # Its remedy is another cable.
    assert board.calls.count("receive") == 1
    assert not (tmp_path / "back").exists()


def test_a_large_file_is_named_before_it_is_hashed(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "NAMED_FROM", len(CONTENT))
    said: list[bytes] = []

    def listen(end: EarlyEnd, serial: str) -> Callable[[bytes], None]:
        return said.append

    monkeypatch.setattr(pull, "ended_by_silence", listen)
    (board.folder / "out").mkdir()
    (board.folder / "out/a").write_bytes(CONTENT)
    (board.folder / "out/b").write_bytes(CONTENT[1:])
    pull_files(session, board, [f"{board.folder}/out"], tmp_path / "back")
    rows = [row.split(b" ")[0] for row in b"".join(said).split(b"\0")]
    assert rows == [b"folder", b"hashing", b"sha256sum", b"sha256sum", b"end", b""]
    assert names(tmp_path / "back") == {"a", "b"}


def test_what_is_not_there_is_named(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    for remote in (board.folder / "nope", board.folder / "no/where"):
        with pytest.raises(RemoteFileMissing, match=r"nope|no$|no\."):
            pull_files(session, board, [str(remote)], tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("name", ["100%d", 'quo"te', "back\\slash", 'a%s\\"b', "-x", "remote"])
def test_a_name_that_hdc_would_change_goes_both_ways(
    session: Session, board: LocalBoard, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text(name)
    push_files(session, board, [tmp_path / name], f"{board.folder}/")
    assert (board.folder / name).read_text() == name
    (tmp_path / "back").mkdir()
    pull_files(session, board, [f"{board.folder}/{name}"], tmp_path / "back")
    assert (tmp_path / "back" / name).read_text() == name
    assert [path.name for path in board.store.iterdir() if path.suffix == ".part"] == []


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
    assert [file.local.name for file in found.files] == ["a 1.npy", "a 2.npy", "$(touch x).npy"]
    assert not (board.folder / "x").exists()


def test_a_pattern_that_fits_nothing_is_an_error(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    with pytest.raises(RemoteFileMissing, match=r"\*\.npy"):
        fetch_files(session, board, [as_pattern("*.npy")], folder=str(board.folder), place=lambda name: tmp_path / name)


def test_a_name_that_would_leave_the_folder_is_refused(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    (board.folder / "in").mkdir()
    (board.folder / "secret").write_text("x")
    with pytest.raises(UsageError):
        fetch_files(
            session,
            board,
            [as_pattern("../secret")],
            folder=str(board.folder / "in"),
            place=lambda name: tmp_path / name,
        )


@pytest.mark.parametrize("answer", [".bashrc", "log.txt.sh", "sub/log.txt", "./log.txt"])
def test_a_board_cannot_answer_with_another_file_than_it_was_asked_for(
    session: Session, board: LocalBoard, tmp_path: Path, answer: str
) -> None:
    (board.folder / "sub").mkdir()
    for name in ("log.txt", answer):
        (board.folder / name).write_text("harm")
    (tmp_path / "here").mkdir()
    board.replies = {r" log\.txt\0": f" {answer}\0"}
    with pytest.raises(TransferError, match="nobody asked for"):
        pull_files(session, board, [f"{board.folder}/log.txt"], tmp_path / "here")
    assert names(tmp_path / "here") == set()
    assert "receive" not in board.calls


@pytest.mark.parametrize(
    ("pattern", "fits", "not_fits"),
    [
        ("*", ["a", "a.b", "dir/below", "dir/.hidden"], [".bashrc", "/a", "/.bashrc"]),
        (
            "out/*.npy",
            ["out/a.npy", "out/*.npy", "out/a.npy/below"],
            ["out/.npy", "out//.npy", "a.npy", "out/b/a.npy", "out/a.sh"],
        ),
        ("a?c", ["abc", "a.c"], ["ac", "abbc", "a/c"]),
        ("[a-c]1", ["a1", "c1"], ["d1", "-1", ".1"]),
        ("[!a-c]1", ["d1"], ["a1", "/1", ".1"]),
        ("a[1]", ["a1", "a[1]"], ["a2", "a["]),
        ("[z-a]x", ["[z-a]x"], [".x", "bc"]),
        ("(a|b)+.txt", ["(a|b)+.txt"], ["a.txt"]),
        ("out/", ["out/a", "out/b/c"], ["outer/a"]),
    ],
)
def test_a_pattern_fits_what_the_shell_finds_by_it(pattern: str, fits: list[str], not_fits: list[str]) -> None:
    allowed = as_pattern(pattern).names
    assert [name for name in fits if not allowed.fullmatch(name)] == []
    assert [name for name in not_fits if allowed.fullmatch(name)] == []


def test_a_name_is_no_pattern() -> None:
    assert as_name("a*").names.fullmatch("a*/below")
    assert not as_name("a*").names.fullmatch("ab")


def test_a_link_under_the_temporary_name_is_not_followed(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    (board.folder / "log.txt").write_text("new")
    (tmp_path / "here").mkdir()
    (tmp_path / "precious").write_text("old")
    (tmp_path / "here" / PART_NAME).symlink_to(tmp_path / "precious")
    pull_files(session, board, [f"{board.folder}/log.txt"], tmp_path / "here")
    assert (tmp_path / "precious").read_text() == "old"
    assert (tmp_path / "here/log.txt").read_text() == "new"
    assert not (tmp_path / "here/log.txt").is_symlink()


def test_what_a_killed_pull_has_left_is_removed_by_the_next_and_nothing_else(
    session: Session, board: LocalBoard, tmp_path: Path
) -> None:
    (board.folder / "log.txt").write_text("new")
    here = tmp_path / "here"
    here.mkdir()
    abandoned = here / ".ohforge-pull-0123456789abcdef.part"
    stream = here / ".ohforge-0123456789abcdef.part"  # Which is gone on with.
    for left in (abandoned, stream):
        left.write_text("left")
    with own_part(here / ".ohforge-pull-00000000000000aa.part"):
        pull_files(session, board, [f"{board.folder}/log.txt"], here)
        assert names(here) == {"log.txt", stream.name, ".ohforge-pull-00000000000000aa.part"}
    precious = tmp_path / "precious"
    precious.write_text("old")
    abandoned.symlink_to(precious)
    remove_abandoned_parts(here)
    assert precious.read_text() == "old"


def test_a_part_is_held_until_it_has_its_name(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    (board.folder / "log.txt").write_text("new")
    board.on_receive = lambda local: remove_abandoned_parts(local.parent)
    pull_files(session, board, [f"{board.folder}/log.txt"], tmp_path / "back")
    assert (tmp_path / "back").read_text() == "new"


def test_nobody_can_foresee_the_temporary_name() -> None:
    program = "from deploy.transfer.part import PART_NAME; print(PART_NAME)"
    say = functools.partial(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, check=True, cwd=PROJECT
    )
    assert len({say().stdout for _ in range(2)}) == 2


@pytest.mark.usefixtures("any_depth")
def test_the_longest_name_and_the_deepest_folder_come_over(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    (board.folder / "out").mkdir()
    (board.folder / "out" / ("n" * 255)).write_text("long")
    nest(board.folder / "out", 1200)
    done = pull_files(session, board, [f"{board.folder}/out"], tmp_path / "out")
    assert sorted(file.size for file in done.files) == [4, 5]
    assert (tmp_path / "out" / ("n" * 255)).read_text() == "long"
    assert (tmp_path / "out" / "/".join(["d"] * 1200) / "f").read_bytes() == b"12345"


def test_what_cannot_be_fetched_is_left_out_with_a_warning(
    session: Session, board: LocalBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = board.folder / "out"
    (out / "deep").mkdir(parents=True)
    for name in ("good", "deep/good too", "deep/next line\u2028", "two\nlines", "deep/two\nlines"):
        (out / name).write_text(name)
    os.mkfifo(out / "pipe")
    os.mkfifo(out / "deep/pipe")
    (out / "device").symlink_to("/dev/null")
    (out / "gone").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(os.path.relpath(out / "door"))
        Path(os.fsdecode(bytes(out) + b"/\xff")).write_text("x")
        pulled = fetch_files(
            session, board, [as_pattern("*")], folder=str(out), place=lambda name: tmp_path / "here" / name
        )
    found = {str(file.local.relative_to(tmp_path / "here")): file.local.read_text() for file in pulled.files}
    assert found == {name: name for name in ("good", "deep/good too", "deep/next line\u2028")}
    skipped = {
        **dict.fromkeys(("pipe", "deep/pipe"), "pipe"),
        **dict.fromkeys(("two\\x0alines", "deep/two\\x0alines", "\\xff"), "name"),
        "device": "device",
        "gone": "dangling",
        "door": "socket",
    }
    assert {entry.path: entry.why for entry in pulled.left_out} == skipped
    warned = {line.split(" in /")[0] for line in capsys.readouterr().err.splitlines()}
    assert warned == {f"warning: {name}" for name in skipped}


def test_a_pipe_that_is_asked_for_by_its_name_is_an_error(session: Session, board: LocalBoard, tmp_path: Path) -> None:
    os.mkfifo(board.folder / "pipe")
    with pytest.raises(RemoteFileMissing, match="pipe"):
        pull_files(session, board, [f"{board.folder}/pipe"], tmp_path / "back")


@pytest.mark.parametrize(
    "answer", ["", "x", r"sha256sum 0 9x9 - log.txt\0end\0", r"a b c d e\0end\0", r"sha256sum 0 1 - a\0"]
)
def test_a_listing_that_is_none_is_refused(session: Session, board: LocalBoard, tmp_path: Path, answer: str) -> None:
    (board.folder / "log.txt").write_text("text")
    board.replies = {r"(?s)\A.*\Z": answer}
    with pytest.raises(TransferError, match="cannot list"):
        pull_files(session, board, [f"{board.folder}/log.txt"], tmp_path / "back")
