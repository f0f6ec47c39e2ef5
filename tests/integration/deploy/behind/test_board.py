"""Commands, files, runs and leases of a board behind a host."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from core.deadline import Deadline
from core.errors import (
    BoardBusy,
    BoardOffline,
    CannotWrite,
    DeadlineExpired,
    HdcNotFound,
    HostKeyNotTrusted,
    LostConnection,
    NoBoard,
    NotEnoughSpace,
    OhforgeError,
)
from core.session import PROJECT, Session
from core.settings import BoardEntry
from deploy.forward.forward import forward_port
from deploy.hdc.board import HdcBoard
from deploy.hdc.choose import choose_board, locate_board
from deploy.launch.launch import run_program
from deploy.launch.model_server import ServeOptions
from deploy.launch.request import LaunchRequest
from deploy.launch.serve import serve_on_board
from deploy.lease import on_host
from deploy.lease.lease import LeasePlace, find_holder, hold_board, lock_board, unlock_board
from deploy.lease.owner import current_owner
from deploy.run.options import RunOptions
from deploy.transfer import chunks, push, staging, store
from deploy.transfer.clean import clean_board
from deploy.transfer.pull import pull_files
from deploy.transfer.push import push_files
from native.models.models import find_model
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.board_runs import SERIAL, TMP, read_record, soon
from tests.support.lab_host import LabHost
from tests.support.leases import others, put
from tests.support.served import run_of_server, write_server
from tests.support.typed import type_commands
from tests.support.waiting import LONG_ENOUGH, wait_until

# commands ------------------------------------------------------------------------------------------


def test_a_board_is_named_by_its_setting_and_by_its_address(session: Session) -> None:
    assert choose_board(session, "bench").serial == f"ssh://lab1/{SERIAL}"
    named = choose_board(session, f"ssh://lab1/{SERIAL}")
    assert (named.serial, named.profile.name) == (f"ssh://lab1/{SERIAL}", "dayu200")
    with pytest.raises(NoBoard, match=SERIAL) as caught:
        choose_board(session, f"ssh://lab1/{SERIAL}x")
    assert "`ssh ssh://lab1 hdc list targets -v`" in caught.value.remedy


def test_a_host_without_hdc_says_what_to_set(session: Session) -> None:
    entry = BoardEntry(via="ssh://lab1", key=SERIAL, hdc="/opt/nowhere/hdc")
    with pytest.raises(HdcNotFound, match="/opt/nowhere/hdc") as caught:
        choose_board(session.with_settings(boards={"bench": entry}), "bench")
    assert "ohforge.boards.NAME.hdc" in caught.value.remedy


def test_what_is_said_of_a_host_whose_key_is_not_known_can_be_typed_and_lets_in(session: Session, laptop: Path) -> None:
    (laptop / ".ssh/known_hosts").unlink()
    with pytest.raises(HostKeyNotTrusted) as caught:
        choose_board(session, "bench")
    type_commands(caught.value.remedy)
    assert choose_board(session, "bench").shell("true", deadline=soon()).exit_code == 0


def test_a_program_ends_on_the_board_at_its_deadline(board: HdcBoard, host: LabHost) -> None:
    for seconds in LONG_ENOUGH:
        with pytest.raises(DeadlineExpired, match="Nothing of it runs on board ssh://lab1/"):
            board.shell(long_program("deadline"), deadline=Deadline.after(seconds, "a program"))
        if is_there(host, "deadline"):
            break
    check_that_it_ends(board, "deadline")


@pytest.mark.parametrize("away", ["cut", "rebooted"])
def test_a_program_ends_on_the_board_with_the_link(board: HdcBoard, host: LabHost, away: str) -> None:
    def cut() -> None:
        wait_until("the program's start", lambda: is_there(host, away))
        host.sshd.refuses = away == "rebooted"
        host.sshd.cut()

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        how = "may still run" if away == "rebooted" else "Nothing of it runs"
        with pytest.raises(LostConnection, match=f"The link to the host ssh://lab1 ended.*{how}"):
            board.shell(long_program(away), deadline=soon())
        if away == "rebooted":
            with pytest.raises(BoardOffline):
                board.shell("true", deadline=soon())
    finally:
        cutter.join()
        host.sshd.refuses = False
    check_that_it_ends(board, away)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 79), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_program_ends_on_the_board_with_ohforge(
    board: HdcBoard, host: LabHost, number: signal.Signals, status: int
) -> None:
    program = long_program(number.name)
    words = [sys.executable, "-m", "invoke", "board.shell", "--board", board.serial, program]
    process = subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until("the program's start", lambda: process.poll() or is_there(host, number.name))
        process.send_signal(number)
        assert process.wait(timeout=60) == status
    finally:
        process.kill()
    check_that_it_ends(board, number.name)


def test_hdc_ends_on_the_host_soon_after_its_deadline_though_nobody_tells_it(
    board: HdcBoard, host: LabHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the laptop vanishes without a word: the host's sshd knows of nothing."""
    monkeypatch.setattr("deploy.hdc.host.SPARE_SECONDS", 1)
    monkeypatch.setattr("deploy.hdc.board.STOP_SECONDS", 1.0)
    thaw: list[Callable[[], None]] = []
    program = long_program("frozen")

    def freeze(late: threading.Event) -> None:
        wait_until("the program's start", lambda: late.is_set() or is_there(host, "frozen"))
        if not late.is_set():
            thaw.append(host.sshd.freeze())

    try:
        for seconds in LONG_ENOUGH[1:]:
            freezer = threading.Thread(target=freeze, args=(late := threading.Event(),))
            freezer.start()
            with pytest.raises(DeadlineExpired):
                board.shell(program, deadline=Deadline.after(seconds, "a program"))
            late.set()
            freezer.join()
            if thaw:
                break
        number = host.hdc.shell(f"cat {TMP}/frozen").decode().strip()
        wait_until("its end", lambda: host.hdc.shell(f"[ -d /proc/{number} ] || echo gone") == b"gone\n")
    finally:
        for go_on in thaw:
            go_on()


