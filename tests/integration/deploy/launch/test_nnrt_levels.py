"""The program nnrt of API 9 and of API 12, with no device and with one, on the emulated board, all by commands.

Dynamic programs, linked to the SDK's libraries of the level; the board has libraries of the same level, which are the
reference runtimes. On arm32 for every change; on arm64, whose trees nothing else needs, by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.emulator.board.boards import create_board, stop_board
from native.programs import PROGRAMS
from tests.shared.standin_sdk import inference_board_libraries, inference_sdk
from tests.support.command_line import Said, invoke
from tests.support.sdk_symbols import NNRT_IMPORTS, imported_functions, nnrt_libraries
from toolchains.arch import ARM32, ARM64, Arch

BOARDS = {ARM32: "dayu200", ARM64: "dayu200-arm64"}
NET = PROGRAMS / "nnrt" / "examples" / "conv_relu_softmax.yaml"
VALUE = re.compile(r"^Output index: \d+, value is: ([-\d.e+]+)\.$", re.MULTILINE)
pytestmark = pytest.mark.timeout(1200)
BY_HAND = pytest.mark.exhaustive


@dataclass(frozen=True, kw_only=True)
class Place:
    """A machine with an SDK of that level, and an emulated board with the libraries that belong to it."""

    level: int
    arch: Arch
    sdk: Path
    environment: dict[str, str]

    def run(self, *words: str | Path, devices: int) -> Said:
        return invoke(
            *("board.run", "--program", "nnrt", "--toolchain", "ohos", "--sdk", self.sdk, "--arch", self.arch.name),
            *("--board", BOARDS[self.arch], "--env", f"OHFORGE_NNRT_DEVICES={devices}", *words),
            **self.environment,
        )


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(("3.2", 9, ARM32, (ARM32,)), id="api9-arm32"),
        pytest.param(("5.0.0", 12, ARM32, (ARM32, ARM64)), id="api12-arm32"),
        pytest.param(("3.2", 9, ARM64, (ARM64,)), id="api9-arm64", marks=BY_HAND),
        pytest.param(("5.0.0", 12, ARM64, (ARM32, ARM64)), id="api12-arm64", marks=BY_HAND),
    ],
)
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, shared_cache: Path
) -> Iterator[Place]:
    release, level, arch, arches = request.param
    home = tmp_path_factory.mktemp(f"machine-{level}-{arch.name}")
    sdk = inference_sdk(shared_cache, release, *arches)
    libraries = inference_board_libraries(sdk, arch, shared_cache, home / "libraries")
    board = create_board(
        f"emulated-{BOARDS[arch]}",
        home=home / "data/boards",
        profile=BOARDS[arch],
        libraries={arch.name: str(libraries)},
    )
    environment = {
        "OHFORGE_DATA_DIR": str(home / "data"),
        "OHFORGE_CACHE_DIR": str(shared_cache),
        "INVOKE_OHFORGE_BUILD_DIR": str(home / "build"),
        "INVOKE_OHFORGE_RUNS_DIR": str(home / "runs"),
        "INVOKE_OHFORGE_RUN_ENGINE": "shell",
        "INVOKE_OHFORGE_OFFLINE": "1",
    }
    try:
        yield Place(level=level, arch=arch, sdk=sdk, environment=environment)
    finally:
        stop_board(board)


def output_of(said: Said) -> str:
    print(said.text)  # Shown by `pytest -s`, and when a test fails.
    return (Path(said.answer["record"]) / "output.log").read_text().replace("\r\n", "\n")


def test_no_device_and_one_device_in_the_style_and_with_the_libraries_of_the_level(place: Place) -> None:
    none = place.run(devices=0)
    style = f"style: API {9 if place.level < 11 else 11}, api level: {place.level}"
    assert none.status == 69, none.text
    assert output_of(none).splitlines()[-1] == "No available device."
    assert "NNRt has no device on this board. RK3568 images have no NNRt driver" in none.text
    one = place.run(devices=1)
    assert one.status == 0, one.text
    output = output_of(one)
    for text in (output_of(none), output):
        assert style in text.splitlines()
        assert "engine: ohforge reference runtime 1 for NNRt" in text
    # The sums of OpenHarmony's guides.
    assert [float(value) for value in VALUE.findall(output)] == list(range(11, 35, 2))
    assert output.splitlines()[-1] == "result: complete"
    record = json.loads((Path(one.answer["record"]) / "record.json").read_text())
    key = record["program"]["artifact"]["key"]
    folder = Path(place.environment["INVOKE_OHFORGE_BUILD_DIR"]) / "nnrt" / f"{place.arch.name}-{key[:12]}"
    [product] = json.loads((folder / "artifact.json").read_text())["products"]
    assert product["interpreter"] == place.arch.loader
    assert set(product["needed"]) - {"libc.so", "libm.so"} == set(nnrt_libraries(place.level))
    assert imported_functions(folder / product["path"]) == NNRT_IMPORTS[place.level]


def test_a_network_in_yaml_is_computed_on_the_board(place: Place) -> None:
    ran = place.run("--net", NET, "--", "--values", "36", devices=1)
    assert ran.status == 0, ran.text
    output = output_of(ran)
    assert "output 0: probabilities 1x3x3x4" in output
    # Softmax over the four channels of nine cells.
    values = [float(value) for value in VALUE.findall(output)]
    assert len(values) == 36
    assert [sum(values[cell : cell + 4]) for cell in range(0, 36, 4)] == pytest.approx([1.0] * 9, abs=1e-5)
    assert re.search(r"^check: 36 values, .*: good$", output, re.MULTILINE)
