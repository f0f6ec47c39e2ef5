"""core: errors, deadlines, settings, files and locks."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path

import pytest

from core.deadline import Deadline
from core.errors import (
    Busy,
    Category,
    ConfigurationError,
    NotEnoughSpace,
    UnknownName,
    all_errors,
    explain_exception,
    unknown_name,
)
from core.files import (
    atomic_file,
    atomic_folder,
    human_bytes,
    require_space,
    sha256_file,
    sha256_folder,
    write_atomic,
    write_json,
)
from core.locks import hold
from core.settings import Settings, defaults, read_settings
from tests.support.waiting import wait_until


def test_every_error_class_has_a_code_of_its_own_that_begins_with_its_exit_status() -> None:
    codes = [error.code for error in all_errors()]
    assert len(set(codes)) == len(codes)
    for error in all_errors():
        assert error.code.startswith(f"OHF{error.category.value}")
        assert error.__doc__ and error.__doc__ not in ("", error.__mro__[1].__doc__)


def test_our_exit_statuses_are_distinct_and_between_64_and_99() -> None:
    values = [category.value for category in Category]
    assert len(set(values)) == len(values)
    assert all(64 <= value <= 99 for value in values)


def test_an_unknown_name_is_answered_with_the_nearest_one() -> None:
    error = unknown_name("target", "lama", ["llama", "mslite"])
    assert isinstance(error, UnknownName)
    assert "did you mean 'llama'" in error.message
    assert error.exit_status == 64


def test_a_part_never_outlives_the_whole_deadline() -> None:
    whole = Deadline.after(0.5, "the whole")
    assert whole.within(100, "a part").remaining <= 0.5
    assert whole.within(0.1, "a part").remaining <= 0.1


def test_an_expired_deadline_says_what_it_waited_for() -> None:
    deadline = Deadline.after(-1, "the board")
    assert deadline.expired
    assert "the board" in deadline.error().message


def test_no_room_for_temporary_files_is_no_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/dev/full"])
    with pytest.raises(FileNotFoundError) as caught:
        tempfile.gettempdir()
    assert explain_exception(caught.value).code == "OHF7501"


def test_the_defaults_are_valid_settings() -> None:
    assert read_settings(defaults()) == Settings()


def test_an_unknown_setting_names_the_file_the_key_and_the_nearest_key() -> None:
    files = {"/home/me/.invoke.yaml": {"ohforge": {"tolchain": "zig"}}}
    with pytest.raises(ConfigurationError) as caught:
        read_settings({**defaults(), "tolchain": "zig"}, lambda: files)
    assert "/home/me/.invoke.yaml" in caught.value.message
    assert "ohforge.tolchain" in caught.value.message
    assert "'toolchain'" in caught.value.message


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("jobs", "many", "ohforge.jobs must be a whole number that is not negative, not 'many'"),
        ("jobs", True, "a whole number"),
        ("offline", "perhaps", "true or false"),
        ("timeouts", 5, "a mapping"),
        ("emulated", "no", "ohforge.emulated must be auto or never, not 'no'"),
        ("timeouts", {"run": "long"}, "ohforge.timeouts.run must be a number"),
        ("boards", {"mine": {"seriel": "x"}}, "ohforge.boards.mine.seriel"),
        ("program_sources", [1], "a list of words"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_an_error_that_names_it(key: str, value: object, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected):
        read_settings({key: value})


def test_settings_are_read_into_dataclasses() -> None:
    settings = read_settings(
        {"boards": {"lab": {"serial": "ABC"}}, "timeouts": {"run": 5}, "program_sources": "github"}
    )
    assert settings.boards["lab"].serial == "ABC"
    assert settings.timeouts.run == 5.0
    assert settings.program_sources == ("github",)


def test_what_a_variable_says_is_read_from_its_text() -> None:
    texts = {"jobs": "3", "sdk_sources": "components, mirror", "sdk_mirror2": "", "timeouts": {"run": "1.5"}}
    settings = read_settings({**defaults(), **texts})
    assert (settings.jobs, settings.timeouts.run) == (3, 1.5)
    assert (settings.sdk_sources, settings.sdk_mirror2) == (("components", "mirror"), ())


def test_the_variables_move_all_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OHFORGE_CACHE_DIR", "/elsewhere/cache")
    assert Settings(cache_dir="/here").cache == Path("/elsewhere/cache")


def test_a_failed_write_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_atomic(target, "old")
    with pytest.raises(RuntimeError), atomic_file(target) as file:
        file.write(b"ne")
        raise RuntimeError
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_folder_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "a").write_text("a")
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_the_hash_of_a_file_is_the_published_one_for_abc(tmp_path: Path) -> None:
    (tmp_path / "abc").write_text("abc")  # test vector of FIPS 180-2
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert sha256_file(tmp_path / "abc") == expected


def test_the_hash_of_a_folder_sees_names_contents_and_execute_bits(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    seen = {sha256_folder(tmp_path)}
    file.chmod(0o755)
    seen.add(sha256_folder(tmp_path))
    file.write_text("2")
    seen.add(sha256_folder(tmp_path))
    file.rename(tmp_path / "b")
    seen.add(sha256_folder(tmp_path))
    assert len(seen) == 4


def test_too_little_room_is_told_with_both_sizes(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughSpace, match="the SDK needs 1000"):
        require_space(tmp_path / "not" / "yet", 10**24, "the SDK")


def test_sizes_are_shown_in_powers_of_a_thousand() -> None:
    assert [human_bytes(n) for n in (0, 999, 98_362_432, 2.5e9)] == ["0 B", "999 B", "98.4 MB", "2.5 GB"]


def _hold_lock(path: Path, ready: str) -> None:
    with hold(path, Deadline.after(5, "the lock")):
        Path(ready).touch()
        time.sleep(60)


def test_a_lock_is_free_again_when_its_owner_is_killed(tmp_path: Path) -> None:
    lock, ready = tmp_path / "lock", tmp_path / "ready"
    owner = multiprocessing.get_context("fork").Process(target=_hold_lock, args=(lock, str(ready)))
    owner.start()
    try:
        wait_until("the lock", ready.exists)
        with pytest.raises(Busy, match="the lock"), hold(lock, Deadline.after(0.2, "the lock")):
            pass
        assert owner.pid is not None
        os.kill(owner.pid, signal.SIGKILL)
        with hold(lock, Deadline.after(10, "the lock")):
            pass
    finally:
        owner.kill()
        owner.join()
        owner.close()


def test_a_word_of_bytes_that_are_no_text_is_written_and_read_as_json(tmp_path: Path) -> None:
    word = os.fsdecode(b"caf\xe9 \xc3\xa9")
    write_json(tmp_path / "note.json", {"word": word})
    assert json.loads((tmp_path / "note.json").read_text(encoding="utf-8")) == {"word": word}
