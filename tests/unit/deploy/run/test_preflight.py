"""What is looked at before anything is sent: arch, loader, libraries, tuning, memory."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from core.errors import (
    MissingLibrary,
    NotEnoughMemory,
    WrongArch,
)
from core.files import sha256_file
from core.session import Session
from deploy.board.survey import Question, Survey
from deploy.run.execute import execute
from deploy.run.preflight import Binary, check_binaries, check_tuning, question_for
from native.models.models import Model
from tests.support.board_runs import read_record
from tests.support.local_board import LocalBoard

# what must fit ------------------------------------------------------------------------------------

DAYU200 = Survey(
    machine="aarch64",
    kernel="5.10",
    hash_tool="sha256sum",
    writable=True,
    free_bytes=10**9,
    storage_bytes=10**10,
    loaders=frozenset({"/lib/ld-musl-arm.so.1"}),
    libraries=frozenset({("libace_napi.z.so", 32), ("libodd.so", 64)}),
    memory={"MemTotal": 2 * 10**9},
    cpu="processor : 0\nFeatures : fp asimd crc32\n",
)
ARM64 = Binary(name="p", machine="EM_AARCH64", interpreter="", needed=())
DYNAMIC64 = dataclasses.replace(ARM64, interpreter="/lib/ld-musl-aarch64.so.1", needed=("libc.so",))
DYNAMIC32 = Binary(name="p", machine="EM_ARM", interpreter="/lib/ld-musl-arm.so.1", needed=("libc.so",))


def test_a_static_64_bit_program_runs_on_a_32_bit_system_with_a_64_bit_kernel(board: LocalBoard) -> None:
    check_binaries(board, DAYU200, [ARM64], ())


def test_a_dynamic_64_bit_program_does_not_and_what_to_do_is_said(board: LocalBoard) -> None:
    with pytest.raises(MissingLibrary, match=r"ld-musl-aarch64.*arm32") as caught:
        check_binaries(board, DAYU200, [DYNAMIC64], ())
    assert "--static" in caught.value.remedy
    assert "--arch arm32" in caught.value.remedy


def test_a_32_bit_kernel_runs_no_64_bit_program(board: LocalBoard) -> None:
    with pytest.raises(WrongArch, match="armv7l") as caught:
        check_binaries(board, dataclasses.replace(DAYU200, machine="armv7l"), [ARM64], ())
    assert "--arch arm32" in caught.value.remedy


def test_libraries_of_the_system_those_that_travel_and_those_in_the_loader_count(board: LocalBoard) -> None:
    needed = ("libc.so", "libm.so", "libace_napi.z.so", "libc++_shared.so")
    check_binaries(board, DAYU200, [dataclasses.replace(DYNAMIC32, needed=needed)], {"libc++_shared.so"})


@pytest.mark.parametrize("needed", ["libc++_shared.so", "libodd.so"])
def test_a_library_that_is_missing_or_of_the_wrong_width_is_named(board: LocalBoard, needed: str) -> None:
    with pytest.raises(MissingLibrary, match=re.escape(needed)):
        check_binaries(board, DAYU200, [dataclasses.replace(DYNAMIC32, needed=("libc.so", needed))], ())


def test_only_what_does_not_travel_is_looked_for() -> None:
    binary = dataclasses.replace(DYNAMIC32, needed=("libc.so", "libx.so", "libc++_shared.so"))
    question = question_for([binary], {"libc++_shared.so"}, Question(stored=["a", "b"]))
    assert question.libraries == ["libx.so"]
    assert question.interpreters == ["/lib/ld-musl-arm.so.1"]
    assert question.stored == ["a", "b"]


def test_a_cpu_tuning_that_the_board_lacks_is_told_before_it_crashes(board: LocalBoard) -> None:
    with pytest.raises(WrongArch, match="asimddp") as caught:
        check_tuning(board, DAYU200, "arm64", "cortex-a55")
    assert "--cpu generic" in caught.value.remedy
    check_tuning(board, DAYU200, "arm64", "generic")
    check_tuning(board, dataclasses.replace(DAYU200, cpu=""), "arm64", "cortex-a55")


def with_memory(board: LocalBoard, total: int, available: int) -> None:
    board.replies = {
        r"^MemTotal: +\d+": f"MemTotal: {total // 1024}",
        r"^MemAvailable: +\d+": f"MemAvailable: {available // 1024}",
    }


@pytest.fixture
def model(tmp_path: Path) -> Model:
    path = tmp_path / "model.bin"
    path.write_bytes(b"m" * 3_000_000)
    return Model(name="model", kind="ms", path=path, sha256=sha256_file(path), size=3_000_000, summary={})


def test_a_model_that_is_larger_than_the_memory_is_refused_before_it_is_sent(
    session: Session, board: LocalBoard, request_for: Any, model: Model
) -> None:
    with_memory(board, 2_000_000, 1_000_000)
    with pytest.raises(NotEnoughMemory, match=r"3\.0 MB, but board local-board has 2\.0 MB") as caught:
        execute(session, board, request_for("true", model=model))
    assert caught.value.exit_status == 75
    assert "model.inspect" in caught.value.remedy
    assert "send" not in board.calls
    assert read_record(caught.value)["error"]["details"]["memory_bytes"] == 1953 * 1024


def test_a_model_as_large_as_the_memory_is_tried_when_that_is_asked_for(
    session: Session, board: LocalBoard, request_for: Any, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    with_memory(board, 2_000_000, 1_000_000)
    willing = dataclasses.replace(session, settings=dataclasses.replace(session.settings, require_memory=False))
    assert execute(willing, board, request_for("true", model=model)).exit_code == 0
    assert "2.0 MB of memory in all" in capsys.readouterr().err


def test_a_model_that_is_larger_than_what_is_free_is_warned_of(
    session: Session, board: LocalBoard, request_for: Any, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    with_memory(board, 4_000_000, 1_000_000)
    assert execute(session, board, request_for("true", model=model)).exit_code == 0
    assert "only 999.4 kB of memory are available" in capsys.readouterr().err


def test_a_model_that_fits_is_not_talked_about(
    session: Session, board: LocalBoard, request_for: Any, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    with_memory(board, 8_000_000, 4_000_000)
    assert execute(session, board, request_for("true", model=model)).exit_code == 0
    assert "memory" not in capsys.readouterr().err
