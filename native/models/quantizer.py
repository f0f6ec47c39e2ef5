"""llama-quantize of the recipe's llama.cpp, built for this computer: what it would make of a model, and making it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.deadline import Deadline
from core.errors import ModelError
from core.process import usable_cores
from core.session import Session
from native.formats.ggml import FILE_TYPES, TENSOR_TYPES
from native.formats.gguf import GgufTensor
from toolchains.arch import find_host_arch
from toolchains.host_toolchain import ToolchainChoice

if TYPE_CHECKING:
    from core.process import Result
    from native.build.ensure import BuildLook

RECIPE, PRODUCT = "llama", "llama-quantize"
ALIASES = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}
NOT_MADE = {"NVFP4"}
"""Types of files that llama.cpp reads, but llama-quantize does not make."""
QUANTISATIONS = tuple(name for name in FILE_TYPES.values() if name not in NOT_MADE)
TENSOR_LINE = re.compile(r"^\[\s*\d+/\s*\d+\] (?P<name>.+?)\s+- \[[\d, ]+\], type =\s*(?P<before>\w+),")
NEW_TYPE = re.compile(r" MiB \((?P<after>\w+)\)\s*$")
STEP = re.compile(rb"\[\s*(\d+)/\s*(\d+)\]")
FALLBACK = re.compile(r"WARNING: (?P<count>\d+) of \d+ tensor\(s\) required fallback quantization")
NEEDS_IMATRIX = "will require an imatrix"
WITHOUT_IMPORTANCE = re.compile(r"did not find weights for (\S+)")
FAILURE_LINES = 6


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a model will be in another quantisation, as llama-quantize reckons it."""

    type: str
    tensor_types: Mapping[str, str]
    """Type of each tensor, by its name."""
    weight_bytes: int
    parameters: int
    fallbacks: int
    """Tensors whose rows do not fit the type that they should have got, and which got a larger one."""
    needs_imatrix: bool

    @property
    def bits_per_weight(self) -> float:
        return self.weight_bytes * 8 / self.parameters

    @property
    def tensors(self) -> dict[str, int]:
        """How many tensors there are of each type, most first."""
        return dict(Counter(self.tensor_types.values()).most_common())


@dataclass(frozen=True, kw_only=True)
class Quantizer:
    """The program, and how it is to work."""

    program: Path
    imatrix: Path | None = None
    threads: int = 0
    """0: as many as this process may use processors."""

    def forecast(self, session: Session, source: Path, tensors: Sequence[GgufTensor], kind: str) -> Forecast:
        """What would come of `source`, whose tensors are `tensors`; nothing is written. Raises ModelError."""
        result = self._run(session, ["--dry-run"], [str(source), kind], f"the size of {source.name} in {kind}")
        if not result.ok:
            raise explain_failure(result, source, kind)
        return read_forecast(result.error_text, tensors, kind)

    def make(self, session: Session, source: Path, target: Path, kind: str) -> Result:
        """Writes `source` in the quantisation `kind` to `target`; how it ended is for the caller to judge."""
        title = f"{source.name} in {kind}"
        with session.console.progress(f"quantising {title}", unit="tensors") as bar:

            def on_stderr(chunk: bytes) -> None:
                for done, of in STEP.findall(chunk)[-1:]:
                    bar.reach(int(done), int(of))

            # Whether a tensor that is quantised already may be, the caller has asked before.
            words = ["--allow-requantize"]
            return self._run(session, words, [str(source), str(target), kind], title, on_stderr)

    def _run(
        self,
        session: Session,
        options: Sequence[str],
        words: Sequence[str],
        title: str,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Result:
        # The name of the matrix is written into the model as it is given here: without its folder.
        matrix = ["--imatrix", self.imatrix.name] if self.imatrix else []
        threads = self.threads or usable_cores()
        return session.runner.run(
            [self.program, *options, *matrix, *words, str(threads)],
            deadline=Deadline.after(session.settings.timeouts.build, title),
            cwd=self.imatrix.parent if self.imatrix else None,
            on_stderr=on_stderr,
        )


def look_for_quantizer(session: Session) -> BuildLook:
    """The build of llama-quantize for this computer, and whether it is there.

    It is built for every CPU of the arch: what it makes is then the same on all of them. Raises HostUnsupported.
    """
    from native.build.ensure import BuildRequest, look_at_build

    choice = ToolchainChoice(arch=find_host_arch().name, toolchain="zig")
    # It belongs to no folder that somebody works in.
    building = session.with_settings(build_dir=str(session.settings.cache / "host"))
    return look_at_build(building, BuildRequest(target=RECIPE, choice=choice, products=(PRODUCT,)))


def build_quantizer(session: Session) -> Path:
    """The program, which is built when it is not there: that takes minutes. Raises what a build raises."""
    from native.build.ensure import build_what_lacks

    artifact = build_what_lacks(session, look_for_quantizer(session)).artifact
    return artifact.path_of(artifact.product(PRODUCT))


def read_forecast(text: str, tensors: Sequence[GgufTensor], kind: str) -> Forecast:
    """Understands what ``llama-quantize --dry-run`` logs. Raises ModelError when it does not name all `tensors`."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if named := TENSOR_LINE.match(line):
            changed = NEW_TYPE.search(line)
            found[named["name"]] = (changed["after"] if changed else named["before"]).upper()
    if set(found) != {tensor.name for tensor in tensors}:
        raise ModelError(
            f"llama-quantize has told of {len(found)} tensors, but the model has {len(tensors)}.",
            remedy="Please report it with the file's name; --verbose shows the command.",
        )
    fallback = FALLBACK.search(text)
    return Forecast(
        type=kind,
        tensor_types=found,
        weight_bytes=sum(bytes_in(tensor.elements, found[tensor.name]) for tensor in tensors),
        parameters=sum(tensor.elements for tensor in tensors),
        fallbacks=int(fallback["count"]) if fallback else 0,
        needs_imatrix=NEEDS_IMATRIX in text,
    )


def bytes_in(elements: int, kind: str) -> int:
    """Bytes of a tensor of so many elements in a type that its rows fit."""
    entry = next(entry for entry in TENSOR_TYPES.values() if entry.name == kind)
    return elements // entry.block_elements * entry.block_bytes


def is_quantised(kind: str) -> bool:
    """Whether tensors of that type have lost something that no other type could bring back."""
    return any(entry.name == kind and entry.block_elements > 1 for entry in TENSOR_TYPES.values())


def find_without_importance(result: Result) -> set[str]:
    """Names of the tensors for which the importance matrix had nothing."""
    return set(WITHOUT_IMPORTANCE.findall(result.error_text + result.text))


def explain_failure(result: Result, source: Path, kind: str) -> ModelError:
    """The error for a run of llama-quantize that did not succeed; its output says why."""
    lines = [line for line in result.last_lines(40).splitlines() if line.strip() and not TENSOR_LINE.match(line)]
    told = "\n".join(f"    {line}" for line in lines[-FAILURE_LINES:])
    if result.exit_code < 0:
        return ModelError(
            f"llama-quantize was ended by signal {-result.exit_code} while it made {kind} of {source}:\n{told}",
            remedy="Signal 9 often means that this computer's memory is too small: try --threads 1.",
        )
    return ModelError(
        f"llama-quantize could not make {kind} of {source} (status {result.exit_code}):\n{told}",
        remedy="The model may be damaged, or the importance matrix be of another one; `ohforge model.inspect` tells more.",
    )
