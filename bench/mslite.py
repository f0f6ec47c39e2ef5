"""``bench.mslite``: the time of one inference with a MindSpore Lite model, by the loops of our mslite program."""

from __future__ import annotations

import dataclasses
import re
import statistics
from collections.abc import Sequence

from bench.measure import measure, would_measure
from bench.plan import Configuration, Plan, Value, read_axis
from bench.request import BenchOutcome, BenchRequest
from bench.series import Timing
from core.dry import Would
from core.errors import RunError, UsageError
from core.session import Session
from native.recipe.runspec import RunSpec

PREDICT = "predict"
LOOP = re.compile(r"^loop \d+: ([\d.]+) ms\r?$", re.MULTILINE)
DEVICE = re.compile(r"cpu|nnrt(:.+)?")
PROBE_LOOPS, MOST_LOOPS = 3, 100_000


def measure_mslite(session: Session, request: BenchRequest) -> BenchOutcome:
    """As `bench.llama.measure_llama`, of ``.ms`` models."""
    return measure(session, request, Mslite())


def would_measure_mslite(session: Session, request: BenchRequest) -> list[Would]:
    """What `measure_mslite` would do; `session` is a dry one. Raises what its looks raise."""
    return would_measure(session, request, Mslite())


def check_loops(loops: int, warm_up: int) -> None:
    """Raises UsageError for counts that the program does not take."""
    if not 1 <= loops <= MOST_LOOPS or not 0 <= warm_up <= MOST_LOOPS:
        raise UsageError(
            f"--loops {loops} with --warm-up {warm_up} cannot be run.",
            remedy=f"Both are counts up to {MOST_LOOPS}; at least one loop is timed.",
        )


def read_axes(*, device: str = "", fp16: str = "") -> dict[str, tuple[Value, ...]]:
    """The settings whose flags were given, each with its values. Raises UsageError."""
    devices = tuple(dict.fromkeys(word.strip() for word in device.split(",")))
    if not all(DEVICE.fullmatch(word) for word in devices):
        raise UsageError(f"--device {device!r} names no device.", remedy="Write cpu, nnrt or nnrt:NAME.")
    halves = read_axis("--fp16", fp16, known=("on", "off"))
    return {"device": devices, **({"fp16": halves} if halves else {})}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mslite:
    """``mslite --warmup W --loops N``: a sample is the median of its loops, all of which are kept; inputs come from a seed."""

    name: str = "mslite"
    product: str = "mslite/mslite"
    kind: str = "ms"

    def spec(self) -> RunSpec | None:
        from native.recipe.recipe import recipe_for_model

        # What it computes is the same each time, and need not be fetched.
        return dataclasses.replace(recipe_for_model(self.kind).run_for(self.kind), outputs=())

    def tests(self, plan: Plan) -> tuple[str, ...]:
        return (PREDICT,)

    def words(self, file: str, configuration: Configuration, plan: Plan) -> Sequence[str]:
        spec = self.spec()
        assert spec is not None
        settings = {{"fp16": "half"}.get(name, name): value for name, value in configuration.settings}
        counts = {"threads": configuration.threads, "loops": plan.loops, "warmup": plan.warm_up}
        return spec.command(file, {**counts, **settings})

    def shorten(self, plan: Plan) -> Plan:
        return dataclasses.replace(plan, loops=min(plan.loops, PROBE_LOOPS), warm_up=min(plan.warm_up, 1))

    def read(self, text: str) -> list[Timing]:
        loops = tuple(float(found) for found in LOOP.findall(text))
        if not loops or min(loops) <= 0:
            raise RunError("mslite ended well, but printed no times of its loops.")
        return [Timing(test=PREDICT, tokens=None, seconds=statistics.median(loops) / 1000, loops_ms=loops)]

    def computing(self, configuration: Configuration, plan: Plan, timings: Sequence[Timing]) -> float:
        return (plan.loops + plan.warm_up) * timings[0].seconds
