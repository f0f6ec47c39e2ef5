"""Seconds for a token of a model that does not fit into memory, against what `model.fit` foresees from the rate of the storage.

    python benchmarks/storage_bound.py [--arches x86_64,arm64] [--memory 36M] [--rate 30M] [--tokens 4] [--folder FOLDER]

One model of random weights, in two quantisations that `model.quantize` makes, on an emulated board with a real limit of
memory and of its storage's rate, then without the limit of memory. Its disk is an ext4 of its own with the readahead of
Linux (128 KiB): a computer's own may read megabytes ahead, which a small memory has dropped before they are used, and a
token then reads its weights two or three times. llama-bench of the recipe decodes; x86_64 runs without emulation, so that
storage is all that it waits for, arm64 under qemu, whose own work comes on top. What each token read is counted by the
kernel. Baseline: the forecast, from the rate that `board.info --measure` finds there; the second ratio is against the time
of what was really read. Nothing of it is a board's speed. Needs root, control groups and a loop device.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.fit_board import FitRequest, fit_on_board
from core.console import Console, Verbosity
from core.deadline import Deadline
from core.errors import HostUnsupported
from core.files import human_bytes, read_amount
from core.session import Session
from core.settings import Settings
from deploy.board.protocol import Board
from deploy.board.script import quote
from deploy.emulator.board.boards import create_board, stop_board
from deploy.emulator.sandbox.tools import copy_marked
from deploy.hdc.choose import choose_board
from deploy.run.rates import measure_rates
from deploy.transfer.push import push_files
from native.build.ensure import BuildRequest, ensure_built
from native.models.quantize import QuantizeRequest, quantize_model
from tests.shared.shape_gguf import fill_with_weights, llama_shapes, write_shapes
from toolchains.arch import find_host_arch
from toolchains.host_toolchain import ToolchainChoice

SERIAL, PROFILE = "emulated-storage-bound", "dayu200"
PLACE = "/data/local/tmp/storage-bound"
SHAPES: dict[str, Any] = {"layers": 12, "width": 1024, "inner": 3584, "heads": 16, "kv_heads": 4, "vocabulary": 4096}
TYPES = ("Q2_K", "Q8_0")
CPUS = {"arm64": "cortex-a55"}
"""As `board.run` builds for that board; for x86_64 a build for every CPU."""
CONTEXT, UBATCH = 256, 16
SECONDS = 1200.0
READ_BYTES = re.compile(r"^read_bytes: (\d+)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One quantisation on the board, measured and foreseen. Times in seconds for a token, sizes in bytes."""

    arch: str
    type: str
    limited: bool
    verdict: str
    seconds: float
    forecast: float | None
    read: float
    """By the kernel's count, for each token after the first."""
    read_foreseen: int
    rate: float
    """Bytes a second of the storage, as `board.info --measure` found them."""
    file: int

    @property
    def waited(self) -> float:
        """Seconds that the storage takes for what each token really read."""
        return self.read / self.rate

    def line(self) -> str:
        ratio = (
            f"{self.seconds / self.forecast:6.2f} x {self.seconds / self.waited:6.2f} x"
            if self.limited and self.forecast
            else " " * 17
        )
        share = f"{self.read / self.read_foreseen:7.1%}"
        return (
            f"{self.arch:<7} {self.type:<5} {'limited' if self.limited else 'free':<8} {self.verdict:<14}"
            f"{self.seconds:9.3f} s {ratio} {human_bytes(self.read):>10} {share}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arches", default="x86_64,arm64")
    parser.add_argument("--memory", default="36M")
    parser.add_argument("--rate", default="30M")
    parser.add_argument("--readahead", type=int, default=128, help="of the disk, in KiB")
    parser.add_argument("--tokens", type=int, default=4)
    parser.add_argument("--folder", help="where the models are kept, for the next time")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, own_disk(Path(name), asked.readahead) as disk:
        os.environ["OHFORGE_EMULATOR_HOME"] = str(disk)  # Wherever other boards lie.
        session = Session(settings=Settings(), console=Console(verbosity=Verbosity.QUIET))
        models = make_models(session, Path(asked.folder or name))
        limits = {"memory_limit": read_amount(asked.memory), "storage_rate": read_amount(asked.rate)}
        rows: list[Row] = []
        print(f"{asked.memory} of memory, {asked.rate} a second, EMULATED; {asked.tokens} tokens")
        print(f"{'':36}{'a token':>11} {'forecast':>8} {'by read':>8} {'read':>10} {'foreseen':>8}")
        for limited in (True, False):
            with limited_board(session, **(limits if limited else limits | {"memory_limit": 0})) as board:
                for arch in asked.arches.split(","):
                    rows += measure(session, board, arch, models, tokens=asked.tokens, limited=limited)
                    for row in rows[-len(models) :]:
                        print(row.line(), flush=True)
    for arch in asked.arches.split(","):
        for limited in (True, False):
            small, large = (row for row in rows if (row.arch, row.limited) == (arch, limited))
            print(
                f"{arch}, {'limited' if limited else 'free'}: {large.type} takes {large.seconds / small.seconds:.2f} times as long as "
                f"{small.type}; files {large.file / small.file:.2f}, read for a token {large.read_foreseen / small.read_foreseen:.2f}"
            )


