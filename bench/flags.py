"""What speaks against a measurement: each flag with the sentence that says why its numbers do not hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

from bench.conditions import Conditions
from bench.series import DECODE, Sample, is_better
from bench.stats import find_outliers, find_trend
from core.files import human_bytes

LOWEST_SHARE = 0.95
"""Of the highest clock of the other repetitions: below it a repetition ran slower than its like."""
OTHER_SHARE = 0.10
"""Of all CPUs, that other programs may use meanwhile."""
LOADED = 0.5
"""Load of a board before the bench, above which it is busy."""
READ_SHARE = 0.10
"""Of a model's file, that may be read from storage in a repetition after the warm-up."""


@dataclass(frozen=True, kw_only=True)
class Flag:
    """One reason. `configuration` is empty when it concerns all of them."""

    name: str
    sentence: str
    configuration: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The samples of one configuration, warm-up left out, in the order in which they were taken."""

    configuration: str
    model_bytes: int
    samples: Sequence[Sample]
    device: str = ""
    """What was asked to compute: ``cpu``, ``nnrt`` or ``nnrt:NAME``; empty where there is no choice."""
    start_below: float | None = None
    """Temperature in °C that the board was to have at each start."""


@dataclass(kw_only=True)
class Span:
    """A time in which a bench went on without a break, and what was seen of the board then."""

    before: Conditions
    looks: list[Conditions] = field(default_factory=list)
    """Of later moments, in order."""
    cpu_seconds: float | None = 0.0
    """What the bench itself has used since `before`; None: nobody counted."""

    def add(self, cpu_seconds: float | None) -> None:
        """Counts what a run has used."""
        known = self.cpu_seconds is not None and cpu_seconds is not None
        self.cpu_seconds = (self.cpu_seconds or 0.0) + (cpu_seconds or 0.0) if known else None


def find_flags(measured: Iterable[Measured], spans: Sequence[Span], unpinned: Sequence[str] = ()) -> list[Flag]:
    """All that speaks against these numbers; `unpinned` are sentences about clocks that were not left alone."""
    found = [
        *(flag for part in measured for flag in _flags_of(part)),
        *(flag for span in spans if span.looks for flag in _flags_in(span)),
        *(Flag(name="unpinned", sentence=sentence) for sentence in unpinned),
    ]
    return list(dict.fromkeys(found))


def _flags_in(span: Span) -> Iterator[Flag]:
    before, after = span.before, span.looks[-1]
    yield from _restarted(span)
    yield from _swapping(before, after)
    yield from _held_down(span)
    yield from _other_load(before, after, span.cpu_seconds)


def notes_on(before: Conditions, *, is_pinned: bool = False) -> list[str]:
    """What a reader must know of the conditions, though it makes no number wrong by itself."""
    if not before.policies:
        return ["the board does not show its clocks (cpufreq): whether they were fixed is not known"]
    loose = [f"{policy.name} ({policy.governor})" for policy in before.policies if not policy.is_fixed]
    notes = [f"the clock is not fixed: {', '.join(loose)} may change it by load"] if loose and not is_pinned else []
    drained = [name for name, supply in before.supplies.items() if supply["status"] == "Discharging"]
    if drained:
        notes.append(f"the board runs on its battery ({', '.join(drained)}), which may hold its clock down")
    if not before.temperatures:
        notes.append("the board does not show its temperature")
    return notes


def _flags_of(part: Measured) -> Iterator[Flag]:
    for test, samples in itertools.groupby(sorted(part.samples, key=lambda sample: sample.test), lambda s: s.test):
        series = sorted(samples, key=lambda sample: sample.position)
        values = [sample.value for sample in series]
        if (change := find_trend(values)) is not None:
            how = "faster" if is_better(change, 0.0, series[0].unit) else "slower"
            yield Flag(
                name="drift",
                configuration=part.configuration,
                sentence=f"{test} became {abs(change):.0%} {how} from the first third of the repetitions to the last",
            )
        if places := find_outliers(values):
            rounds = ", ".join(str(series[place].round) for place in places)
            yield Flag(
                name="outliers",
                configuration=part.configuration,
                sentence=f"{test} of repetition {rounds} lies apart from the others",
            )
    yield from _slowed(part)
    yield from _read_from_storage(part)
    yield from _warm(part)
    yield from _on_another_device(part)


def _slowed(part: Measured) -> Iterator[Flag]:
    """A clock that was lower in one repetition than in another."""
    decoding = [sample for sample in part.samples if sample.test == DECODE] or list(part.samples)
    for name in sorted({name for sample in decoding for name in sample.cpu_hz or ()}):
        clocks = {sample.round: sample.cpu_hz[name] for sample in decoding if sample.cpu_hz and name in sample.cpu_hz}
        highest = max(clocks.values())
        low = {number: clock for number, clock in clocks.items() if clock < LOWEST_SHARE * highest}
        if low:
            yield Flag(
                name="frequency-drop",
                configuration=part.configuration,
                sentence=f"{name} ran at {min(low.values()) / 1e6:.0f} MHz in repetition "
                f"{', '.join(map(str, sorted(low)))}, at {highest / 1e6:.0f} MHz in others",
            )


def _read_from_storage(part: Measured) -> Iterator[Flag]:
    read = [sample.read_bytes for sample in part.samples if sample.read_bytes is not None]
    if read and part.model_bytes and max(read) > READ_SHARE * part.model_bytes:
        yield Flag(
            name="storage",
            configuration=part.configuration,
            sentence=f"up to {human_bytes(max(read))} were read from storage in a repetition, of a model of "
            f"{human_bytes(part.model_bytes)}: storage is measured, not the CPU",
        )


def _swapping(before: Conditions, after: Conditions) -> Iterator[Flag]:
    pages = [
        late - early
        for early, late in ((before.swapped_in, after.swapped_in), (before.swapped_out, after.swapped_out))
        if early is not None and late is not None
    ]
    if sum(pages) > 0:
        yield Flag(name="swap", sentence=f"the board moved {sum(pages)} pages to or from swap meanwhile")


def _warm(part: Measured) -> Iterator[Flag]:
    below = part.start_below
    began = {sample.round: sample.began_at for sample in part.samples if sample.began_at is not None}
    warm = {number: degrees for number, degrees in began.items() if below is not None and degrees >= below}
    if warm:
        yield Flag(
            name="warm-start",
            configuration=part.configuration,
            sentence=f"the board had {max(warm.values()):g} °C at the start of repetition "
            f"{', '.join(map(str, sorted(warm)))}; below {below:g} was asked for",
        )


def _on_another_device(part: Measured) -> Iterator[Flag]:
    used = sorted({sample.device for sample in part.samples if sample.device is not None})
    wanted = part.device.partition(":")[0]
    if wanted and used and used != [wanted]:
        said = f"{', '.join(used)} computed" if used != ["unknown"] else "what computed is not known"
        yield Flag(name="device", configuration=part.configuration, sentence=f"{part.device} was asked for; {said}")


def _restarted(span: Span) -> Iterator[Flag]:
    looks = (span.before, *span.looks)
    times = [look.uptime for look in looks if look.uptime is not None]
    boots = {look.boot for look in looks if look.boot is not None}
    if len(boots) > 1 or any(later < earlier for earlier, later in itertools.pairwise(times)):
        yield Flag(name="restarted", sentence="the board was started anew meanwhile")


def _held_down(span: Span) -> Iterator[Flag]:
    """What the kernel does against heat: it lowers the highest clock, or puts a cooling device to work."""
    for policy in span.before.policies:
        seen = [one.highest_hz for look in span.looks for one in look.policies if one.name == policy.name]
        lowest = min((hertz for hertz in seen if hertz is not None), default=None)
        was = policy.highest_hz
        if was is not None and lowest is not None and lowest < was:
            yield Flag(
                name="throttled",
                sentence=f"the highest clock of {policy.name} went from {was / 1e6:.0f} to {lowest / 1e6:.0f} MHz",
            )
    for name, before in {**dict.fromkeys(span.looks[-1].cooling), **span.before.cooling}.items():
        state = max((look.cooling.get(name) or 0 for look in span.looks), default=0)
        if "cpu" in name.lower() and state > (before or 0):
            yield Flag(name="throttled", sentence=f"the cooling device {name} went to state {state}")


def _other_load(before: Conditions, after: Conditions, cpu_seconds: float | None) -> Iterator[Flag]:
    """CPU time that was not the bench's own; where nobody counts that, the load before it began."""
    times = (before.uptime, after.uptime, before.cpu_busy, after.cpu_busy, before.cores, cpu_seconds)
    known = [time for time in times if time is not None]
    if len(known) == len(times) and known[1] > known[0]:
        began, ended, busy_before, busy_after, cores, own = known
        share = (busy_after - busy_before - own) / max((ended - began) * cores, 1e-9)
        if share > OTHER_SHARE:
            yield Flag(name="other-load", sentence=f"other programs used {share:.0%} of the board's CPUs meanwhile")
    elif before.load is not None and before.load[0] > LOADED:
        yield Flag(name="other-load", sentence=f"the board was busy before the bench began (load {before.load[0]:g})")