def is_there(host: LabHost, name: str) -> bool:
    """Whether the program has started, asked by who sits at the host."""
    return b"there" in host.hdc.shell(f"[ -f {TMP}/{name} ] && echo there")


def long_program(name: str) -> str:
    return f"rm -f {TMP}/{name}; sh -c 'echo $$ >{TMP}/{name}.new; mv {TMP}/{name}.new {TMP}/{name}; exec sleep 600'"


def check_that_it_ends(board: HdcBoard, name: str) -> None:
    """And that nothing of it is left on the host, where all that runs for it has its script in the command line."""
    number = board.shell(f"cat {TMP}/{name}", deadline=soon()).text.strip()
    wait_until("its end", lambda: board.shell(f"[ -d /proc/{number} ]", deadline=soon()).exit_code != 0)
    wait_until("the end of all on the host", lambda: not running_here(f"{name}.new"))


def running_here(text: str) -> list[bytes]:
    """Command lines of this computer, which is the host too, in which `text` stands; without those of the board."""
    lines = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(file.read_bytes())
    return [line for line in lines if text.encode() in line and b"hdc" in line]


# files ---------------------------------------------------------------------------------------------


def test_a_file_is_staged_once_and_goes_to_the_board_from_there(
    session: Session, board: HdcBoard, host: LabHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "model").write_bytes(content)
    sent = sent_to(board, monkeypatch)
    assert push_files(session, board, [tmp_path / "model"], f"{TMP}/there/").bytes_sent == 3_000_000
    assert sum(sent) == 3_000_000
    assert push_files(session, board, [tmp_path / "model"], f"{TMP}/again/").bytes_sent == 0
    # Another board of the same host: this one, emptied.
    assert clean_board(session, board).entries == 1
    assert push_files(session, board, [tmp_path / "model"], f"{TMP}/there/").bytes_sent == 3_000_000
    assert sum(sent) == 3_000_000
    pull_files(session, board, [f"{TMP}/there/model"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    assert list(host.staged().values()) == [3_000_000], "what came from the board is not kept"
    assert board.host is not None
    assert clean_board(session, board.host).entries == 1
    assert host.staged() == {}


def test_a_large_file_is_staged_whole_and_cut_on_the_host(
    session: Session, board: HdcBoard, host: LabHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNKED_FROM", 1_000_000)
    monkeypatch.setattr(chunks, "SMALLEST_CHUNK", 600_000)
    content = os.urandom(1_000_001)
    (tmp_path / "model").write_bytes(content)
    sent = sent_to(board, monkeypatch)
    push_files(session, board, [tmp_path / "model"], f"{TMP}/large/")
    assert sum(sent) == 1_000_001
    clean_board(session, board)
    push_files(session, board, [tmp_path / "model"], f"{TMP}/large/")
    assert sum(sent) == 1_000_001
    pull_files(session, board, [f"{TMP}/large/model"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


def test_what_was_not_used_for_longest_goes_when_there_is_too_much(
    session: Session, board: HdcBoard, host: LabHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "MOST_BYTES", 25_000)
    names = []
    for number, day in ((0, 3), (1, 2), (2, 1)):
        (tmp_path / f"{number}").write_bytes(bytes([number]) * 10_000)
        names.append(store.StoredFile(tmp_path / f"{number}").sha256)
        push_files(session, board, [tmp_path / f"{number}"], f"{TMP}/many/")
        used = 1_600_000_000 + day * 86_400
        os.utime(host.stage / f"{names[-1]}.ok", (used, used))
    assert set(host.staged()) == {names[0], names[2]}


def test_a_host_without_room_is_told_as_the_host(
    session: Session, board: HdcBoard, host: LabHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Room is made on the host when the board has enough of it.
    monkeypatch.setattr(staging, "_make_room", lambda *_: monkeypatch.setattr(push, "SPARE_BYTES", 10**18))
    (tmp_path / "model").write_bytes(os.urandom(1000))
    with pytest.raises(NotEnoughSpace, match=f"free in {host.stage.parents[1]} of the host ssh://lab1,") as caught:
        push_files(session, board, [tmp_path / "model"], f"{TMP}/there/")
    assert "of a board of that host" in caught.value.remedy


@contextlib.contextmanager
def blocked(folder: Path) -> Iterator[None]:
    """Lets nothing be written in `folder` while the block runs, by whomever."""
    aside = folder.with_name(f"{folder.name}-aside")
    if folder.exists():
        folder.rename(aside)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.touch()
    try:
        yield
    finally:
        folder.unlink()
        if aside.exists():
            aside.rename(folder)


def test_a_host_where_nothing_may_be_written_is_told_as_the_host(
    session: Session, board: HdcBoard, host: LabHost, tmp_path: Path
) -> None:
    (tmp_path / "model").write_bytes(os.urandom(1000))
    with blocked(host.stage.parents[2]):
        with pytest.raises(CannotWrite, match="of the host ssh://lab1 cannot be written") as caught:
            push_files(session, board, [tmp_path / "model"], f"{TMP}/there/")
        assert "XDG_CACHE_HOME" in caught.value.remedy
    with blocked(host.leases), pytest.raises(CannotWrite, match="is a link or no file") as caught:
        lock_board(session, locate_board(session, "bench"), seconds=60, purpose="the night")
    assert "OHFORGE_LEASE_DIR" in caught.value.remedy


def sent_to(board: HdcBoard, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the files that are sent to the board's host from here on."""
    host, sizes = board.host, list[int]()
    assert host is not None
    run = host.run_with_file

    def counted(
        script: str, deadline: Deadline, *rest: Any, source: IO[bytes] | None = None, **options: Any
    ) -> int | None:
        if source is not None:
            sizes.append(os.fstat(source.fileno()).st_size - source.tell())
        return run(script, deadline, *rest, source=source, **options)

    monkeypatch.setattr(host, "run_with_file", counted)
    return sizes


def test_a_push_whose_link_is_cut_leaves_no_file_and_the_next_goes_on(
    session: Session, board: HdcBoard, host: LabHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "model").write_bytes(content)
    transfer = board._transfer

    def cut_first(*words: object, **options: object) -> None:
        monkeypatch.setattr(board, "_transfer", transfer)
        host.sshd.cut()
        transfer(*words, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(board, "_transfer", cut_first)
    push_or_error(session, board, tmp_path / "model")
    push_files(session, board, [tmp_path / "model"], f"{TMP}/pushed/")
    pull_files(session, board, [f"{TMP}/pushed/model"], tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content


def push_or_error(session: Session, board: HdcBoard, file: Path) -> None:
    try:
        push_files(session, board, [file], f"{TMP}/pushed/")
    except OhforgeError as error:
        assert isinstance(error, LostConnection), error
        assert board.shell(f"ls {TMP}/pushed/model", deadline=soon()).exit_code != 0


# runs, ports, leases -------------------------------------------------------------------------------


def test_a_run_is_recorded_with_its_host(session: Session, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho made >result.txt\necho running; exit 5\n")
    program.chmod(0o755)
    request = LaunchRequest(
        program=str(program), board="bench", options=RunOptions(run_engine="shell", outputs=("result.txt",))
    )
    outcome = run_program(session, request)
    assert outcome.exit_code == 5
    record = read_record(outcome)
    assert (record["link"]["kind"], record["link"]["via"]) == ("hdc", "ssh://lab1")
    assert record["board"]["serial"] == f"ssh://lab1/{SERIAL}"
    assert (outcome.record / "outputs/result.txt").read_text() == "made\n"


def test_a_port_of_the_board_is_reached_through_the_host(session: Session, board: HdcBoard, host: LabHost) -> None:
    import socket

    port = 7031
    board.shell(f"setsid nc -s 127.0.0.1 -p {port} -L echo hi >/dev/null 2>&1 </dev/null &", deadline=soon())
    try:
        wait_until("the port", lambda: f":{port} " in board.shell("netstat -lnt", deadline=soon()).text)
        with forward_port(session, board, port) as forward:
            with socket.create_connection(("127.0.0.1", forward.local), timeout=60) as link:
                assert link.recv(100) == b"hi\n"
            forward.check()
            assert f"tcp:{port}" in host.hdc.text("fport", "ls")
        assert f"tcp:{port}" not in host.hdc.text("fport", "ls")
        with forward_port(session, board, port) as forward:
            host.sshd.cut()
            with pytest.raises(LostConnection, match="no longer forwarded"):
                wait_until("the loss", forward.check)
            wait_until("the end of the rule", lambda: f"tcp:{port}" not in host.hdc.text("fport", "ls"))
    finally:
        board.shell("pkill nc", deadline=soon())


def test_a_board_has_one_user_at_a_time_wherever_they_come_from(
    session: Session, board: HdcBoard, host: LabHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = session.with_settings(timeouts=dataclasses.replace(session.settings.timeouts, lease=0.0))
    place = LeasePlace.of_board(session, board)
    with hold_board(session, board, "mine"):
        there = LeasePlace(serial=SERIAL, folder=host.leases)
        seen = find_holder(there)
        assert seen is not None and seen.purpose == "mine", "one who sits at the host sees it"
        anna = dataclasses.replace(others(current_owner()), host="another laptop", boot="another")
        with monkeypatch.context() as patch:
            patch.setattr("deploy.lease.lease.current_owner", lambda: anna)
            patch.setattr("deploy.lease.owner.current_owner", lambda: anna)
            with pytest.raises(BoardBusy, match="'mine'"), hold_board(impatient, board, "hers"):
                pytest.fail("two hold it")
    assert find_holder(place) is None
    put(there, "running", anna, purpose="hers")
    with pytest.raises(BoardBusy, match=r"anna .*'hers'"), hold_board(impatient, board, "mine"):
        pytest.fail("two hold it")
    unlock_board(place, force=True)
    lock_board(session, locate_board(session, "bench"), seconds=60, purpose="the night")
    assert [lease.purpose for lease in unlock_board(place)] == ["the night"]


def test_a_host_whose_clock_is_wrong_excludes_all_the_same(
    session: Session, board: HdcBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = LeasePlace.of_board(session, board)
    anna = dataclasses.replace(others(current_owner()), host="another laptop", boot="another")
    put(place, "running", anna)
    late = LeasePlace.of_board(session, board)
    monkeypatch.setattr(on_host.time, "time", lambda clock=on_host.time.time: clock() + 3600)
    held = find_holder(late)
    assert held is not None and held.owner == anna
    unlock_board(late, force=True)


def test_a_model_is_served_on_the_board_and_asked_through_the_host(
    session: Session, board: HdcBoard, tmp_path: Path
) -> None:
    model = find_model(session, str(write_tiny_gguf(tmp_path / "tiny.gguf")))
    with serve_on_board(session, board, model, ServeOptions(), run=run_of_server(write_server(tmp_path))) as server:
        assert urllib.request.urlopen(f"{server.url}/health", timeout=60).status == 200
        server.check()
    assert not server.alive()
    assert server.use() is None
