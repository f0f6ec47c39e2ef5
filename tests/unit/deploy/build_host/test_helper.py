"""What the helper on a build host does, called as it is called there: words, bytes in, bytes out."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from deploy.build_host import helper


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/ohforge/build-host"


def test_files_are_asked_for_once_and_kept_under_their_hash(base: Path) -> None:
    plain, program = _name(b"text"), f"{_name(b'tool')}.x"
    assert _ask("lack", [plain, program, plain])["lack"] == [plain, program]
    assert _ask("fill", _tar({plain: b"text", program: b"tool"}))["files"] == 2
    assert _ask("lack", [plain, program])["lack"] == []
    assert not os.access(base / "store" / plain, os.X_OK)
    assert os.access(base / "store" / program, os.X_OK)
    # One whose content was changed there is asked for again.
    (base / "store" / plain).chmod(0o644)
    (base / "store" / plain).write_bytes(b"changed")
    assert _ask("lack", [plain, program])["lack"] == [plain]


def test_a_file_that_arrives_with_another_content_is_not_kept(base: Path) -> None:
    answer = _ask("fill", _tar({_name(b"sent"): b"come"}))
    assert "arrived with another content" in answer["error"]["message"]
    assert list((base / "store").iterdir()) == []


def test_what_came_before_a_cut_is_kept(base: Path) -> None:
    first, second = _name(b"first"), _name(b"second")
    stream = _tar({first: b"first", second: b"second"})
    _ask("fill", stream[: 3 * tarfile.BLOCKSIZE + 2])
    assert _ask("lack", [first, second])["lack"] == [second]


def test_a_name_that_leads_out_of_the_store_stays_in_it(base: Path, tmp_path: Path) -> None:
    _ask("fill", _tar({f"../../../{_name(b'evil')}": b"evil"}))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [_name(b"evil")]
    assert (base / "store" / _name(b"evil")).exists()


def test_a_full_disk_is_told_as_such(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    answer = _ask("fill", _tar({_name(b"text"): b"text"}))
    assert answer["error"]["code"] == "OHF7501"
    assert str(base) in answer["error"]["message"]


def test_a_tree_is_made_of_the_store_and_made_anew_when_it_was_changed(base: Path) -> None:
    text, program = _name(b"text"), f"{_name(b'tool')}.x"
    _ask("fill", _tar({text: b"text", program: b"tool"}))
    files = [["a/text", "file", text], ["tool", "x", program], ["link", "link", "a/text"]]
    tree = {"place": "projects/1/hello", "files": files, "note": ""}
    place = base / "projects/1/hello"
    helper.place_tree(base, tree)
    assert (place / "link").read_bytes() == b"text"
    assert os.access(place / "tool", os.X_OK)
    before = place.stat().st_ino
    helper.place_tree(base, tree)
    assert place.stat().st_ino == before
    (place / "a/more").write_bytes(b"")
    helper.place_tree(base, tree)
    assert sorted(path.name for path in place.rglob("*")) == ["a", "link", "text", "tool"]
    (place / "a/text").unlink()
    helper.place_tree(base, tree)
    assert (place / "a/text").read_bytes() == b"text"


def test_trees_of_more_than_a_month_ago_go_and_what_only_they_had(base: Path) -> None:
    old, new = _name(b"old"), _name(b"new")
    _ask("fill", _tar({old: b"old", new: b"new"}))
    for number, name in enumerate((old, new)):
        helper.place_tree(base, {"place": f"code/{number}", "files": [["f", "file", name]], "note": ""})
    now = time.time()
    os.utime(base / "code/0", (now - 31 * 86_400, now - 31 * 86_400))
    os.utime(base / "store" / old, (now - 2 * 86_400, now - 2 * 86_400))
    helper.tidy(base, now)
    assert [path.name for path in (base / "code").iterdir()] == ["1"]
    assert [path.name for path in (base / "store").iterdir()] == [new]


def _name(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def _ask(command: str, given: object) -> dict[str, Any]:
    out = io.BytesIO()
    helper.main([command], io.BytesIO(given if isinstance(given, bytes) else json.dumps(given).encode()), out)
    return dict(json.loads(out.getvalue().removeprefix(helper.ANSWER)))
