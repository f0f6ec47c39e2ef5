"""What speaks against a measurement, for people who have not read the documentation: a title, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class FlagWords:
    title: str
    advice: str


WORDS: Mapping[str, FlagWords] = {
    "drift": FlagWords(
        title="It did not stay as fast as it began",
        advice="Let the board cool down or warm up first, and fix its clock.",
    ),
    "outliers": FlagWords(
        title="Some samples lie far from the others",
        advice="Look for what else ran at that time, and measure again.",
    ),
    "frequency-drop": FlagWords(
        title="The CPU ran at a lower clock for a part of the time",
        advice="Fix the clock, or lower the highest one to what the board can hold.",
    ),
    "throttled": FlagWords(
        title="The board slowed itself down against heat",
        advice="Cool it, or measure at a clock that it can hold.",
    ),
    "storage": FlagWords(
        title="The model was read from storage again and again",
        advice="It does not fit into memory: take a smaller quantisation; ohforge model.fit tells which one fits.",
    ),
    "swap": FlagWords(
        title="The board moved memory to its swap space",
        advice="End other programs, or take a smaller model or context.",
    ),
    "other-load": FlagWords(
        title="Something else used the CPU as well",
        advice="End other programs on the board, or wait until they have ended.",
    ),
    "warm-start": FlagWords(
        title="The board was warmer than it should have been when a repetition began",
        advice="Allow more time for cooling, or a higher temperature.",
    ),
    "unpinned": FlagWords(
        title="Something changed the clock that had been fixed",
        advice="Look for a power manager on the board, and measure again.",
    ),
    "device": FlagWords(
        title="Another device computed than the one that was asked for",
        advice="Look at the run's log for why, or ask for the device that did compute.",
    ),
    "restarted": FlagWords(
        title="The board was started anew meanwhile",
        advice="Look at its power supply and its log, and measure again.",
    ),
    "imprecise": FlagWords(
        title="Too few samples for how much they vary",
        advice="Allow more repetitions or more time.",
    ),
}


def words_of(name: str) -> FlagWords:
    """Those of a flag; of one that is not known here, its name."""
    return WORDS.get(name) or FlagWords(title=name.replace("-", " ").capitalize(), advice="")
