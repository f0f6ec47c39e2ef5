"""Every way in which our programs can end has its sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from core.errors import InvalidData
from native.programs import PROGRAMS
from native.recipe import exit_status
from native.recipe.exit_status import explain_exit, load_statuses

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


NNRT_CODES = [
    "SUCCESS",
    "FAILED",
    "INVALID_PARAMETER",
    "MEMORY_ERROR",
    "OPERATION_FORBIDDEN",
    "NULL_PTR",
    "INVALID_FILE",
    "UNAVALIDABLE_DEVICE",
    "INVALID_PATH",
    "TIMEOUT",
    "UNSUPPORTED",
    "CONNECTION_EXCEPTION",
    "SAVE_CACHE_EXCEPTION",
    "DYNAMIC_SHAPE",
    "UNAVAILABLE_DEVICE",
]
"""Return codes of NNRt from 0 on: from the API reference (one is misspelt there)."""
WORDS = {
    "mslite": {
        "CORE_FAILED": "core",
        "LITE_ERROR": "common error",
        "LITE_NULLPTR": "null pointer",
        "LITE_PARAM_INVALID": "parameter was refused",
        "LITE_NO_CHANGE": "Nothing had to be changed",
        "LITE_SUCCESS_EXIT": "without an error",
        "LITE_MEMORY_FAILED": "memory",
        "LITE_NOT_SUPPORT": "does not support",
        "LITE_THREADPOOL_ERROR": "threads",
        "LITE_UNINITIALIZED_OBJ": "before it was set up",
        "LITE_OUT_OF_TENSOR_RANGE": "tensor that is not there",
        "LITE_INPUT_TENSOR_ERROR": "input has no data",
        "LITE_REENTRANT_ERROR": "at the same time",
        "LITE_GRAPH_FILE_ERROR": "could not be read as a graph",
        "LITE_NOT_FIND_OP": "has no operator",
        "LITE_INVALID_OP_NAME": "name that the engine does not take",
        "LITE_INVALID_OP_ATTR": "attribute",
        "LITE_OP_EXECUTE_FAILURE": "while it was running",
        "LITE_FORMAT_ERROR": "layout",
        "LITE_INFER_ERROR": "could not be worked out",
        "LITE_INFER_INVALID": "before the inputs have theirs",
        "LITE_INPUT_PARAM_INVALID": "a user gave",
        "LITE_AIPP_NOT_SUPPORTED": "does not support preprocessing",
        "LITE_AIPP_INFER_ERROR": "Preprocessing of the image",
    },
    "nnrt": {
        "FAILED": "common error",
        "INVALID_PARAMETER": "argument was refused",
        "MEMORY_ERROR": "memory",
        "OPERATION_FORBIDDEN": "wrong time",
        "NULL_PTR": "null pointer",
        "INVALID_FILE": "cache file",
        "UNAVALIDABLE_DEVICE": "does not answer",
        "INVALID_PATH": "path does not exist",
        "TIMEOUT": "too long",
        "UNSUPPORTED": "does not support",
        "CONNECTION_EXCEPTION": "connection",
        "SAVE_CACHE_EXCEPTION": "cache could not be saved",
        "DYNAMIC_SHAPE": "open dimensions",
        "UNAVAILABLE_DEVICE": "cannot be used at present",
    },
}
"""Words that the sentence of each status must have, from what the headers' comments say of it."""
OWN_STATUSES = {"mslite": {64, 66, 69, 70, 73}, "nnrt": {64, 66, 69, 79, 80}}
SHELL_STATUSES = [126, 127, 132, 134, 137, 139]


def test_the_tables_have_every_status_of_the_engines_and_no_other() -> None:
    assert {row.name: code for code, row in load_statuses("mslite").by_code.items()} == {
        name: code for name, (code, _) in ENGINE_STATUSES.items()
    }
    assert [row.name for _, row in sorted(load_statuses("nnrt").by_code.items())] == NNRT_CODES


@pytest.mark.parametrize("program", WORDS)
def test_every_status_has_a_sentence_of_its_own_that_says_what_the_status_means(program: str) -> None:
    rows = [row for row in load_statuses(program).by_code.values() if row.code != 0]
    assert {row.name for row in rows} == set(WORDS[program])
    assert {row.name for row in rows if WORDS[program][row.name] not in row.sentence} == set()
    assert len({row.sentence for row in rows}) == len(rows)


@pytest.mark.parametrize("name", ENGINE_STATUSES)
def test_a_status_of_mindspore_lite_is_found_by_the_exit_status_that_a_shell_sees(name: str) -> None:
    code, exit_status = ENGINE_STATUSES[name]
    explanation = explain_exit("mslite", exit_status)
    assert (explanation.name, explanation.code) == (name, code)
    assert explanation.sentence.endswith(".")
    assert name == "SUCCESS" or explanation.remedy.endswith(".")


