"""The file that leases stand in: damaged, replaced, out of reach, and shared by several users."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from core.errors import BoardBusy, Busy, CannotWrite, NotEnoughSpace
from core.session import Session
from deploy.lease import shared_file
from deploy.lease.lease import KINDS, Kind, LeasePlace, find_holder, hold_board, unlock_board
from deploy.lease.owner import steady_time
from deploy.lease.shared_file import change_shared, read_shared
from tests.support.leases import NOBODY, SOMEBODY_ELSE, holder, living, put
from tests.support.local_board import LocalBoard

# the file ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:100],
        lambda data: b"\0" * len(data),
        lambda data: bytes([data[0] ^ 1]) + data[1:],
    ],
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


def note(place: LeasePlace, text: bytes) -> None:
    """Writes what another user may write: any text, with the right digest before it."""
    with place.change():
        pass
    data = hashlib.sha256(text).hexdigest().encode() + b" " + text
    (place.folder / place.name).write_bytes(data.ljust(4095) + b"\n")


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"5",
        b'{"running": ' + b"[" * 3000 + b"]" * 3000 + b"}",
        b'{"running": ' + b"[" * 900 + b"]" * 900 + b"}",
        b'{"running": "\xff"}',
        b'{"running": "\\ud800"}',
        b'{"running": ' + b"9" * 3990 + b"}",
        b'{"standing": [' + b"1e15," * 700 + b"1]}",
        b'{"other": "' + b"x" * 3900 + b'"}',
    ],
    ids=["broken", "no mapping", "deep", "less deep", "not UTF-8", "surrogate", "number", "grows", "no room"],
)
def test_what_another_user_writes_stops_nobody(
    impatient: Session, board: LocalBoard, place: LeasePlace, text: bytes
) -> None:
    note(place, text)
    assert find_holder(place) is None
    assert unlock_board(place) == []
    with hold_board(impatient, board, "next"):
        held = find_holder(place)
        assert held is not None
        assert held.purpose == "next"


YEAR_30489 = 9e11


@pytest.mark.parametrize(
    ("kind", "entries", "owner"),
    [
        ("running", {}, {"pid": 10**20}),
        ("running", {}, {"pid": -1}),
        ("running", {}, {"uid": 10**20}),
        ("running", {}, {"boot": ["x"]}),
        ("running", {"ends": YEAR_30489}, {}),
        ("running", {"ends": float("nan")}, {}),
        ("running", {"ends": float("inf")}, {"boot": "another", "host": "another"}),
        ("standing", {"ends": 40 * 86400.0 + steady_time()}, {"pid": 0}),
        ("standing", {"until": YEAR_30489}, {"pid": 0}),
        ("standing", {"since": -YEAR_30489}, {"pid": 0}),
        ("standing", {"since": YEAR_30489}, {"pid": 0}),
        ("standing", {"until": 40 * 86400.0 + time.time()}, {"pid": 0, "boot": "another", "host": "another"}),
    ],
)
def test_a_lease_that_nobody_can_have_taken_holds_nothing(
    impatient: Session, board: LocalBoard, place: LeasePlace, kind: Kind, entries: dict[str, Any], owner: dict[str, Any]
) -> None:
    lease = dataclasses.asdict(put(place, kind, living()))
    lease["owner"].update(owner)
    note(place, json.dumps({kind: {**lease, **entries}}).encode())
    assert find_holder(place) is None
    with hold_board(impatient, board, "next"):
        pass


def test_two_leases_as_large_as_they_may_be_fit_into_a_file(place: LeasePlace) -> None:
    wide = "\U0001f600" * 300
    for kind in KINDS:
        put(place, kind, dataclasses.replace(living(), user=wide[:64], namespace=wide[:40]), purpose=wide[:200])
    held = find_holder(place)
    assert held is not None
    assert held.owner.user == wide[:64]


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
