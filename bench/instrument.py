"""What measures: a program of a recipe that is run on a board once for each repetition, and says what it timed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from bench.plan import Configuration, Plan
from bench.series import Timing

if TYPE_CHECKING:
    from native.models.models import Model
    from native.recipe.runspec import RunSpec


class Instrument(Protocol):
    """One way to measure. The loop around it (`bench/measure.py`) is the same for all."""

    @property
    def name(self) -> str:
        """In the names of records, such as ``llama``."""

    @property
    def product(self) -> str:
        """Recipe and product, such as ``llama/llama-bench``."""

    @property
    def kind(self) -> str:
        """Of the models that it takes: ``gguf`` or ``ms``."""

    def spec(self) -> RunSpec | None:
        """How the recipe has its output understood and its environment set; None: neither is needed."""

    def tests(self, plan: Plan) -> tuple[str, ...]:
        """What one repetition times."""

    def words(self, file: str, configuration: Configuration, plan: Plan) -> Sequence[str]:
        """The program's arguments for one repetition with a model of that name on the board."""

    def shorten(self, plan: Plan) -> Plan:
        """The plan of a run that is only to tell how long others will take, and which thread count is best."""

    def read(self, text: str) -> list[Timing]:
        """What it printed. Raises RunError for what cannot be understood."""

    def computing(self, configuration: Configuration, plan: Plan, timings: Sequence[Timing]) -> float:
        """Seconds of a repetition in which it computes, with what it does before it measures."""


def check_model(instrument: Instrument, model: Model) -> Model:
    """Raises UsageError for a model of another kind."""
    from core.errors import UsageError

    if model.kind != instrument.kind:
        other = {"gguf": "bench.llama", "ms": "bench.mslite"}.get(model.kind)
        raise UsageError(
            f"{model.path} is a .{model.kind} model; bench.{instrument.name} measures .{instrument.kind} models.",
            remedy=f"Use `ohforge {other}`." if other else "",
        )
    return model