@pytest.mark.parametrize("name", ENGINE_STATUSES)
def test_a_printed_status_names_the_call_that_failed(name: str) -> None:
    code, exit_status = ENGINE_STATUSES[name]
    explanation = explain_exit("mslite", exit_status, f"engine: x\nOH_AI_ModelPredict failed, ret: {code}.\r\n")
    assert (explanation.name, explanation.function) == (name, "OH_AI_ModelPredict")


@pytest.mark.parametrize("code", range(1, len(NNRT_CODES)), ids=NNRT_CODES[1:])
def test_a_return_code_of_nnrt_is_found_by_the_exit_status_and_by_the_line(code: int) -> None:
    assert explain_exit("nnrt", 100 + code).name == NNRT_CODES[code]
    printed = explain_exit("nnrt", 100 + code, f"OH_NNModel_Finish failed, ret: {code} ({NNRT_CODES[code]}).\n")
    assert (printed.code, printed.function) == (code, "OH_NNModel_Finish")
    assert printed.sentence.endswith(".")
    assert printed.remedy.endswith(".")


@pytest.mark.parametrize(("program", "status"), [(p, s) for p, own in OWN_STATUSES.items() for s in sorted(own)])
def test_the_programs_own_statuses_have_sentences(program: str, status: int) -> None:
    explanation = explain_exit(program, status)
    assert explanation.code is None
    assert explanation.sentence.endswith(".")
    assert explanation.remedy.endswith(".")


@pytest.mark.parametrize("status", SHELL_STATUSES)
@pytest.mark.parametrize("program", ["mslite", "nnrt", "llama"])
def test_what_a_shell_says_means_the_same_for_every_program(program: str, status: int) -> None:
    explanation = explain_exit(program, status)
    assert explanation == explain_exit("no such program", status)
    assert explanation.sentence.endswith(".")
    assert explanation.remedy.endswith(".")


def test_255_without_a_model_is_not_taken_for_the_engines_common_error() -> None:
    assert "without a model" in explain_exit("mslite", 255, "Model file must be provided.\n").sentence
    failed = explain_exit("mslite", 255, "OH_AI_ModelBuildFromFile failed, ret: -1.\n")
    assert (failed.name, failed.function) == ("LITE_ERROR", "OH_AI_ModelBuildFromFile")


def test_a_missing_device_is_told_from_what_was_printed() -> None:
    assert "no device" in explain_exit("nnrt", 69, "engine: x\nNo available device.\n").sentence
    # The program of the OpenHarmony guides ends with 255 there.
    assert "no device" in explain_exit("nnrt", 255, "No available device.\n").sentence


def test_no_status_has_two_meanings() -> None:
    for program, own in OWN_STATUSES.items():
        codes = load_statuses(program).by_code
        exits = [code & 0xFF if program == "mslite" else code and code + 100 for code in codes]
        assert len({*exits, *own, *SHELL_STATUSES}) == len(exits) + len(own) + len(SHELL_STATUSES)


def test_a_status_that_nobody_uses_is_said_to_be_one() -> None:
    assert "does not use" in explain_exit("mslite", 42).sentence
    assert "signal 44" in explain_exit("mslite", 172).sentence


def test_the_programs_use_the_statuses_that_their_tables_give_them() -> None:
    header = (PROGRAMS / "mslite" / "src" / "options.h").read_text()
    used = {int(number) for number in re.findall(r"^    EXIT_\w+ = (\d+)", header, re.MULTILINE)}
    assert used == OWN_STATUSES["mslite"] | {255}
    main = (PROGRAMS / "nnrt" / "src" / "main.cpp").read_text()
    assert {int(number) for number in re.findall(r"\bexit_\w+ = (\d+)", main)} == OWN_STATUSES["nnrt"] | {100}


def test_the_headers_number_the_statuses_alike() -> None:
    headers = PROGRAMS / "runtime" / "include"
    lite = (headers / "mindspore" / "status.h").read_text()
    numbers = re.findall(r"OH_AI_STATUS_(\w+) = OHFORGE_LITE_STATUS\((\d+)\)", lite)
    assert {name: -int(number) for name, number in numbers} == {
        name: code for name, (code, _) in ENGINE_STATUSES.items() if code < 0 and not name.startswith("LITE_AIPP")
    }
    types = (headers / "neural_network_runtime" / "neural_network_runtime_type.h").read_text()
    codes = types[types.index("OH_NN_SUCCESS") : types.index("} OH_NN_ReturnCode")]
    assert [name for name, _ in re.findall(r"OH_NN_(\w+) = (\d+)", codes)] == NNRT_CODES


def test_a_table_of_another_form_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "status.yaml").write_text("engine: [{code: 1}]\n")
    monkeypatch.setattr(exit_status, "PROGRAMS", tmp_path)
    with pytest.raises(InvalidData, match=r"broken/status\.yaml"):
        explain_exit("broken", 1)
