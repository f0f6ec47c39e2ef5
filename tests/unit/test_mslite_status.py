"""Every way in which mslite can end has its sentence."""

from __future__ import annotations

import re

import pytest

from native.mslite.status import explain_exit, load_table
from native.recipe import RECIPES

ENGINE_STATUSES = {
    "SUCCESS": (0, 0),
    "CORE_FAILED": (1, 1),
    "LITE_ERROR": (-1, 255),
    "LITE_NULLPTR": (-2, 254),
    "LITE_PARAM_INVALID": (-3, 253),
    "LITE_NO_CHANGE": (-4, 252),
    "LITE_SUCCESS_EXIT": (-5, 251),
    "LITE_MEMORY_FAILED": (-6, 250),
    "LITE_NOT_SUPPORT": (-7, 249),
    "LITE_THREADPOOL_ERROR": (-8, 248),
    "LITE_UNINITIALIZED_OBJ": (-9, 247),
    "LITE_OUT_OF_TENSOR_RANGE": (-100, 156),
    "LITE_INPUT_TENSOR_ERROR": (-101, 155),
    "LITE_REENTRANT_ERROR": (-102, 154),
    "LITE_GRAPH_FILE_ERROR": (-200, 56),
    "LITE_NOT_FIND_OP": (-300, 212),
    "LITE_INVALID_OP_NAME": (-301, 211),
    "LITE_INVALID_OP_ATTR": (-302, 210),
    "LITE_OP_EXECUTE_FAILURE": (-303, 209),
    "LITE_FORMAT_ERROR": (-400, 112),
    "LITE_INFER_ERROR": (-500, 12),
    "LITE_INFER_INVALID": (-501, 11),
    "LITE_INPUT_PARAM_INVALID": (-600, 168),
    "LITE_AIPP_NOT_SUPPORTED": (-700, 68),
    "LITE_AIPP_INFER_ERROR": (-701, 67),
}
"""Name → status as an int, exit status in a shell: from the API reference and from runs of the quick-start program."""


def test_the_table_has_every_status_of_the_engine_and_no_other() -> None:
    assert {row.name: code for code, row in load_table().by_code.items()} == {
        name: code for name, (code, _) in ENGINE_STATUSES.items()
    }


@pytest.mark.parametrize("name", ENGINE_STATUSES)
def test_an_engine_status_is_found_by_the_exit_status_that_a_shell_sees(name: str) -> None:
    code, exit_status = ENGINE_STATUSES[name]
    explanation = explain_exit(exit_status)
    assert (explanation.name, explanation.code) == (name, code)
    assert explanation.sentence.endswith(".")
    assert name == "SUCCESS" or explanation.remedy.endswith(".")


@pytest.mark.parametrize("name", ENGINE_STATUSES)
def test_a_printed_status_names_the_call_that_failed(name: str) -> None:
    code, exit_status = ENGINE_STATUSES[name]
    explanation = explain_exit(exit_status, f"engine: x\nOH_AI_ModelPredict failed, ret: {code}.\n")
    assert (explanation.name, explanation.function) == (name, "OH_AI_ModelPredict")


@pytest.mark.parametrize("exit_status", [64, 66, 69, 70, 73, 126, 127, 132, 134, 137, 139])
def test_statuses_of_the_program_and_of_the_shell_are_not_the_engines(exit_status: int) -> None:
    explanation = explain_exit(exit_status)
    assert exit_status in load_table().by_exit
    assert explanation.code is None
    assert explanation.sentence.endswith(".")
    assert explanation.remedy.endswith(".")


def test_255_without_a_model_is_not_taken_for_the_engines_common_error() -> None:
    assert "without a model" in explain_exit(255, "Model file must be provided.\n").sentence
    assert explain_exit(255, "OH_AI_ModelBuildFromFile failed, ret: -1.\n").name == "LITE_ERROR"


def test_no_status_has_two_meanings() -> None:
    table = load_table()
    exits = [code & 0xFF for code in table.by_code]
    assert len(set(exits)) == len(exits)
    assert not set(exits) & set(table.by_exit)


def test_a_status_that_nobody_uses_is_said_to_be_one() -> None:
    assert "does not use" in explain_exit(42).sentence
    assert "signal 44" in explain_exit(172).sentence


def test_the_program_uses_the_statuses_that_the_table_gives_it() -> None:
    header = (RECIPES / "mslite" / "src" / "options.h").read_text()
    used = {int(number) for number in re.findall(r"^    EXIT_\w+ = (\d+)", header, re.MULTILINE)}
    assert used == {64, 66, 69, 70, 73, 255}


def test_the_headers_number_the_statuses_alike() -> None:
    header = (RECIPES / "runtime" / "include" / "mindspore" / "status.h").read_text()
    numbers = {
        name: -int(number) for name, number in re.findall(r"OH_AI_STATUS_(\w+) = OHFORGE_LITE_STATUS\((\d+)\)", header)
    }
    assert numbers == {
        name: code for name, (code, _) in ENGINE_STATUSES.items() if code < 0 and not name.startswith("LITE_AIPP")
    }
