"""whisper.cpp, a recipe that is data alone: built for both ARM arches, and heard on the emulated board.

Minutes without a warm compiler cache (OHFORGE_TEST_CACHE keeps one).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import create_board, stop_board
from tests.support.command_line import invoke
from toolchains.arch import ARM32, ARM64, Arch

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]
PROGRAM = "whisper-vad-speech-segments"
SEGMENTS = 4
"""In samples/jfk.wav, as whisper.cpp's own tests/test-vad.cpp expects of the same model."""
SECONDS_OF_SOUND = 11.0
"""``jfk.wav``: 176000 samples at 16 kHz."""


@pytest.fixture
def environment(tmp_path: Path, shared_cache: Path) -> Iterator[dict[str, str]]:
    board = create_board("emulated-dayu200", home=tmp_path / "data/boards", profile="dayu200")
    yield {
        "OHFORGE_DATA_DIR": str(tmp_path / "data"),
        "OHFORGE_CACHE_DIR": str(shared_cache),
        "INVOKE_OHFORGE_BUILD_DIR": str(shared_cache / "builds"),
        "INVOKE_OHFORGE_RUNS_DIR": str(tmp_path / "runs"),
    }
    stop_board(board)


@pytest.mark.parametrize("arch", [ARM32, ARM64], ids=lambda arch: arch.name)
def test_speech_is_found_where_whisper_cpps_own_test_finds_it(environment: dict[str, str], arch: Arch) -> None:
    """The real model on real speech; the model and the sound travel with the program, as the recipe says."""
    words = ("--arch", arch.name, "--toolchain", "zig", "--board", "dayu200")
    arguments = ("--vad-model", "silero-vad.bin", "--file", "jfk.wav", "--threads", "2", "--no-prints")
    ran = invoke("board.run", "--program", PROGRAM, *words, "--", *arguments, seconds=3000, **environment)
    assert ran.status == 0, ran.text
    assert f"Detected {SEGMENTS} speech segments:" in ran.text
    # Hundredths of a second.
    found = [tuple(map(float, pair)) for pair in re.findall(r"start = ([\d.]+), end = ([\d.]+)", ran.text)]
    times = [time / 100 for pair in found for time in pair]
    assert len(found) == SEGMENTS
    assert times == sorted(set(times))
    assert times[-1] <= SECONDS_OF_SOUND
    bench = invoke("board.run", "--program", "whisper-bench", *words, "--", "--help", seconds=3000, **environment)
    assert (bench.status, "--what" in bench.text) == (0, True), bench.text
