"""Run records: the folder, its name, and the form of record.json."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from core.errors import DeadlineExpired, InvalidData
from core.session import Session
from deploy.run.record import SCHEMA_FILE, STATES, RunRecord, start_record, validate_record

CONTENT: dict[str, Any] = {
    "engine": "llama 1.0",
    "program": {"name": "llama-completion", "sha256": "a" * 64, "artifact": None},
    "model": {"name": "tiny", "kind": "gguf", "sha256": "b" * 64, "size": 5, "licence": "", "summary": {}},
    "board": {"serial": "10.0.0.1:8710", "profile": "dayu200", "title": "t", "emulated": False, "facts": None},
    "link": {"kind": "hdc", "program": "/usr/bin/hdc", "version": "3.2.0f"},
    "command": {"words": ["./x"], "environment": {}, "folder": "/data", "timeout_seconds": 9.0},
    "files": [{"name": "x", "sha256": "a" * 64, "size": 5, "executable": True}],
}


def begin(session: Session) -> RunRecord:
    return start_record(session, program="llama", board="10.0.0.1:8710", content=CONTENT)


def read(record: RunRecord) -> dict[str, Any]:
    return dict(json.loads((record.folder / "record.json").read_text()))


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA_FILE.read_text()))


def test_a_record_is_valid_from_its_first_moment_to_its_last(session: Session) -> None:
    record = begin(session)
    assert read(record)["state"] == "running"
    validate_record(read(record))
    record.end("timeout", DeadlineExpired("No end of x after 9 s."))
    validate_record(read(record))
    assert read(record)["error"]["code"] == "OHF7301"


def test_the_folder_tells_when_what_and_where(session: Session) -> None:
    name = begin(session).folder.name
    assert re.fullmatch(r"\d{8}T\d{6}Z-llama-10\.0\.0\.1-8710-[0-9a-f]{4}", name)


def test_two_runs_of_one_second_have_two_folders(session: Session) -> None:
    assert len({begin(session).folder for _ in range(20)}) == 20


def test_an_error_names_the_record(session: Session) -> None:
    record, error = begin(session), DeadlineExpired("late")
    record.end("timeout", error)
    assert error.details["record"] == str(record.folder)


def test_no_reader_ever_sees_half_a_record(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    record = begin(session)
    before = read(record)
    monkeypatch.setattr(Path, "replace", lambda self, target: (_ for _ in ()).throw(OSError("power cut")))
    with pytest.raises(OSError, match="power cut"):
        record.save(state="done")
    assert read(record) == before


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("state", "finished"),
        ("unknown", 1),
        ("times.clock", "board"),
        ("model.sha256", "xyz"),
        ("command.words", []),
        ("board.emulated", "yes"),
        ("metrics", {"speed": 3.0}),
    ],
)
def test_a_record_of_another_form_is_told_apart(session: Session, path: str, value: Any) -> None:
    content = copy.deepcopy(read(begin(session)))
    *way, last = path.split(".")
    place = content
    for step in way:
        place = place[step]
    place[last] = value
    with pytest.raises(InvalidData, match=path.split(".")[0]):
        validate_record(content)


def test_the_page_explains_every_state_and_every_key() -> None:
    page = (SCHEMA_FILE.parent / "run-record.md").read_text()
    for word in (*STATES, *json.loads(SCHEMA_FILE.read_text())["properties"]):
        assert f"`{word}`" in page, word
