"""The whole way with an SDK: fetched from a mirror, a program built with it, run on the emulated board, by commands.

The programs are dynamic ones: the board has the loader, the C and C++ library and, here, the reference runtimes in the
place of MindSpore Lite and NNRt.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deploy.emulator.board.boards import create_board, stop_board
from deploy.run.record import validate_record
from tests.shared.loopback import Loopback
from tests.shared.ms_models import mobilenet_v2, seeded_image
from tests.shared.standin_sdk import inference_board_libraries, inference_sdk, make_release
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.command_line import Said, invoke
from tests.support.sdk_server import serve_mirror
from toolchains.arch import ARM32, ARM64, Arch

RELEASE, LEVEL = "5.0.0", 12
PROMPT, TOKENS = "the cat", 16
BOARDS = {ARM32: "dayu200", ARM64: "dayu200-arm64"}
"""The stock image is a 32-bit one; dynamic 64-bit programs need the other."""
BOTH = pytest.mark.parametrize("arch", BOARDS, ids=lambda arch: arch.name)
pytestmark = pytest.mark.timeout(1200)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A machine with an SDK from a mirror, and emulated boards with the libraries that belong to it."""

    environment: dict[str, str]
    fetched: Said

    def invoke(self, *words: str | Path) -> Said:
        return invoke(*words, **self.environment)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, shared_cache: Path) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("machine")
    sdk = inference_sdk(shared_cache, RELEASE, ARM32, ARM64)
    environment = {
        "OHFORGE_DATA_DIR": str(home / "data"),
        "OHFORGE_CACHE_DIR": str(home / "cache"),
        "INVOKE_OHFORGE_BUILD_DIR": str(home / "build"),
        "INVOKE_OHFORGE_RUNS_DIR": str(home / "runs"),
    }
    boards = [
        create_board(
            f"emulated-{profile}",
            home=home / "data/boards",
            profile=profile,
            libraries={arch.name: str(inference_board_libraries(sdk, arch, shared_cache, home / arch.name))},
        )
        for arch, profile in BOARDS.items()
    ]
    try:
        with Loopback() as server:
            base = serve_mirror(server, make_release(home / "packed", RELEASE, tree=sdk))
            fetched = invoke("sdk.fetch", RELEASE, INVOKE_OHFORGE_SDK_MIRROR=base, **environment)
        yield Place(environment={**environment, "INVOKE_OHFORGE_OFFLINE": "1"}, fetched=fetched)
    finally:
        for board in boards:
            stop_board(board)


@BOTH
def test_from_the_mirror_to_the_numbers_of_a_model(place: Place, tmp_path: Path, arch: Arch) -> None:
    assert (place.fetched.status, place.fetched.answer["api_level"]) == (0, LEVEL), place.fetched
    assert place.fetched.answer["bytes_reused"] == 0
    built = place.invoke("build", "--toolchain", "ohos", "--target", "mslite", "--arch", arch.name)
    assert (built.status, built.answer["rebuilt"]) == (0, True), built.text
    model, image = mobilenet_v2(size=32), seeded_image(32)
    (tmp_path / "mobilenetv2.ms").write_bytes(model.to_bytes())
    np.save(tmp_path / "in.npy", image)
    ran = place.invoke(
        *("board.run", tmp_path / "mobilenetv2.ms", "--toolchain", "ohos", "--board", BOARDS[arch]),
        *("--file", tmp_path / "in.npy", "--param", "input=in.npy"),
    )
    assert ran.status == 0, ran.text
    assert "Building mslite" not in ran.text, "what was built beforehand is used"
    program = record_of(ran)["program"]["artifact"]
    assert (program["arch"], program["toolchain"], program["key"]) == (arch.name, "ohos", built.answer["key"])
    manifest = json.loads(Path(built.answer["artifact"]).read_text())
    assert "ohos-sdk 5.0.0.71" in manifest["toolchain_title"]
    [product] = manifest["products"]
    assert (product["interpreter"], "libmindspore_lite_ndk.so" in product["needed"]) == (arch.loader, True)
    assert ran.answer["facts"]["engine"].startswith("ohforge reference runtime")
    [expected] = model.evaluate(image)
    written = np.load(Path(ran.answer["record"]) / "outputs/0-Softmax-65.npy")
    np.testing.assert_allclose(written, expected, rtol=1e-5, atol=1e-5)


@BOTH
def test_the_shared_cxx_library_travels_with_a_program_that_needs_it(place: Place, arch: Arch) -> None:
    words = ("--toolchain", "ohos", "--stl", "c++_shared", "--board", BOARDS[arch], "--arch", arch.name)
    there = place.invoke("board.shell", "--board", BOARDS[arch], "--", "find / -name 'libc++_shared.so' 2>/dev/null")
    assert there.answer["output"].strip() == "", "a board before OpenHarmony 5.1"
    ran = place.invoke("board.run", "--program", "nnrt", *words)
    # The reference runtime has no device unless it is told to: NNRt was asked and said so.
    assert (ran.status, "No available device." in ran.text) == (69, True), ran.text
    key = record_of(ran)["program"]["artifact"]["key"]
    folder = Path(place.environment["INVOKE_OHFORGE_BUILD_DIR"]) / "nnrt" / f"{arch.name}-{key[:12]}"
    manifest = json.loads((folder / "artifact.json").read_text())
    assert "libc++_shared.so" in manifest["products"][0]["needed"]
    assert [Path(name).name for name in manifest["runtime_libraries"]] == ["libc++_shared.so"]


@pytest.mark.exhaustive
@pytest.mark.timeout(5400)
def test_llama_writes_the_same_text_on_both_boards(place: Place, tmp_path: Path, shared_cache: Path) -> None:
    """An F32 model is computed in single precision everywhere, so greedy text does not depend on the arch."""
    model = write_tiny_gguf(tmp_path / "tiny.gguf", "F32")
    online = {**place.environment, "OHFORGE_CACHE_DIR": str(shared_cache), "INVOKE_OHFORGE_OFFLINE": "0"}
    texts = []
    for arch, profile in BOARDS.items():
        ran = invoke(
            *("board.run", model, "--toolchain", "ohos", "--board", profile),
            *("--prompt", PROMPT, "--tokens", str(TOKENS)),
            seconds=2600,
            **online,
        )
        assert ran.status == 0, ran.text
        program = record_of(ran)["program"]["artifact"]
        assert (program["arch"], program["toolchain"]) == (arch.name, "ohos")
        assert ran.answer["metrics"]["generation_runs"]["value"] == TOKENS - 1
        texts.append(ran.answer["facts"]["text"].strip())
    assert texts[0] == texts[1]
    assert texts[0].startswith(PROMPT)
    assert len(texts[0]) > len(PROMPT) + TOKENS // 2


def record_of(said: Said) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((Path(said.answer["record"]) / "record.json").read_text())
    validate_record(content)
    return content
