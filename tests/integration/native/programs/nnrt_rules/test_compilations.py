"""The rules of compilations and their cache in the reference runtime of NNRt."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import byref, c_bool, c_char_p, c_uint32, c_void_p
from pathlib import Path

import pytest

from tests.support.nnrt_rules import ADD, TOP_K, UNKNOWN_DEVICE, by_level, compiled
from tests.support.nnrt_runtime import (
    BAD_FILE,
    FAILED,
    FORBIDDEN,
    INVALID,
    SUCCESS,
    Graph,
    Nnrt,
    addition,
)

# compilations --------------------------------------------------------------------------------


def test_an_unfinished_model_is_not_compiled(nnrt: Nnrt) -> None:
    graph = addition(nnrt, finish=False)
    compilation = nnrt.Compilation_Construct(graph.model)
    if nnrt.modern:
        assert nnrt.Compilation_Build(compilation) == INVALID
        nnrt.Compilation_Destroy(byref(compilation))
    else:
        assert compilation.value is None
    graph.close()


def test_an_unknown_device_shows_at_once_or_when_built(nnrt: Nnrt) -> None:
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, UNKNOWN_DEVICE) == by_level(nnrt, INVALID, SUCCESS)
    assert nnrt.Compilation_Build(compilation) == by_level(nnrt, FORBIDDEN, FAILED)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_an_operation_that_the_device_lacks_shows_at_once_or_when_built(
    nnrt: Nnrt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OHFORGE_NNRT_UNSUPPORTED", str(ADD))
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == by_level(nnrt, FAILED, SUCCESS)
    assert nnrt.Compilation_Build(compilation) == by_level(nnrt, FORBIDDEN, FAILED)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_an_operation_that_is_known_by_its_number_only_is_taken_but_not_compiled(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    graph.add([4])
    graph.add([2])
    assert graph.operation(TOP_K, [], [0], [1]) == SUCCESS
    assert graph.specify([0], [1]) == SUCCESS
    assert graph.finish() == SUCCESS
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == by_level(nnrt, FAILED, SUCCESS)
    assert nnrt.Compilation_Build(compilation) != SUCCESS
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


SETTERS: dict[str, Callable[[Nnrt, c_void_p], int]] = {
    "performance": lambda nnrt, c: nnrt.Compilation_SetPerformanceMode(c, 3),
    "priority": lambda nnrt, c: nnrt.Compilation_SetPriority(c, 3),
    "fp16": lambda nnrt, c: nnrt.Compilation_EnableFloat16(c, c_bool(True)),
}


@pytest.mark.parametrize("capability", SETTERS)
def test_options_before_the_device_are_forbidden_in_3_2(nnrt: Nnrt, capability: str) -> None:
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert SETTERS[capability](nnrt, compilation) == by_level(nnrt, FORBIDDEN, SUCCESS)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


@pytest.mark.parametrize("capability", SETTERS)
@pytest.mark.parametrize("able", [True, False])
def test_an_option_that_the_device_lacks_is_forbidden_at_once_or_when_built(
    nnrt: Nnrt, capability: str, able: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OHFORGE_NNRT_CAPABILITIES", "performance,priority,fp16" if able else "cache")
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    refused = SUCCESS if able else FORBIDDEN
    assert SETTERS[capability](nnrt, compilation) == by_level(nnrt, refused, SUCCESS)
    assert nnrt.Compilation_Build(compilation) == by_level(nnrt, SUCCESS, refused)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_the_guides_high_priority_fails_on_the_example_driver(nnrt: Nnrt) -> None:
    # Its driver has fp16, performance modes, cache and dynamic shapes, but no priorities: the default here.
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    codes = [nnrt.Compilation_SetPriority(compilation, 3), nnrt.Compilation_Build(compilation)]
    assert codes == ([SUCCESS, FORBIDDEN] if nnrt.modern else [FORBIDDEN, SUCCESS])
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_a_compilation_without_a_device_takes_the_first_from_5_0_on(
    nnrt: Nnrt, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = addition(nnrt)
    for devices, code in (("1", by_level(nnrt, FORBIDDEN, SUCCESS)), ("0", by_level(nnrt, FORBIDDEN, FAILED))):
        monkeypatch.setenv("OHFORGE_NNRT_DEVICES", devices)
        compilation = nnrt.Compilation_Construct(graph.model)
        assert nnrt.Compilation_Build(compilation) == code
        nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_a_second_build_is_refused(nnrt: Nnrt) -> None:
    graph = addition(nnrt)
    compilation = compiled(nnrt, graph)
    assert nnrt.Compilation_Build(compilation) == by_level(nnrt, FORBIDDEN, INVALID)
    assert nnrt.Compilation_SetPerformanceMode(compilation, 1) == by_level(nnrt, FORBIDDEN, SUCCESS)
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


def test_shapes_that_do_not_fit_show_when_it_is_built(nnrt: Nnrt) -> None:
    graph = Graph(nnrt)
    graph.add([2, 3])
    graph.add([4])
    graph.add([2, 3])
    assert graph.operation(ADD, [], [0, 1], [2]) == SUCCESS
    assert graph.specify([0, 1], [2]) == SUCCESS
    assert graph.finish() == SUCCESS
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    assert nnrt.Compilation_Build(compilation) == FAILED
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()


# the cache -----------------------------------------------------------------------------------


def build_with_cache(nnrt: Nnrt, folder: Path, version: int) -> int:
    graph = addition(nnrt)
    compilation = nnrt.Compilation_Construct(graph.model)
    assert nnrt.Compilation_SetDevice(compilation, nnrt.device()) == SUCCESS
    path = c_char_p(str(folder).encode())  # It must live until Build.
    code = int(nnrt.Compilation_SetCache(compilation, path, c_uint32(version)))
    code = code or int(nnrt.Compilation_Build(compilation))
    nnrt.Compilation_Destroy(byref(compilation))
    graph.close()
    return code


def test_a_cache_is_written_used_and_outgrown(nnrt: Nnrt, tmp_path: Path) -> None:
    assert build_with_cache(nnrt, tmp_path, 2) == SUCCESS
    assert {path.name for path in tmp_path.iterdir()} == {"0.nncache", "cache_info.nncache"}
    before = (tmp_path / "cache_info.nncache").read_bytes()
    assert build_with_cache(nnrt, tmp_path, 2) == SUCCESS
    assert (tmp_path / "cache_info.nncache").read_bytes() == before
    assert build_with_cache(nnrt, tmp_path, 1) == FORBIDDEN
    assert build_with_cache(nnrt, tmp_path, 3) == SUCCESS
    assert (tmp_path / "cache_info.nncache").read_bytes() != before


@pytest.mark.parametrize("content", [b"", b"something else"])
def test_a_damaged_cache_is_an_error_in_3_2_and_rebuilt_later(nnrt: Nnrt, tmp_path: Path, content: bytes) -> None:
    assert build_with_cache(nnrt, tmp_path, 1) == SUCCESS
    (tmp_path / "0.nncache").write_bytes(content)
    assert build_with_cache(nnrt, tmp_path, 1) == by_level(nnrt, BAD_FILE, SUCCESS)


def test_a_cache_of_another_device_is_an_error_in_3_2_and_rebuilt_later(nnrt: Nnrt, tmp_path: Path) -> None:
    assert build_with_cache(nnrt, tmp_path, 1) == SUCCESS
    info = bytearray((tmp_path / "cache_info.nncache").read_bytes())
    info[16] ^= 1  # count, version, device: eight bytes each
    (tmp_path / "cache_info.nncache").write_bytes(info)
    assert build_with_cache(nnrt, tmp_path, 1) == by_level(nnrt, INVALID, SUCCESS)


def test_a_cache_folder_must_exist_and_the_highest_version_is_reserved(nnrt: Nnrt, tmp_path: Path) -> None:
    assert build_with_cache(nnrt, tmp_path / "nowhere", 1) == INVALID
    assert build_with_cache(nnrt, tmp_path, 0xFFFFFFFF) == INVALID
