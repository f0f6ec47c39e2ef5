"""The samples of a bench as its results: a few numbers for each configuration and test."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.flags import Flag
from bench.plan import LEAST_ROUNDS, Configuration
from bench.series import Sample
from bench.stats import Summary, summarise


@dataclass(frozen=True, kw_only=True)
class Result:
    """All samples of one configuration and test that count."""

    configuration: Configuration
    test: str
    tokens: int | None
    summary: Summary

    @property
    def spread(self) -> float:
        """Half of the median's interval, as a share; infinite where there is none yet."""
        return self.summary.spread if self.summary.spread is not None else math.inf

    def as_json(self) -> dict[str, Any]:
        configuration = self.configuration
        return {
            "configuration": configuration.name,
            "model": configuration.model,
            "threads": configuration.threads,
            "settings": dict(configuration.settings),
            "test": self.test,
            "tokens": self.tokens,
            **self.summary.as_json(),
        }


def samples_of(samples: Sequence[Sample], configurations: Sequence[Configuration]) -> dict[Configuration, list[Sample]]:
    """Those that count, in the order in which they were taken."""
    found: dict[Configuration, list[Sample]] = {configuration: [] for configuration in configurations}
    for sample in samples:
        if sample.counts:
            found[sample.configuration].append(sample)
    return found


def results_of(measured: Mapping[Configuration, Sequence[Sample]], tests: Sequence[str]) -> list[Result]:
    """Of each configuration and test that has samples."""
    return [
        Result(
            configuration=configuration,
            test=test,
            tokens=of_test[0].tokens,
            summary=summarise([sample.value for sample in of_test], of_test[0].unit),
        )
        for configuration, samples in measured.items()
        for test in tests
        if (of_test := [sample for sample in samples if sample.test == test])
    ]


def imprecise(results: Sequence[Result], within: float | None) -> Iterator[Flag]:
    """Medians that are not known as well as was asked for."""
    for result in results:
        summary, test = result.summary, result.test
        known = f"±{result.spread:.1%}" if summary.spread is not None else "nothing that can be told"
        if summary.n < LEAST_ROUNDS:
            sentence = f"{test} has {summary.n} sample{'s' if summary.n > 1 else ''}; the interval of a median takes {LEAST_ROUNDS}"
        elif within is not None and result.spread > within:
            sentence = f"the median of {test} is known within {known} only; ±{within:.1%} was asked for"
        else:
            continue
        yield Flag(name="imprecise", sentence=sentence, configuration=result.configuration.name)
