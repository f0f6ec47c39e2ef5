"""Leases of boards: between processes, between users, and after everything that can happen to a holder."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core import shared_file
from core.errors import BoardBusy, Busy, CannotWrite, NotEnoughSpace, UsageError
from core.session import Session
from core.shared_file import change_shared, read_shared
from deploy import lease
from deploy.lease import Lease, LeasePlace, find_holder, hold_board, lock_board, unlock_board
from deploy.lease_owner import Owner, current_owner, current_user, steady_time
from tests.support.local_board import LocalBoard

ROOT = Path(__file__).parents[2]
SOMEBODY_ELSE = 4242
NOBODY = "65534"


@pytest.fixture
def board(tmp_path: Path) -> LocalBoard:
    return LocalBoard(tmp_path / "board")


@pytest.fixture
def impatient(session: Session) -> Session:
    """Does not wait for a board."""
    settings = session.settings
    return dataclasses.replace(
        session, settings=dataclasses.replace(settings, timeouts=dataclasses.replace(settings.timeouts, lease=0.0))
    )


@pytest.fixture
def place(session: Session, board: LocalBoard) -> LeasePlace:
    return LeasePlace.of(session, board.serial, emulated=False)


@contextlib.contextmanager
def holder(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the board of `folder`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.lease_holder", str(folder), *words],
        cwd=ROOT,
        env={**os.environ, "OHFORGE_LEASE_DIR": str(folder), "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def put(place: LeasePlace, kind: lease.Kind, owner: Owner, *, seconds: float = 100.0, purpose: str = "a test") -> Lease:
    """Writes a lease as another process would have."""
    now = time.time()
    made = Lease(owner=owner, purpose=purpose, since=now, until=now + seconds, ends=steady_time() + seconds)
    with place.change() as shared:
        shared.value[kind] = dataclasses.asdict(made)
    return made


def others(owner: Owner) -> Owner:
    return dataclasses.replace(owner, uid=SOMEBODY_ELSE, user="anna")


def living() -> Owner:
    """A process that lives and is not this one."""
    from deploy.lease_owner import start_time

    parent = os.getppid()
    return dataclasses.replace(current_owner(), pid=parent, started=start_time(parent), user="anna", uid=SOMEBODY_ELSE)


# one after the other -------------------------------------------------------------------------------


def test_a_board_is_held_while_the_block_runs_and_free_afterwards(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    with hold_board(impatient, board, "the block"):
        held = find_holder(place)
        assert held is not None
        assert (held.owner.pid, held.purpose) == (os.getpid(), "the block")
    assert find_holder(place) is None


def test_within_a_block_that_holds_the_board_it_is_held_already(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    with hold_board(impatient, board, "outer"):
        with hold_board(impatient, board, "inner"):
            pass
        held = find_holder(place)
        assert held is not None
        assert held.purpose == "outer"


def test_a_block_that_fails_gives_the_board_back(impatient: Session, board: LocalBoard, place: LeasePlace) -> None:
    with pytest.raises(KeyError), hold_board(impatient, board, "x"):
        raise KeyError
    assert find_holder(place) is None


def test_another_process_is_named_with_purpose_and_times(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    with holder(place.folder, "run llama") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(BoardBusy, match=rf"process {process.pid} .*'run llama'") as caught,
            hold_board(impatient, board, "mine"),
        ):
            pytest.fail("two hold the board")
    assert caught.value.exit_status == 78
    assert caught.value.details["pid"] == process.pid
    assert set(caught.value.details) >= {"user", "purpose", "since", "until"}
    assert "--force" in caught.value.remedy


def test_who_waits_gets_the_board_as_soon_as_it_is_free(
    session: Session, board: LocalBoard, place: LeasePlace, capsys: pytest.CaptureFixture[str]
) -> None:
    with holder(place.folder, "short") as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        threading.Timer(0.2, process.stdin.close).start()
        with hold_board(session, board, "mine"):
            held = find_holder(place)
            assert held is not None
            assert held.owner.pid == os.getpid()
    said = capsys.readouterr().out
    assert f"process {process.pid}" in said
    assert "waiting up to" in said


def test_eight_processes_never_hold_a_board_at_once(place: LeasePlace, tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with contextlib.ExitStack() as running:
        processes = [running.enter_context(holder(place.folder, "count", str(counter), "5")) for _ in range(8)]
        assert [process.wait(timeout=60) for process in processes] == [0] * 8
    assert counter.read_text() == "40"


# holders that are gone -----------------------------------------------------------------------------


def test_the_lease_of_a_killed_process_is_taken_over_and_that_is_said(
    impatient: Session, board: LocalBoard, place: LeasePlace, capsys: pytest.CaptureFixture[str]
) -> None:
    with holder(place.folder, "killed") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        # It is a zombie now: there, but dead.
        with hold_board(impatient, board, "next"):
            pass
    said = capsys.readouterr().out
    assert "taken over" in said
    assert f"process {process.pid}" in said
    assert "dead" in said


def test_a_number_that_another_process_has_now_does_not_keep_the_board(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    put(place, "running", dataclasses.replace(living(), started=living().started - 1))
    with hold_board(impatient, board, "next"):
        pass


def test_a_lease_from_before_a_restart_of_the_computer_is_void(place: LeasePlace) -> None:
    before = put(place, "running", dataclasses.replace(living(), boot="another start"))
    assert "dead" in before.why_void()
    locked = put(place, "standing", dataclasses.replace(current_user(), boot="another start"))
    assert "restart" in locked.why_void()
    assert find_holder(place) is None


def test_a_lease_that_has_not_been_renewed_is_taken_over_though_its_process_lives(
    impatient: Session, board: LocalBoard, place: LeasePlace, capsys: pytest.CaptureFixture[str]
) -> None:
    put(place, "running", living(), seconds=-1)
    with hold_board(impatient, board, "next"):
        pass
    assert "expired" in capsys.readouterr().out


@pytest.mark.parametrize("jump", [-10 * 365 * 86400.0, 10 * 365 * 86400.0])
def test_a_jump_of_the_clock_neither_ends_nor_lengthens_a_lease(
    place: LeasePlace, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    lives, expired = put(place, "running", living()), put(place, "standing", living(), seconds=-1)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert not lives.why_void()
    assert expired.why_void()


def test_a_process_that_cannot_be_seen_counts_until_its_lease_expires(place: LeasePlace) -> None:
    contained = dataclasses.replace(living(), namespace="pid:[1]", pid=2**22 + 1)
    assert not put(place, "running", contained).why_void()
    assert put(place, "running", contained, seconds=-1).why_void()


def test_a_lease_is_renewed_while_the_block_runs(
    impatient: Session, board: LocalBoard, place: LeasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)
    with hold_board(impatient, board, "long"):
        first = find_holder(place)
        assert first is not None
        until = time.monotonic() + 30
        while (now := find_holder(place)) is not None and now.ends <= first.ends and time.monotonic() < until:
            time.sleep(0.01)
        assert now is not None
        assert now.ends > first.ends


def test_a_lease_that_was_taken_away_is_told_at_the_end_and_stays_with_the_other(
    impatient: Session, board: LocalBoard, place: LeasePlace, capsys: pytest.CaptureFixture[str]
) -> None:
    with hold_board(impatient, board, "mine"):
        unlock_board(place, force=True)
        put(place, "running", living())
    assert "anna" in capsys.readouterr().err
    held = find_holder(place)
    assert held is not None
    assert held.owner.user == "anna"


# board.lock and board.unlock -----------------------------------------------------------------------


def test_a_locked_board_lets_its_users_runs_through_and_nobody_elses(
    impatient: Session, board: LocalBoard, place: LeasePlace
) -> None:
    lock_board(impatient, place, seconds=60, purpose="a series")
    with hold_board(impatient, board, "one of the series"):
        pass
    held = find_holder(place)
    assert held is not None
    assert held.purpose == "a series"
    put(place, "standing", others(current_user()), purpose="another series")
    with pytest.raises(BoardBusy, match=r"anna .*'another series'.* until "), hold_board(impatient, board, "x"):
        pytest.fail("the lock was passed")
    with pytest.raises(BoardBusy, match="anna"):
        lock_board(impatient, place, seconds=60, purpose="mine")


def test_a_user_may_lock_the_board_during_a_run_of_the_same_user_only(impatient: Session, place: LeasePlace) -> None:
    put(place, "running", dataclasses.replace(living(), uid=os.getuid()))
    lock_board(impatient, place, seconds=60, purpose="mine")
    unlock_board(place)
    put(place, "running", living())
    with pytest.raises(BoardBusy):
        lock_board(impatient, place, seconds=60, purpose="mine")


def test_unlock_releases_ones_own_lock_and_leaves_a_run_alone(impatient: Session, place: LeasePlace) -> None:
    put(place, "running", dataclasses.replace(living(), uid=os.getuid()))
    lock_board(impatient, place, seconds=60, purpose="mine")
    assert [gone.purpose for gone in unlock_board(place)] == ["mine"]
    assert unlock_board(place) == []
    assert find_holder(place) is not None


def test_anothers_lock_is_released_with_force_only(place: LeasePlace) -> None:
    put(place, "standing", others(current_user()))
    with pytest.raises(BoardBusy, match="anna"):
        unlock_board(place)
    put(place, "running", living())
    assert len(unlock_board(place, force=True)) == 2
    assert find_holder(place) is None


@pytest.mark.parametrize("seconds", [0, -5, 1e9])
def test_a_time_that_makes_no_sense_is_refused(impatient: Session, place: LeasePlace, seconds: float) -> None:
    with pytest.raises(UsageError):
        lock_board(impatient, place, seconds=seconds, purpose="x")


def test_what_another_user_writes_cannot_command_a_terminal(impatient: Session, place: LeasePlace) -> None:
    evil = dataclasses.replace(others(current_user()), user="\x1b[2Jroot")
    put(place, "standing", evil, purpose="\x1b]0;title\x07\nsecond line")
    with pytest.raises(BoardBusy) as caught:
        lock_board(impatient, place, seconds=1, purpose="x")
    assert caught.value.message.isprintable()


# the file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [lambda data: b"", lambda data: data[:100], lambda data: b"\0" * len(data), lambda data: b"9" + data[1:]],
    ids=["empty", "cut", "zeros", "one bit"],
)
def test_a_damaged_file_is_begun_anew_with_a_warning(
    impatient: Session, board: LocalBoard, place: LeasePlace, damage: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    put(place, "running", living())
    path = place.folder / place.name
    path.write_bytes(damage(path.read_bytes()))
    with hold_board(impatient, board, "next"):
        assert find_holder(place) is not None
    assert "damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "content",
    [{"running": None}, {"running": []}, {"running": {"owner": 5}}, {"standing": {"until": "soon"}}, {"other": 1}],
)
def test_an_entry_of_another_form_holds_nothing(
    impatient: Session, board: LocalBoard, place: LeasePlace, content: dict[str, Any]
) -> None:
    with place.change() as shared:
        shared.value.update(content)
    assert find_holder(place) is None
    with hold_board(impatient, board, "next"):
        pass


def test_a_full_disk_is_told_and_leaves_no_file(
    impatient: Session, board: LocalBoard, place: LeasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(NotEnoughSpace, match="room"), hold_board(impatient, board, "x"):
        pytest.fail("held without a note")
    assert list(place.folder.iterdir()) == []


def test_a_change_needs_no_further_room(place: LeasePlace) -> None:
    with place.change():
        pass
    before = (place.folder / place.name).stat()
    put(place, "running", living())
    after = (place.folder / place.name).stat()
    assert (before.st_ino, before.st_blocks, before.st_size) == (after.st_ino, after.st_blocks, after.st_size)


def test_a_link_in_the_files_place_is_not_followed(place: LeasePlace, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    place.folder.mkdir(mode=0o700)
    name = place.folder / place.name
    for make in (name.symlink_to, name.hardlink_to):
        make(victim)
        with pytest.raises(CannotWrite, match=r"link|second name"), place.change() as shared:
            shared.value["x"] = 1
        name.unlink()
    name.symlink_to(tmp_path / "nowhere")
    with pytest.raises(CannotWrite), place.change():
        pass
    assert victim.read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_is_a_link_is_not_entered(place: LeasePlace, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    place.folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CannotWrite, match="link"), place.change():
        pass
    assert read_shared(place.folder, place.name) == {}
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_is_no_file_is_refused(place: LeasePlace) -> None:
    place.folder.mkdir(mode=0o700)
    os.mkfifo(place.folder / place.name)
    with pytest.raises(CannotWrite, match="plain file"), place.change():
        pass
    (place.folder / place.name).unlink()
    (place.folder / place.name).mkdir()
    with pytest.raises(CannotWrite), place.change():
        pass
    assert read_shared(place.folder, place.name) == {}


def test_a_folder_of_another_user_that_everybody_may_rearrange_is_refused(
    place: LeasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.folder.mkdir()
    place.folder.chmod(0o777)
    monkeypatch.setattr(os, "geteuid", lambda: SOMEBODY_ELSE)
    with pytest.raises(CannotWrite, match="sticky"), place.change():
        pass


def test_a_file_that_is_removed_meanwhile_is_made_again(place: LeasePlace) -> None:
    put(place, "running", living())
    (place.folder / place.name).unlink()
    assert find_holder(place) is None
    put(place, "running", living())
    assert find_holder(place) is not None


def test_a_process_stopped_in_the_middle_of_a_change_is_told(
    place: LeasePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_file, "LOCK_SECONDS", 0.05)
    with place.change():
        assert find_holder(place) is None
        with pytest.raises(Busy, match="milliseconds"), change_shared(place.folder, place.name):
            pytest.fail("two change it at once")


def test_no_serial_leads_out_of_the_folder_and_no_two_share_a_file(session: Session) -> None:
    serials = ["../../etc/passwd", "192.168.1.9:8710", "192-168-1-9-8710", "a/b", "a-b", "ä", ".", ""]
    names = [LeasePlace.of(session, serial, emulated=False).name for serial in serials]
    assert len(set(names)) == len(serials)
    assert all("/" not in name and len(name) < 100 for name in names)


def test_emulated_boards_are_noted_where_they_are_kept(session: Session) -> None:
    place = LeasePlace.of(session, "emulated-dayu200", emulated=True)
    assert place.folder == session.settings.data / "boards" / ".leases"
    with place.change():
        pass
    assert place.folder.stat().st_mode & 0o077 == 0


# several users -------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_leases_work_between_users_of_one_computer(impatient: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as top:
        Path(top).chmod(0o777)
        folder = Path(top) / "leases"
        monkeypatch.setenv("OHFORGE_LEASE_DIR", str(folder))
        board = LocalBoard(Path(top) / "board")
        with holder(folder, "run of nobody", "", "1", NOBODY) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            assert folder.stat().st_uid == int(NOBODY)
            with pytest.raises(BoardBusy, match="'run of nobody'"), hold_board(impatient, board, "mine"):
                pytest.fail("two users hold the board")
        counter = Path(top) / "counter"
        counter.write_text("0")
        counter.chmod(0o666)
        with holder(folder, "x", str(counter), "20", NOBODY) as other, holder(folder, "y", str(counter), "20") as mine:
            assert (other.wait(timeout=60), mine.wait(timeout=60)) == (0, 0)
        assert counter.read_text() == "40"
        assert folder.stat().st_mode & 0o7777 == 0o1777