@contextmanager
def own_disk(folder: Path, readahead: int, size: int = 2 << 30) -> Iterator[Path]:
    """A file system in a file below `folder`, with `readahead` in KiB; root only."""
    image, place = folder / "disk.img", folder / "disk"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(size)
    call("mkfs.ext4", "-q", "-F", str(image))
    # Else pages of the file below count for the board's programs too, and take the place of theirs.
    device = call("losetup", "--find", "--show", "--direct-io=on", str(image))
    try:
        call("mount", device, str(place))
        try:
            Path(f"/sys/block/{Path(device).name}/queue/read_ahead_kb").write_text(str(readahead))
            yield place
        finally:
            call("umount", str(place))
    finally:
        call("losetup", "--detach", device)


def call(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=120).stdout.strip()


def make_models(session: Session, folder: Path) -> dict[str, Path]:
    """The model in both quantisations, by type; those that are in the folder already are taken."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {kind: folder / f"random-{kind}.gguf" for kind in TYPES}
    lacking = tuple(kind for kind, path in paths.items() if not path.is_file())
    if lacking:
        source = folder / "random-F16.gguf"
        fill_with_weights(write_shapes(source, "llama", *llama_shapes(**SHAPES, kinds={"": "F16"})))
        quantize_model(session, QuantizeRequest(model=str(source), types=lacking))
        source.unlink()
    return paths


@contextmanager
def limited_board(session: Session, **limits: Any) -> Iterator[Board]:
    """The board with these limits, started anew; its rates are measured."""
    emulated = create_board(SERIAL, home=session.settings.emulated_boards, profile=PROFILE, **limits)
    stop_board(emulated)
    board = choose_board(session, SERIAL)
    try:
        measure_rates(session, board)
        yield board
    finally:
        stop_board(emulated)


def measure(
    session: Session, board: Board, arch: str, models: dict[str, Path], *, tokens: int, limited: bool
) -> list[Row]:
    """Each model on the board, by llama-bench for `arch`."""
    choice = ToolchainChoice(arch=arch, toolchain="zig", cpu=CPUS.get(arch, ""))
    artifact = ensure_built(session, BuildRequest(target="llama", choice=choice, products=("llama-bench",))).artifact
    program = artifact.path_of(artifact.product("llama-bench"))
    place = f"{PLACE}-{arch}/"
    with tempfile.TemporaryDirectory() as name:
        if arch == find_host_arch().name:  # The emulated board runs those of this computer only that bear its mark.
            copy_marked(program, program := Path(name) / program.name)
        push_files(session, board, [program], place)
        push_files(session, board, list(models.values()), place)
    # Asked while nothing runs: what a program has had counts for a moment after its end.
    fits = {kind: fit_on_board(session, fit_request(board, path)) for kind, path in models.items()}
    rows = []
    for kind, path in models.items():
        fit = fits[kind]
        if not limited:
            decode(board, arch, path, 1)  # What fits is read from storage once, at the first time.
        first, rest = decode(board, arch, path, 1), decode(board, arch, path, 1 + tokens)
        rows.append(
            Row(
                arch=arch,
                type=kind,
                limited=limited,
                verdict=fit["verdict"],
                seconds=(rest[0] - first[0]) / tokens,
                forecast=fit["seconds_per_token"],
                read=(rest[1] - first[1]) / tokens,
                read_foreseen=fit["bytes"]["read_per_token"],
                rate=fit["rates"]["storage"],
                file=path.stat().st_size,
            )
        )
    return rows


def fit_request(board: Board, path: Path) -> FitRequest:
    choice = ToolchainChoice(arch="arm64", toolchain="zig", cpu="generic")
    return FitRequest(model=str(path), board=board.serial, choice=choice, context=CONTEXT, ubatch=UBATCH, repack=False)


def decode(board: Board, arch: str, model: Path, tokens: int) -> tuple[float, int]:
    """Seconds of decoding so many tokens, and bytes that the whole run has read from storage."""
    words = ["./llama-bench", "-m", model.name, "-p", "0", "-n", str(tokens), "-r", "1", "-t", "1"]
    words += ["-ub", str(UBATCH), "--repack", "0", "-o", "json"]
    result = board.shell(
        # What a shell has read counts with that of the programs that it has waited for.
        f"{' '.join(map(quote, words))} 2>/dev/null; cat /proc/$$/io",
        deadline=Deadline.after(SECONDS, f"{tokens} tokens"),
        folder=f"{PLACE}-{arch}",
    )
    found = READ_BYTES.search(result.text)
    if found is None or "samples_ns" not in result.text:
        sys.exit(f"llama-bench for {arch} has measured nothing:\n{result.text}")
    [test] = json.loads(result.text[: result.text.rindex("]") + 1])
    return sum(test["samples_ns"]) / 1e9, int(found[1])


if __name__ == "__main__":
    try:
        main()
    except (PermissionError, subprocess.CalledProcessError, HostUnsupported) as error:
        print(f"not measured, this computer does not let limits be set: {error}")
