"""Configuration that cannot be right: an error that names the file or variable, the key, and what would be right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from commands.program import OhforgeProgram
from core.configuration import load_settings
from core.errors import ConfigurationError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder, which is the current one, too."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command says when the configuration is wrong, which settings read without Invoke's program say, too."""
    with pytest.raises(SystemExit) as end:
        OhforgeProgram().run(["ohforge", *words, "model.list", "--json"])
    error = json.loads(capsys.readouterr().out)["error"]
    assert (end.value.code, error["code"]) == (65, "OHF6501")
    if not words:
        with pytest.raises(ConfigurationError) as raised:
            load_settings()
        assert raised.value.message == error["message"]
    return str(error["message"])


@pytest.mark.parametrize(
    ("content", "key", "right"),
    [
        ("ohforge: 5", "ohforge must", "a mapping"),
        ("ohforge:", "ohforge must", "a mapping"),
        ("ohforge: {timeouts: 5}", "ohforge.timeouts must", "a mapping"),
        ("ohforge: {timeouts: {run: {a: 1}}}", "ohforge.timeouts.run must", "a single value"),
        ("ohforge: {boards: [a]}", "ohforge.boards must", "a mapping"),
        ("ohforge: {boards: {a: 5}}", "ohforge.boards.a must", "a mapping"),
        ("ohforge: {5: {6: 7}}", "ohforge.5", "not a setting"),
        ("run: 5", "run must", "a mapping"),
        ("- ohforge", "cannot be read", "a mapping"),
        ("ohforge: [\n", "cannot be read", "line 2"),
        ("ohforge: 2001-99-99", "cannot be read", "month"),
        ("ohforge: " + "[" * 5000, "cannot be read", ""),
        ("ohforge: &a {boards: *a}", "cannot be read", "nested too deeply"),
        ("ohforge: {jobs: -3}", "ohforge.jobs must", "not negative"),
        ("ohforge: {timeouts: {run: .nan}}", "ohforge.timeouts.run must", "from 0 to"),
        ("ohforge: {timeouts: {run: -1}}", "ohforge.timeouts.run must", "from 0 to"),
        ("ohforge: {timeouts: {run: .inf}}", "ohforge.timeouts.run must", "from 0 to"),
        ("ohforge: {timeouts: {run: 1" + "0" * 400 + "}}", "ohforge.timeouts.run must", "from 0 to"),
        ("ohforge: {offline: maybe}", "ohforge.offline must", "true or false"),
    ],
)
def test_a_wrong_file_is_named_with_its_key(
    home: Path, capsys: pytest.CaptureFixture[str], content: str, key: str, right: str
) -> None:
    (home / ".invoke.yaml").write_text(content)
    message = refusal(capsys)
    assert str(home / ".invoke.yaml") in message
    assert key in message
    assert right in message


def test_a_file_that_is_no_text_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "invoke.yaml").write_bytes(b"ohforge: {sdk: \xff}")
    assert str(home / "invoke.yaml") in refusal(capsys)


def test_a_runtime_file_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "mine.json").write_text('{"ohforge": {"jobs": -1}}')
    assert "mine.json: ohforge.jobs" in refusal(capsys, "--config", "mine.json")


def test_a_home_that_is_a_file_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "file").touch()
    monkeypatch.setenv("HOME", str(home / "file"))
    assert f"{home}/file/.invoke.yaml cannot be read" in refusal(capsys)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("NOSUCH", "1", "variable INVOKE_OHFORGE_NOSUCH is not a setting"),
        ("TIMEOUT_RUN", "1", "did you mean 'INVOKE_OHFORGE_TIMEOUTS_RUN'"),
        ("OFFLINE", "maybe", "INVOKE_OHFORGE_OFFLINE: ohforge.offline must be true or false"),
        ("JOBS", "-3", "INVOKE_OHFORGE_JOBS: ohforge.jobs must be a whole number"),
        ("TIMEOUTS_RUN", "nan", "INVOKE_OHFORGE_TIMEOUTS_RUN: ohforge.timeouts.run must be a number of seconds"),
    ],
)
def test_a_wrong_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"INVOKE_OHFORGE_{name}", value)
    assert said in refusal(capsys)


@pytest.mark.parametrize(
    ("word", "offline"),
    [
        ("1", True),
        ("true", True),
        ("YES", True),
        ("on", True),
        ("0", False),
        ("False", False),
        ("no", False),
        ("", False),
    ],
)
def test_a_switch_is_read_from_the_usual_words(monkeypatch: pytest.MonkeyPatch, word: str, offline: bool) -> None:
    monkeypatch.setenv("INVOKE_OHFORGE_OFFLINE", word)
    assert load_settings().offline is offline
