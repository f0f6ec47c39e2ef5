"""``file send`` and ``file recv``: messages, names, modes, and what a failure leaves behind."""

from __future__ import annotations

import hashlib
import os
import re
import time
from pathlib import Path

import pytest

from tests.support.emulated import Hdc
from tests.support.waiting import wait_until

FINISH = rb"FileTransfer finish, Size:(\d+), File count = (\d+), time:\d+ms rate:(?:[\d.]+|inf|nan|-nan)kB/s"
LOG = rb"\[F\]\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] "


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local"
    path.mkdir()
    return path


@pytest.fixture
def tree(local: Path) -> Path:
    """Three files in nested folders, and an empty folder."""
    top = local / "tree"
    (top / "sub" / "deep").mkdir(parents=True)
    (top / "empty").mkdir()
    (top / "a").write_text("a")
    (top / "sub" / "b").write_text("bb")
    (top / "sub" / "deep" / "c").write_text("ccc")
    return top


def test_a_sent_file_is_told_by_the_board_and_a_received_one_by_the_client(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_bytes(b"27 bytes of text in a file\n")
    sent = re.fullmatch(FINISH + rb"\r\n", hdc.board("file", "send", str(local / "x"), f"{folder}/x"))
    got = re.fullmatch(FINISH + rb"\n", hdc.board("file", "recv", f"{folder}/x", str(local / "y")))
    assert sent is not None
    assert got is not None
    assert sent.groups() == got.groups() == (b"27", b"1")
    assert (local / "y").read_bytes() == (local / "x").read_bytes()


def test_an_empty_file_is_sent_and_received(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").touch()
    assert b"Size:0, File count = 1" in hdc.board("file", "send", str(local / "x"), f"{folder}/x")
    assert b"Size:0, File count = 1" in hdc.board("file", "recv", f"{folder}/x", str(local / "y"))
    assert (local / "y").read_bytes() == b""


def test_a_large_file_arrives_whole_both_ways(hdc: Hdc, folder: str, local: Path) -> None:
    data = os.urandom(8 * 1024 * 1024) * 3
    (local / "x").write_bytes(data)
    hdc.board("file", "send", str(local / "x"), f"{folder}/x")
    assert hdc.shell(f"md5sum {folder}/x").split()[0] == hashlib.md5(data).hexdigest().encode()
    hdc.board("file", "recv", f"{folder}/x", str(local / "y"))
    assert (local / "y").read_bytes() == data


def test_execute_bits_are_lost_and_an_old_file_keeps_its_mode(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("1")
    (local / "x").chmod(0o755)
    hdc.board("file", "send", str(local / "x"), f"{folder}/x")
    assert hdc.shell(f"stat -c %a {folder}/x") == b"644\n"
    hdc.shell(f"chmod 700 {folder}/x")
    before = hdc.shell(f"stat -c %i {folder}/x")
    hdc.board("file", "send", str(local / "x"), f"{folder}/x")
    assert hdc.shell(f"stat -c '%a %i' {folder}/x") == b"700 " + before


def test_a_link_at_the_target_is_followed(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("new")
    hdc.shell(f"cd {folder}; echo old >real; ln -s real link")
    hdc.board("file", "send", str(local / "x"), f"{folder}/link")
    assert hdc.shell(f"cat {folder}/real; ls -l {folder}/link | cut -c 1") == b"newl\n"


def test_modes_are_kept_with_m_and_times_with_a(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("1")
    (local / "x").chmod(0o751)
    os.utime(local / "x", (1_600_000_000, 1_500_000_000))
    hdc.board("file", "send", "-m", "-a", str(local / "x"), f"{folder}/x")
    assert hdc.shell(f"stat -c '%a %Y' {folder}/x") == b"751 1500000000\n"
    assert b"finish" in hdc.board("file", "recv", "-a", f"{folder}/x", str(local / "back"))
    assert int((local / "back").stat().st_mtime) == 1_500_000_000


def test_modes_of_folders_are_kept_only_below_a_folder_that_was_there(hdc: Hdc, folder: str, tree: Path) -> None:
    (tree / "sub").chmod(0o711)
    (tree / "sub" / "deep").chmod(0o700)
    hdc.board("file", "send", "-m", str(tree), folder)
    assert hdc.shell(f"cd {folder}/tree; stat -c %a sub sub/deep") == b"711\n700\n"
    hdc.board("file", "send", "-m", str(tree), f"{folder}/new")
    assert hdc.shell(f"cd {folder}/new; stat -c %a sub sub/deep") == b"750\n750\n"


def test_compressed_files_arrive_as_they_are(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_bytes(b"the same again and " * 60_000 + os.urandom(100_000))
    assert b"finish" in hdc.board("file", "send", "-z", str(local / "x"), f"{folder}/x")
    assert b"finish" in hdc.board("file", "recv", "-z", f"{folder}/x", str(local / "y"))
    assert (local / "y").read_bytes() == (local / "x").read_bytes()


def test_a_file_goes_into_a_folder_that_exists(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("1")
    assert b"finish" in hdc.board("file", "send", str(local / "x"), folder)
    assert hdc.shell(f"ls {folder}") == b"x\n"


def test_a_folder_that_is_missing_is_not_made_for_a_file(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("1")
    answer = hdc.board("file", "send", str(local / "x"), f"{folder}/none/x")
    assert answer == f"[Fail]Error opening file: no such file or directory, path:{folder}/none/x\r\n".encode()
    answer = hdc.board("file", "send", str(local / "x"), f"{folder}/none/")
    assert answer == f"[Fail]Error opening file: no such file or directory, path:{folder}/none/x\r\n".encode()


def test_a_percent_of_a_path_that_fails_is_a_printf_format(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("1")
    answer = hdc.board("file", "send", str(local / "x"), f"{folder}/nowhere/per%d%d%x")
    told = f"[Fail]Error opening file: no such file or directory, path:{folder}/nowhere/per"
    assert re.fullmatch(re.escape(told.encode()) + rb"-?\d+-?\d+[0-9a-f]+\r\n", answer)


def test_words_that_paths_cannot_be(hdc: Hdc, folder: str, local: Path) -> None:
    for name in ("remote", "-x", 'quo"te'):
        (local / name).write_text(name)
    # The name is taken for the word by which a client says that it opens files itself.
    assert hdc.board("file", "send", "remote", f"{folder}/a", cwd=local) == b"[Fail]There is no remote path\n"
    assert hdc.board("file", "send", "-x", f"{folder}/a", cwd=local) == b"[Fail]Unknown file option: -x\n"
    assert hdc.board("file", "send", "--", "./-x", f"{folder}/a", cwd=local) == b"[Fail]Unknown file option: --\n"
    assert b"finish" in hdc.board("file", "send", "./-x", f"{folder}/a", cwd=local)
    answer = hdc.board("file", "send", 'quo"te', f"{folder}/a", cwd=local)
    assert b"finish" not in answer
    assert hdc.shell(f"cat {folder}/a") == b"-x"


@pytest.mark.parametrize("name", ["with blank", "it's", "süß", "50% off"])
def test_unusual_names_arrive(hdc: Hdc, folder: str, local: Path, name: str) -> None:
    (local / name).write_text(name)
    assert b"finish" in hdc.board("file", "send", str(local / name), f"{folder}/{name}")
    assert b"finish" in hdc.board("file", "recv", f"{folder}/{name}", str(local / "back"))
    assert (local / "back").read_text() == name


def test_local_paths_are_relative_to_the_callers_folder(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("1")
    assert b"finish" in hdc.board("file", "send", "x", f"{folder}/x", cwd=local)
    assert b"finish" in hdc.board("file", "recv", f"{folder}/x", cwd=local)
    (local / "x").unlink()
    hdc.board("file", "recv", f"{folder}/x", "y", cwd=local)
    assert (local / "y").read_text() == "1"


def test_of_three_paths_the_first_is_ignored(hdc: Hdc, folder: str, local: Path) -> None:
    for name in "ab":
        (local / name).write_text(name)
    answer = hdc.board("file", "send", str(local / "a"), str(local / "b"), f"{folder}/x")
    assert b"File count = 1" in answer
    assert hdc.shell(f"cat {folder}/x") == b"b"


def test_a_missing_local_file_is_told_twice_by_the_client(hdc: Hdc, folder: str, local: Path) -> None:
    path = str(local / "none").encode()
    why = b"no such file or directory"
    told = b"[Fail]Error opening file: %b, path:%b\n" % (why, path)
    logged = LOG + re.escape(b"open path:%b, localPath:%b, error:%b, dir:0, master:1\n" % (path, path, why))
    answer = hdc.board("file", "send", path, f"{folder}/x")
    assert re.fullmatch(re.escape(told) + logged, answer)


def test_a_place_that_cannot_be_written_here_is_told_twice_too(hdc: Hdc, folder: str, local: Path) -> None:
    hdc.shell(f"echo 1 >{folder}/x")
    place = str(local / "none" / "y")
    answer = hdc.board("file", "recv", f"{folder}/x", place)
    first, second = answer.splitlines(keepends=True)
    assert first == f"[Fail]Error opening file: no such file or directory, path:{place}\n".encode()
    assert re.match(LOG + b"open path:", second)
    assert second.endswith(b", error:no such file or directory, dir:0, master:0\n")


def test_a_missing_remote_file_is_told_by_the_board(hdc: Hdc, folder: str, local: Path) -> None:
    answer = hdc.board("file", "recv", f"{folder}/none", str(local / "y"))
    assert answer == f"[Fail]Error opening file: no such file or directory, path:{folder}/none\r\n".encode()
    assert not (local / "y").exists()


def test_missing_and_wrong_arguments_are_told_apart(hdc: Hdc, local: Path) -> None:
    assert hdc.board("file", "send") == b"[Fail]There is no local and remote path\n"
    assert hdc.board("file", "send", str(local)) == b"[Fail]There is no remote path\n"
    assert hdc.board("file", "send", "-a") == b"[Fail]There is no local and remote path\n"
    assert hdc.board("file", "recv") == b"[Fail]There is no local and remote path\r\n"
    assert hdc.board("file", "send", "-q", "a", "b") == b"[Fail]Unknown file option: -q\n"


def test_folders_of_applications_are_asked_for_by_name(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("1")
    bundle = ("-b", "com.example.none")
    assert hdc.board("file", "send", *bundle, str(local / "x")) == b"[Fail]There is no remote path\n"
    for answer in (
        hdc.board("file", "send", *bundle, str(local / "x"), "x"),
        hdc.board("file", "recv", *bundle, "x", str(local / "y")),
    ):
        assert answer == b"[Fail][E005101] Invalid bundle name: com.example.none\r\n"
    missing = b"[Fail][E005003] The parameter is missing, correct your input by referring below:\n"
    assert hdc.board("file", "send", "-b") == missing + b"Usage: hdc file send [-b bundlename] local remote\n"
    assert hdc.board("file", "recv", "-b") == missing + b"Usage: hdc file recv [-b bundlename] remote local\r\n"


def test_the_folder_of_the_daemons_keys_is_protected(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("1")
    place = "/data/service/el1/public/hdc"
    for words in (("send", str(local / "x"), f"{place}/x"), ("recv", f"{place}/x", str(local / "y"))):
        assert hdc.board("file", *words) == b"[Fail][E005008] Operation not allowed\r\n"
    here = local / place.lstrip("/")
    here.mkdir(parents=True)
    (here / "x").write_text("1")
    answer = hdc.board("file", "send", str(here / "x"), f"{folder}/x")
    assert re.fullmatch(rb"\[Fail\]\[E005008\] Operation not allowed\n\[I\]\[[-0-9: ]{19}\] .+\n", answer)


def test_a_device_without_end_is_one_block(hdc: Hdc, folder: str) -> None:
    answer = re.fullmatch(FINISH + rb"\r\n", hdc.board("file", "send", "/dev/zero", f"{folder}/zero"))
    assert answer is not None
    assert answer.groups() == (b"418611", b"1")


def test_a_read_only_place_is_refused(hdc: Hdc, local: Path) -> None:
    (local / "x").write_text("1")
    answer = hdc.board("file", "send", str(local / "x"), "/system/x")
    assert re.fullmatch(
        rb"\[Fail\]Error opening file: (read-only file system|permission denied), path:/system/x\r\n", answer
    )


def test_a_path_without_a_folder_lies_in_the_boards_root_and_is_told_as_it_was_typed(hdc: Hdc, local: Path) -> None:
    (local / "x").write_bytes(b"x")
    for typed in ("system", "./system", "../system"):
        answer = hdc.board("file", "send", str(local / "x"), f"{typed}/ohforge")
        assert re.fullmatch(rb"\[Fail\]Error opening file: [a-z -]+, path:%b/ohforge\r\n" % typed.encode(), answer)


def test_a_running_program_cannot_be_overwritten(hdc: Hdc, folder: str, local: Path) -> None:
    hdc.board("file", "recv", "/bin/sh", str(local / "sh"))
    (local / "sh").chmod(0o755)
    hdc.board("file", "send", "-m", str(local / "sh"), f"{folder}/own-shell")
    started = hdc.shell(f"{folder}/own-shell -c 'sleep 60; :' </dev/null >/dev/null 2>&1 & echo $!").decode().strip()
    wait_until("its start", lambda: f"{folder}/own-shell".encode() in hdc.shell(f"cat /proc/{started}/cmdline"))
    answer = hdc.board("file", "send", str(local / "sh"), f"{folder}/own-shell")
    hdc.shell(f"kill -9 {started}")
    assert answer == f"[Fail]Error opening file: text file is busy, path:{folder}/own-shell\r\n".encode()


def test_a_tree_becomes_a_copy_or_goes_into_what_exists(hdc: Hdc, folder: str, tree: Path) -> None:
    assert b"Size:6, File count = 3" in hdc.board("file", "send", str(tree), f"{folder}/new")
    assert (
        hdc.shell(f"cd {folder}; find new | sort") == b"new\nnew/a\nnew/sub\nnew/sub/b\nnew/sub/deep\nnew/sub/deep/c\n"
    )
    hdc.board("file", "send", str(tree), f"{folder}/new")
    assert hdc.shell(f"cat {folder}/new/tree/sub/deep/c") == b"ccc"
    assert b"File count = 3" in hdc.board("file", "send", str(tree), f"{folder}/slash/")
    assert hdc.shell(f"cat {folder}/slash/sub/deep/c") == b"ccc"


def test_a_file_in_the_way_of_a_folder_is_told(hdc: Hdc, folder: str, tree: Path) -> None:
    hdc.shell(f"cd {folder}; mkdir there; echo 1 >there/tree")
    answer = hdc.board("file", "send", str(tree), f"{folder}/there")
    path = f"{folder}/there/tree"
    masked = f"{path[:3]}******{path[-3:]}(L:{len(path)})"  # hdc's main branch after 7.0
    assert answer in [f"[Fail]File exists, path:{shown}\r\n".encode() for shown in (path, *[masked] * hdc.real)]


def test_parents_of_a_tree_are_made_with_mode_750(hdc: Hdc, folder: str, tree: Path) -> None:
    hdc.board("file", "send", str(tree), f"{folder}/p/q/r")
    assert hdc.shell(f"cd {folder}; cat p/q/r/a; stat -c %a p p/q/r p/q/r/sub") == b"a750\n750\n750\n"


def test_a_tree_is_received_with_the_same_rules(hdc: Hdc, folder: str, tree: Path, local: Path) -> None:
    hdc.board("file", "send", str(tree), f"{folder}/t")
    assert b"Size:6, File count = 3" in hdc.board("file", "recv", f"{folder}/t", str(local / "back"))
    assert (local / "back" / "sub" / "deep" / "c").read_text() == "ccc"
    hdc.board("file", "recv", f"{folder}/t", str(local / "back"))
    assert (local / "back" / "t" / "a").read_text() == "a"


def test_an_empty_tree_is_refused(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "none").mkdir()
    answer = hdc.board("file", "send", str(local / "none"), f"{folder}/x")
    assert answer == b"[Fail]Operation failed, because the source folder is empty.\n"


def test_a_tree_cannot_replace_a_file(hdc: Hdc, folder: str, tree: Path) -> None:
    hdc.shell(f"echo 1 >{folder}/x")
    assert hdc.board("file", "send", str(tree), f"{folder}/x") == f"[Fail]Not a directory, path:{folder}/x\r\n".encode()


def test_a_file_of_a_tree_that_cannot_be_opened_is_told_and_the_others_arrive(
    hdc: Hdc, folder: str, tree: Path, local: Path
) -> None:
    (tree / "zz").symlink_to(tree / "nothing")
    answer = hdc.board("file", "send", str(tree), f"{folder}/t")
    assert answer.startswith(f"[Fail]Error opening file: no such file or directory, path:{tree}/zz\n".encode())
    assert b"Size:6, File count = 3" in answer
    hdc.shell(f"cd {folder}/t; ln -s nothing zz; rm a; mkdir a")
    answer = hdc.board("file", "recv", f"{folder}/t", str(local / "back"))
    assert answer.startswith(f"[Fail]Error opening file: no such file or directory, path:{folder}/t/zz\r\n".encode())
    assert b"Size:5, File count = 2" in answer
    (tree / "zz").unlink()
    hdc.shell(f"mkdir {folder}/t/tree; mv {folder}/t/a {folder}/t/tree")
    answer = hdc.board("file", "send", str(tree), f"{folder}/t")
    told = f"[Fail]Error opening file: illegal operation on a directory, path:{folder}/t/tree/a\r\n".encode()
    assert told in answer
    assert b"Size:5, File count = 2" in answer
    (local / "back" / "t" / "a").mkdir(parents=True)
    hdc.shell(f"rm {folder}/t/zz; rm -r {folder}/t/tree; echo 1 >{folder}/t/a")
    answer = hdc.board("file", "recv", f"{folder}/t", str(local / "back"))
    told = f"[Fail]Error opening file: illegal operation on a directory, path:{local}/back/t/a\n".encode()
    assert told in answer
    assert b"dir:1, master:0" in answer
    assert b"Size:5, File count = 2" in answer


def test_a_folder_that_cannot_be_made_is_told_with_its_path(hdc: Hdc, tree: Path) -> None:
    answer = hdc.board("file", "send", str(tree), "/proc/nowhere/x")
    # What comes after 7.0 hides the path: three characters of either end and the length are left.
    assert re.fullmatch(
        rb"\[Fail\]\[E005005\] Error create directory: [a-z -]+, path:(/pr\*{6}ere\(L:13\)|/proc/nowhere)\r\n", answer
    )


def test_a_link_to_a_file_is_followed_and_one_to_a_folder_ends_the_tree(hdc: Hdc, folder: str, tree: Path) -> None:
    (tree / "zz").symlink_to(tree / "a")
    assert b"Size:7, File count = 4" in hdc.board("file", "send", str(tree), f"{folder}/one")
    (tree / "link").symlink_to(tree / "sub")
    answer = hdc.board("file", "send", str(tree), f"{folder}/two")
    stop = rb"\[Fail\]Transfer Stop at:0/4096\(Bytes\), Reason: illegal operation on a directory\n"
    assert re.search(stop, answer)


def test_sync_refuses_whatever_exists(hdc: Hdc, folder: str, local: Path) -> None:
    (local / "x").write_text("1")
    assert b"finish" in hdc.board("file", "send", "-sync", str(local / "x"), f"{folder}/x")
    answer = hdc.board("file", "send", "-sync", str(local / "x"), f"{folder}/x")
    assert answer == f"[Fail]Target file is the same date or newer,path: {folder}/x\r\n".encode()
    # With times it compares seconds with nanoseconds, and sends whatever it is.
    assert b"finish" in hdc.board("file", "send", "-a", "-sync", str(local / "x"), f"{folder}/x")


def test_a_killed_client_leaves_a_part_under_the_final_name(hdc: Hdc, folder: str, local: Path) -> None:
    os.mkfifo(local / "slow")
    process = hdc.start("file", "send", str(local / "slow"), f"{folder}/x")
    # A FIFO has no size that could be told beforehand, and hangs until somebody writes into it.
    time.sleep(1.0)
    assert process.poll() is None
    process.kill()
    process.communicate()
    (local / "big").write_bytes(bytes(300_000_000))
    process = hdc.start("file", "send", str(local / "big"), f"{folder}/big")
    wait_until(
        "the first part of the file",
        lambda: hdc.shell(f"stat -c %s {folder}/big 2>/dev/null").strip() not in (b"", b"0"),
    )
    process.kill()
    assert process.communicate()[0] == b"" or process.returncode == 0
    assert hdc.shell(f"ls {folder}").split() == [b"big"]
