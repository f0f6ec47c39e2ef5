"""Trees both ways: links by their rule, modes, empty folders, and a word for everything that does not go along."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import UnsafePath, UsageError
from core.session import Session
from deploy.transfer import placement
from deploy.transfer.links import Links
from deploy.transfer.pull import Pulled, pull_files
from deploy.transfer.push import PushSummary, push_files
from deploy.transfer.tree import LeftOut, stays_inside
from tests.support.local_board import LocalBoard


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files, links of every kind, a pipe and an empty folder, with modes that are not the usual ones."""
    top = tmp_path / "tree"
    (top / "lib/deep").mkdir(parents=True)
    (top / "empty").mkdir(mode=0o700)
    (top / "lib/deep/secret").write_text("secret")
    (top / "lib/deep/secret").chmod(0o600)
    (top / "lib/run").write_text("#!/bin/sh\n")
    (top / "lib/run").chmod(0o751)
    (tmp_path / "elsewhere").write_text("elsewhere")
    (top / "lib/deep").chmod(0o750)
    (top / "to-file").symlink_to("lib/run")
    (top / "lib/to-folder").symlink_to("deep")
    (top / "lib/up").symlink_to("../lib/deep/secret")
    (top / "lib/deep/round").symlink_to("../..")
    (top / "gone").symlink_to("nowhere")
    (top / "outside").symlink_to("../elsewhere")
    (top / "absolute").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(top / "pipe")
    return top


def content(top: Path) -> dict[str, str]:
    """Every path below `top` with what is there: its mode and text, or where it leads."""
    found = {}
    for path in top.rglob("*"):
        mode = f"{path.lstat().st_mode & 0o7777:o}"
        kind = f"-> {path.readlink()}" if path.is_symlink() else mode if path.is_dir() else f"{mode} {path.read_text()}"
        found[path.relative_to(top).as_posix()] = kind
    return found


FOLDERS_AND_FILES = {
    "empty": "700",
    "lib": "755",
    "lib/deep": "750",
    "lib/deep/secret": "600 secret",
    "lib/run": "751 #!/bin/sh\n",
}
FOLLOWED = FOLDERS_AND_FILES | {
    "to-file": "751 #!/bin/sh\n",
    "lib/to-folder": "750",
    "lib/to-folder/secret": "600 secret",
    "lib/up": "600 secret",
    "outside": "644 elsewhere",
    "absolute": "644 elsewhere",
}
NOT_FOLLOWED = {"gone": "dangling", "lib/deep/round": "loop", "lib/to-folder/round": "loop", "pipe": "pipe"}
KEPT = FOLDERS_AND_FILES | {
    "to-file": "-> lib/run",
    "lib/to-folder": "-> deep",
    "lib/up": "-> ../lib/deep/secret",
    "lib/deep/round": "-> ../..",
    "gone": "-> nowhere",
}
NOT_KEPT = {"outside": "outside", "absolute": "outside", "pipe": "pipe"}


def left_out(answer: Pulled | PushSummary, top: str) -> dict[str, str]:
    return {entry.path.removeprefix(f"{top}/"): entry.why for entry in answer.left_out}


@pytest.mark.parametrize(
    ("rule", "arrives", "not_along"), [(Links.FOLLOW, FOLLOWED, NOT_FOLLOWED), (Links.KEEP, KEPT, NOT_KEPT)]
)
def test_a_tree_arrives_by_the_same_rule_both_ways(
    session: Session,
    board: LocalBoard,
    tree: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    rule: Links,
    arrives: dict[str, str],
    not_along: dict[str, str],
) -> None:
    os.umask(0o022)
    pushed = push_files(session, board, [tree], str(board.folder / "there"), rule)
    assert content(board.folder / "there") == arrives
    assert left_out(pushed, "tree") == not_along
    told = capsys.readouterr().err
    assert all(f"tree/{path} on its way" in told for path in not_along)

    pulled = pull_files(session, board, [str(tree)], tmp_path / "back", rule)
    assert content(tmp_path / "back") == arrives
    assert left_out(pulled, "tree") == not_along
    told = capsys.readouterr().err
    assert all(f"tree/{path} in {tmp_path}" in told for path in not_along)


def test_refused_links_are_named_and_nothing_is_copied(
    session: Session, board: LocalBoard, tree: Path, tmp_path: Path
) -> None:
    with pytest.raises(UnsafePath, match=r"tree/absolute, .*tree/to-file"):
        push_files(session, board, [tree], str(board.folder / "there"), Links.REFUSE)
    assert board.calls == []
    with pytest.raises(UnsafePath, match=r"tree/absolute, .*tree/to-file"):
        pull_files(session, board, [str(tree)], tmp_path / "back", Links.REFUSE)
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("rule", Links)
def test_what_is_named_itself_is_followed(
    session: Session, board: LocalBoard, tree: Path, tmp_path: Path, rule: Links
) -> None:
    link = tmp_path / "named"
    link.symlink_to("elsewhere")
    push_files(session, board, [link], f"{board.folder}/", rule)
    assert (board.folder / "named").read_text() == "elsewhere"
    assert not (board.folder / "named").is_symlink()
    pull_files(session, board, [str(link)], tmp_path / "back", rule)
    assert (tmp_path / "back").read_text() == "elsewhere"
    assert not (tmp_path / "back").is_symlink()


