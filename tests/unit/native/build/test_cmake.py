"""What CMake is given, and what ninja says."""

from __future__ import annotations

from pathlib import Path

from native.build.cmake import StatusReader, render_additions
from tests.support.build_parts import make_job


def test_flags_with_special_characters_reach_cmake_unharmed(tmp_path: Path) -> None:
    text = render_additions(make_job(tmp_path, compile_flags=['-DTEXT="a;b ]] $x"', "-DMORE=1>0"]))
    assert '[=[$<$<COMPILE_LANGUAGE:C,CXX>:-DTEXT="a$<SEMICOLON>b ]] $x">]=]' in text
    assert "-DMORE=1$<ANGLE-R>0>" in text


def test_ninjas_lines_become_progress_however_they_are_cut() -> None:
    reached: list[tuple[float, float | None]] = []
    said: list[str] = []

    class Bar:
        def advance(self, count: float) -> None: ...

        def reach(self, done: float, total: float | None = None) -> None:
            reached.append((done, total))

        def say(self, text: str) -> None:
            said.append(text)

    reader = StatusReader(Bar())
    text = (
        b"[1/3] Building C object ggml/src/CMakeFiles/ggml-base.dir/ggml.c.o\nwarning: [9/9] no\n"
        b"[2/3] Linking CXX static library src/libllama.a\n[3/3] Linking CXX executable bin/llama-cli\n"
    )
    for index in range(len(text)):
        reader.feed(text[index : index + 1])
    assert reached == [(1, 3), (2, 3), (3, 3)]
    assert said == ["ggml.c", "libllama.a", "llama-cli"]
