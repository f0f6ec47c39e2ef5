"""Archives that nobody would make are unpacked inside their folder or refused with a documented error; never more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.support import archive_fuzz
from tests.support.archive_fuzz import Finding, Judge, run
from tests.support.archives import tar_member

FIRST, COUNT = 10_000_000, 600
"""Numbers that a run by hand, which begins at 0, does not reach."""


@pytest.mark.filterwarnings("ignore")
def test_whatever_an_archive_holds_it_is_unpacked_or_refused(tmp_path: Path) -> None:
    ends, findings = run(tmp_path, range(FIRST, FIRST + COUNT))
    assert findings == []
    assert ends.total() == COUNT
    assert all(ends[code] >= 5 for code in ("good", "OHF6702", "OHF6703")), "the grammar is too wild or too tame"


def leave_rubbish(archive: Path, target: Path, **_: object) -> None:
    target.with_name(".out.rubbish").mkdir()


def open_to_all(archive: Path, target: Path, **_: object) -> None:
    target.mkdir()
    (target / "f").touch()
    (target / "f").chmod(0o4777)


def lead_out(archive: Path, target: Path, **_: object) -> None:
    target.mkdir()
    (target / "l").symlink_to("/etc")


def break_down(archive: Path, target: Path, **_: object) -> None:
    raise ValueError("no")


def write_outside(archive: Path, target: Path, **_: object) -> None:
    name = archive.read_bytes()[:100].rstrip(b"\0").decode()
    Path(name).write_text("out")


@pytest.mark.parametrize(
    ("unpack", "finding"),
    [
        (leave_rubbish, "left"),
        (open_to_all, "has the mode"),
        (lead_out, "leads to"),
        (break_down, "OHF9901"),
        (write_outside, "written outside"),
    ],
)
def test_the_judge_sees_what_an_archive_must_not_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unpack: Callable[..., None], finding: str
) -> None:
    judge = Judge(tmp_path)
    monkeypatch.setattr(archive_fuzz, "unpack_tar", unpack)
    with pytest.raises(Finding, match=finding):
        judge.look_at("tar", tar_member(f"{judge.outside}/x".encode(), b""), Random(1))