def test_folders_that_hold_one_another_by_links_come_to_an_end(
    session: Session, board: LocalBoard, tmp_path: Path
) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (tmp_path / "tree" / one).mkdir(parents=True)
        (tmp_path / "tree" / one / "file").write_text(one)
        (tmp_path / "tree" / one / "link").symlink_to(f"../{other}")
    pushed = push_files(session, board, [tmp_path / "tree"], str(board.folder / "there"))
    pulled = pull_files(session, board, [str(tmp_path / "tree")], tmp_path / "back")
    files = {"a/file": "a", "a/link/file": "b", "b/file": "b", "b/link/file": "a"}
    for top in (board.folder / "there", tmp_path / "back"):
        assert {path.relative_to(top).as_posix(): path.read_text() for path in top.rglob("file")} == files
    for answer in (pushed, pulled):
        assert left_out(answer, "tree") == {"a/link/link": "loop", "b/link/link": "loop"}


@pytest.mark.parametrize(
    ("path", "target", "stays"),
    [
        ("a", "b", True),
        ("a", "b/c", True),
        ("a", "..", False),
        ("a", "../a", False),
        ("d/a", "../b", True),
        ("d/a", "./../b", True),
        ("d/a", "../../b", False),
        ("d/a", "/b", False),
        ("d/e/a", "../..", True),
        ("a", "d/e/up/../x", False),  # where `up` leads is not known
        ("a", "..b/c", True),
    ],
)
def test_a_kept_link_never_leads_out_of_the_tree(path: str, target: str, stays: bool) -> None:
    assert stays_inside(path, target) is stays


def test_a_folder_that_cannot_be_read_is_an_error_here(
    session: Session, board: LocalBoard, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "listdir", refused)
    with pytest.raises(UsageError, match="tree cannot be read: Permission denied"):
        push_files(session, board, [tree], str(board.folder / "there"))


@pytest.mark.parametrize("name", ["new\nline", "\udcff"])
def test_a_name_that_cannot_be_shown_is_refused(session: Session, board: LocalBoard, tmp_path: Path, name: str) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / name).write_text("x")
    with pytest.raises(UsageError, match="control character"):
        push_files(session, board, [tmp_path / "tree"], str(board.folder / "there"))


def test_what_is_there_keeps_the_mode_of_its_folders_and_gets_those_of_its_files(
    session: Session, board: LocalBoard, tree: Path
) -> None:
    (board.folder / "there/lib").mkdir(parents=True, mode=0o711)
    (board.folder / "there/lib").chmod(0o711)
    push_files(session, board, [tree / "lib"], str(board.folder / "there"))
    (tree / "lib/run").chmod(0o600)
    push_files(session, board, [tree / "lib"], str(board.folder / "there"))
    assert (board.folder / "there/lib").stat().st_mode & 0o7777 == 0o711
    assert (board.folder / "there/lib/run").stat().st_mode & 0o7777 == 0o600


def test_a_large_file_under_two_modes_is_two_files_and_under_one_mode_one(
    session: Session, board: LocalBoard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placement, "COPY_BYTES", 0)
    file = tmp_path / "file"
    file.write_text("content")

    def push(name: str, mode: int) -> os.stat_result:
        file.chmod(mode)
        push_files(session, board, [file], str(board.folder / name))
        return (board.folder / name).stat()

    first, second = push("first", 0o640), push("second", 0o640)
    third = push("third", 0o600)
    assert first.st_ino == second.st_ino != third.st_ino
    modes = {name: (board.folder / name).stat().st_mode & 0o777 for name in ("first", "second", "third")}
    assert modes == {"first": 0o640, "second": 0o640, "third": 0o600}
    again = push("second", 0o755)  # it has the same file as `first`, which must stay as it is
    assert (again.st_mode & 0o777, (board.folder / "first").stat().st_mode & 0o777) == (0o755, 0o640)


def test_a_mode_that_a_file_cannot_have_is_told(
    session: Session, board: LocalBoard, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_modes(script: str) -> None:
        if "chmod" in script:
            (board.folder / "bin").mkdir(exist_ok=True)
            (board.folder / "bin/chmod").write_text("#!/bin/sh\nexit 1\n")
            (board.folder / "bin/chmod").chmod(0o755)

    board.on_shell = no_modes
    board.environment = {"PATH": f"{board.folder}/bin:{os.environ['PATH']}"}
    pushed = push_files(session, board, [tree / "lib/run"], str(board.folder / "run"))
    assert pushed.left_out == (LeftOut(path="run", why="mode"),)
    assert "cannot have its mode" in capsys.readouterr().err


def test_what_is_sent_to_the_store_is_for_nobody_else(session: Session, board: LocalBoard, tree: Path) -> None:
    push_files(session, board, [tree / "lib/deep/secret"], f"{board.folder}/")
    assert board.store.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("there", ["file", "folder"])
def test_what_stands_in_the_way_here_is_named(session: Session, board: LocalBoard, tmp_path: Path, there: str) -> None:
    (board.folder / "out").mkdir()
    (board.folder / "out/x").write_text("x") if there == "folder" else (board.folder / "out/x").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here/x").mkdir() if there == "folder" else (tmp_path / "here/x").write_text("old")
    with pytest.raises(UsageError, match="here/x cannot be written"):
        pull_files(session, board, [f"{board.folder}/out/x"], tmp_path / "here")


def test_a_folder_of_the_board_that_cannot_be_read_is_named(
    session: Session, board: LocalBoard, tree: Path, tmp_path: Path
) -> None:
    board.replies = {r"folder - 0 750 tree/lib/deep\0": "unreadable - 0 0 tree/lib/deep\0"}
    pulled = pull_files(session, board, [str(tree)], tmp_path / "back")
    assert left_out(pulled, "tree")["lib/deep"] == "unreadable"
