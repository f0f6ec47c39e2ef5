"""``model.quantize``: a GGUF model in other quantisations, made on this computer by the recipe's own llama-quantize."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.deadline import Deadline
from core.dry import Would
from core.errors import ModelError, NotEnoughSpace, UsageError, unknown_name
from core.files import atomic_path, human_bytes, require_space, sha256_file, sha256_text
from core.locks import hold
from core.session import Session
from native.formats.gguf import read_gguf
from native.models.gguf_model import IMPORTANCE, PIECE_NAME, GgufModel, find_role, read_gguf_model, require_runnable
from native.models.inspect import model_kind
from native.models.models import locate_model, would_locate
from native.models.quantizer import (
    ALIASES,
    QUANTISATIONS,
    Forecast,
    Quantizer,
    build_quantizer,
    explain_failure,
    find_without_importance,
    is_quantised,
    look_for_quantizer,
)

OWN_TYPE = re.compile(rf"[-._](?:{'|'.join([*QUANTISATIONS, *ALIASES])})$", re.IGNORECASE)
"""The end of a name that says in which quantisation the file is."""
HEADER_GROWTH = 1024
"""Bytes; two keys may be added, and the name of an importance matrix."""


@dataclass(frozen=True, kw_only=True)
class QuantizeRequest:
    """What a user asked for."""

    model: str
    """Path of a GGUF file, the first one of a split model, or a name of `native/models/models.yaml`."""
    types: tuple[str, ...]
    folder: str = ""
    """Where the models shall lie; empty: beside the one they are made of."""
    imatrix: str = ""
    allow_requantize: bool = False
    """Whether it is right to make them of a model that is quantised already."""
    force: bool = False
    """Whether files that are there already may be written over."""
    threads: int = 0


@dataclass(frozen=True, kw_only=True)
class Quantised:
    """One quantisation of the model: as it will be, or as it was made."""

    forecast: Forecast
    path: Path
    size: int
    """Bytes of the whole file; until it is made, to some hundred bytes."""
    seconds: float | None = None
    """None: it is not made."""
    sha256: str = ""

    def as_json(self) -> dict[str, Any]:
        forecast = self.forecast
        return {
            "type": forecast.type,
            "path": str(self.path),
            "size": self.size,
            "weight_bytes": forecast.weight_bytes,
            "bits_per_weight": round(forecast.bits_per_weight, 4),
            "tensors": forecast.tensors,
            "fallbacks": forecast.fallbacks,
            "made": self.seconds is not None,
            "seconds": round(self.seconds, 3) if self.seconds is not None else None,
            "sha256": self.sha256 or None,
        }


@dataclass(frozen=True, kw_only=True)
class QuantizeOutcome:
    """A model and its quantisations."""

    source: Path
    model: GgufModel
    quantised: tuple[Quantised, ...]

    def as_json(self) -> dict[str, Any]:
        info = self.model.info
        return {
            "source": {
                "path": str(self.source),
                "type": info.file_type,
                "size": info.file_size,
                "weight_bytes": info.weight_bytes,
                "bits_per_weight": round(info.bits_per_weight, 4),
                "parameters": info.parameters,
            },
            "quantised": [entry.as_json() for entry in self.quantised],
        }


def forecast_quantisations(session: Session, request: QuantizeRequest) -> QuantizeOutcome:
    """What `quantize_model` would make, to the byte of weights; llama-quantize is built for it, nothing else is written.

    Raises as `quantize_model`.
    """
    plan = _look(session, request)
    return _forecast(session, plan, _get_quantizer(session, plan))


def quantize_model(session: Session, request: QuantizeRequest) -> QuantizeOutcome:
    """Makes the quantisations one after the other; each file is there as a whole or not at all.

    Raises UsageError (types, files that are there already, a model that is quantised already), ModelError for what is
    no model or cannot be quantised, NotEnoughSpace, and what building llama-quantize raises.
    """
    plan = _look(session, request)
    _refuse_what_is_there(plan)
    quantizer = _get_quantizer(session, plan)
    foreseen = _forecast(session, plan, quantizer)
    for entry in foreseen.quantised:
        if entry.forecast.needs_imatrix:
            raise UsageError(
                f"{entry.forecast.type} is so small that it takes an importance matrix.",
                remedy="Give the model's own with --imatrix FILE (llama-imatrix makes them), or take a larger type.",
            )
    require_space(plan.folder, sum(entry.size for entry in foreseen.quantised), "Quantising")
    made = [_make(session, plan, quantizer, entry) for entry in foreseen.quantised]
    return replace(foreseen, quantised=tuple(made))


def would_quantize(session: Session, request: QuantizeRequest) -> list[Would]:
    """What `quantize_model` would do; sizes are known when the model and llama-quantize are there."""
    from native.build.ensure import would_build

    types = read_types(request.types)
    fetched = [entry for entry in would_locate(session, request.model) if entry.action != "use"]
    if fetched:
        made = [Would(action="make", what=f"{request.model} in {kind}") for kind in types]
        return [*fetched, *would_build(session, look_for_quantizer(session)), *made]
    plan = _look(session, request)
    _refuse_what_is_there(plan)
    look = look_for_quantizer(session)
    building = would_build(session, look)
    if look.artifact is None:
        return [*building, *(Would(action="make", what=path.name, where=str(plan.folder)) for path in plan.targets)]
    foreseen = _forecast(session, plan, _get_quantizer(session, plan))
    made = [
        Would(action="make", what=entry.path.name, size=entry.size, where=str(plan.folder))
        for entry in foreseen.quantised
    ]
    return [*building, *made]


def read_types(names: Sequence[str]) -> tuple[str, ...]:
    """The types of files that are meant. Raises UnknownName with the nearest, UsageError for one that is named twice."""
    known = {name.casefold(): name for name in QUANTISATIONS} | {
        alias.casefold(): name for alias, name in ALIASES.items()
    }
    found = []
    for name in filter(None, (name.strip() for name in names)):
        kind = known.get(name.casefold())
        if kind is None:
            raise unknown_name("quantisation", name.upper(), [*QUANTISATIONS, *ALIASES])
        if kind in found:
            raise UsageError(f"{kind} is named twice.", remedy="")
        found.append(kind)
    if not found:
        raise UsageError("No quantisation was named.", remedy="Name some with --to, such as --to Q4_K_M,Q8_0.")
    return tuple(found)


# before it -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Plan:
    source: Path
    model: GgufModel
    folder: Path
    types: tuple[str, ...]
    targets: tuple[Path, ...]
    imatrix: Path | None
    request: QuantizeRequest


def _look(session: Session, request: QuantizeRequest) -> _Plan:
    """All that can be said before anything is built. Raises as `quantize_model`."""
    types = read_types(request.types)
    if request.threads < 0:
        raise UsageError(f"--threads {request.threads} cannot be.", remedy="")
    named = not Path(request.model).expanduser().is_file()
    source = locate_model(session, request.model).absolute()
    if model_kind(source) != "gguf":
        raise ModelError(
            f"{source} is no GGUF model; llama-quantize takes no other.",
            remedy="Models for MindSpore Lite are quantised by its converter.",
        )
    model = read_gguf_model(source)
    require_runnable(source, model.info)
    _check_source(source, model, request)
    folder = Path(request.folder).expanduser().absolute() if request.folder else Path.cwd() if named else source.parent
    targets = tuple(folder / _name_of(source, kind) for kind in types)
    if source in targets:
        raise UsageError(f"{source} has that type already, and would be written over.", remedy="Leave it out of --to.")
    return _Plan(
        source=source,
        model=model,
        folder=folder,
        types=types,
        targets=targets,
        imatrix=_read_imatrix(request.imatrix) if request.imatrix else None,
        request=request,
    )


def _check_source(source: Path, model: GgufModel, request: QuantizeRequest) -> None:
    quantised = [tensor for tensor in model.info.tensors if is_quantised(tensor.type)]
    if quantised and not request.allow_requantize:
        kinds = ", ".join(dict.fromkeys(tensor.type for tensor in quantised))
        raise UsageError(
            f"{source} is quantised already: {len(quantised)} of its {len(model.info.tensors)} tensors are {kinds}. What "
            "was lost then would be lost once more.",
            remedy="Take the model in F16, BF16 or F32; for a try, --allow-requantize does it all the same.",
        )


def _read_imatrix(name: str) -> Path:
    """The importance matrix, a GGUF file or one of the older form, which has no mark. Raises UsageError, ModelError."""
    path = Path(name).expanduser().absolute()
    if not path.is_file():
        raise UsageError(
            f"There is no importance matrix {path}.", remedy="llama-imatrix makes them of a model and a text."
        )
    with path.open("rb") as file:
        is_gguf = file.read(4) == b"GGUF"
    if is_gguf and find_role(read_gguf(path)) != IMPORTANCE:
        raise ModelError(f"{path} is no importance matrix.", remedy="llama-imatrix makes them of a model and a text.")
    return path


def _name_of(source: Path, kind: str) -> str:
    """``model-F16.gguf`` becomes ``model-Q8_0.gguf``; the sign before the type stays what it was."""
    piece = PIECE_NAME.fullmatch(source.name)
    stem = piece["stem"] if piece else source.stem
    own = OWN_TYPE.search(stem)
    return f"{stem[: own.start()]}{stem[own.start()]}{kind}.gguf" if own else f"{stem}-{kind}.gguf"


def _refuse_what_is_there(plan: _Plan) -> None:
    there = [path for path in plan.targets if path.exists()]
    if there and not plan.request.force:
        raise UsageError(
            f"{', '.join(map(str, there))}: there already.",
            remedy="Name another folder with --output, or let it be written over with --force.",
        )


def _get_quantizer(session: Session, plan: _Plan) -> Quantizer:
    return Quantizer(program=build_quantizer(session), imatrix=plan.imatrix, threads=plan.request.threads)


def _forecast(session: Session, plan: _Plan, quantizer: Quantizer) -> QuantizeOutcome:
    info = plan.model.info
    quantised = []
    for kind, path in zip(plan.types, plan.targets, strict=True):
        forecast = quantizer.forecast(session, plan.source, info.tensors, kind)
        size = forecast.weight_bytes + info.data_offset + HEADER_GROWTH
        quantised.append(Quantised(forecast=forecast, path=path, size=size))
    return QuantizeOutcome(source=plan.source, model=plan.model, quantised=tuple(quantised))


# making --------------------------------------------------------------------------------------------


def _make(session: Session, plan: _Plan, quantizer: Quantizer, entry: Quantised) -> Quantised:
    """Writes one file, and looks at it before it gets its name."""
    target, forecast = entry.path, entry.forecast
    began = time.monotonic()
    lock = session.settings.cache / "quantize" / f"{sha256_text(str(target))[:16]}.lock"
    deadline = Deadline.after(session.settings.timeouts.lock, target.name)
    with hold(lock, deadline, session.console.info):
        _refuse_what_is_there(replace(plan, targets=(target,)))  # Another process may have made it meanwhile.
        with atomic_path(target) as fresh:
            result = quantizer.make(session, plan.source, fresh, forecast.type)
            if not result.ok:
                _refuse_full_disk(fresh, entry.size)
                raise explain_failure(result, plan.source, forecast.type)
            written = read_gguf(fresh)
            if {tensor.name: tensor.type for tensor in written.tensors} != forecast.tensor_types:
                raise ModelError(
                    f"llama-quantize has written other types of tensors for {forecast.type} than it had foreseen.",
                    remedy="Please report it with the file's name.",
                )
            _judge_importance(session, plan, forecast, find_without_importance(result))
            digest = sha256_file(fresh)
    seconds = time.monotonic() - began
    session.console.info(f"{target}  {human_bytes(written.file_size)} in {seconds:.1f} s")
    return replace(entry, size=written.file_size, seconds=seconds, sha256=digest)


def _refuse_full_disk(fresh: Path, wanted: int) -> None:
    """Raises NotEnoughSpace when what is still to be written had no room; the program says only that a write failed."""
    missing = wanted - HEADER_GROWTH - fresh.stat().st_size
    if missing > 0 and shutil.disk_usage(fresh.parent).free < missing:
        raise NotEnoughSpace(
            f"The disk that holds {fresh.parent} became full; nothing was kept of the file.",
            remedy="Free some space, or name another folder with --output.",
        )


def _judge_importance(session: Session, plan: _Plan, forecast: Forecast, without: set[str]) -> None:
    """Says how much of the model the importance matrix did not cover; llama-quantize goes on in silence."""
    before = {tensor.name: tensor.type for tensor in plan.model.info.tensors}
    changed = {name for name, kind in forecast.tensor_types.items() if kind != before[name]}
    missing = changed & without
    if plan.imatrix is None or not missing:
        return
    if missing == changed:
        raise ModelError(
            f"{plan.imatrix} has nothing for any tensor of {plan.source}.",
            remedy="It is of another model; give the one that was made of this model, or none.",
        )
    session.console.warn(f"the importance matrix has nothing for {len(missing)} of {len(changed)} tensors")
