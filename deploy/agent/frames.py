"""The stream of frames in which the agent answers for a program; docs/agent.md describes it byte by byte.

A link may put text of its own between frames (a shell's complaint, a line of hdc), cut the stream anywhere or
change bytes in it; and a program may write to the same pipe. Each frame carries a number and a tag, made with a key that
the agent has told before the program began, and the last one tells how many bytes there were, so that an answer is
either whole and the agent's, or known not to be.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from core.errors import ContentDiffers, LostConnection, RunError
from core.process import OnOutput

AGENT_VERSION = 3
MAGIC = b"\xf5OHF"
HEADER = struct.Struct("<4sB3sIIQ8s")
"""Magic, type, zeros, payload length, number, microseconds since the agent began, tag."""
TAG_SIZE = 8
KEY_SIZE = 32
PAYLOAD_LIMIT = 32768
NOISE_LIMIT = 64 * 1024
HIGHEST_SIGNAL = 64
LARGEST_NUMBER = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The board at one moment. Temperatures in °C, frequencies in Hz, memory in bytes; None: the sensor failed."""

    seconds: float
    """Since the agent began, by the board's clock."""
    temperatures: Mapping[str, float | None]
    cpu_frequencies: Mapping[str, int | None]
    other_frequencies: Mapping[str, int | None]
    available_bytes: int
    resident_bytes: int
    """Of the program itself, without what it started, as are the next two."""
    major_faults: int | None
    read_bytes: int | None
    """From storage, page faults included."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What the program used, as the board's kernel counted it, with all that it started and waited for."""

    user_seconds: float
    system_seconds: float
    max_rss_bytes: int
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    blocks_read: int
    blocks_written: int
    """Blocks have 512 bytes."""


@dataclass(frozen=True, kw_only=True)
class PinnedPolicy:
    """CPUs that share one clock, which was fixed while the program ran. Frequencies in Hz."""

    name: str
    governor: str
    lowest_hz: int
    highest_hz: int
    found_governor: str
    found_lowest_hz: int


@dataclass(frozen=True, kw_only=True)
class Pin:
    """What became of the clocks that were to be fixed; of `lost` and `left` each word names a file of a policy."""

    policies: tuple[PinnedPolicy, ...]
    lost: tuple[str, ...] = ()
    """No longer as it was fixed when the program had ended."""
    left: tuple[str, ...] = ()
    """Could not be set back."""


@dataclass(frozen=True, kw_only=True)
class StartFailure:
    """Why the program could not be started: at which stage (``folder``, ``exec`` …), and what the kernel said."""

    stage: str
    errno: int
    error: str


@dataclass(frozen=True, kw_only=True)
class AgentReport:
    """How a program ended. Exactly one of `failure` and `usage` is there."""

    exit_code: int | None = None
    """None when a signal ended it, or when it could not be ended."""
    signal: int = 0
    core_dumped: bool = False
    reason: str = ""
    """Why the agent ended it: ``deadline``, ``reader gone`` or the name of a signal; empty when it ended by itself."""
    wall_seconds: float = 0.0
    usage: Usage | None = None
    failure: StartFailure | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    first_output_seconds: float | None = None
    """From the program's start to its first byte on either stream, by the board's clock."""
    left: int = 0
    """Processes that the program left running, and that were ended after it."""
    survivors: int = 0
    """Processes that could not be ended."""
    samples_lost: int = 0
    pin: Pin | None = None
    noise: bytes = b""
    """What stood between the frames."""

    @property
    def status(self) -> int:
        """The status as a shell gives it: 128 + n for signal n; 126 and 127 when it could not be started."""
        if self.failure is not None:
            return 127 if self.failure.errno == 2 else 126
        return 128 + self.signal if self.signal else self.exit_code or 0


@dataclass
class _Stream:
    hand_on: OnOutput | None
    count: int = 0


@dataclass
class FrameDecoder:
    """Takes the agent's output in chunks of any size and hands on what is in it at once."""

    on_stdout: OnOutput | None = None
    on_stderr: OnOutput | None = None
    on_sample: Callable[[Sample], None] | None = None
    started: bool = False
    """Whether the program runs, or ran."""
    pid: int = 0
    """Of the program on the board; also its session and group."""
    lost: int = 0
    """Frames that arrived damaged or not at all."""
    _pending: bytearray = field(default_factory=bytearray)
    _noise: bytearray = field(default_factory=bytearray)
    _next_number: int = 0
    _key: bytes = b""
    """Told by the agent in its first frame; empty until then."""
    _rejected: int = 0
    """What looked like a whole frame, and had another tag."""
    _start_seconds: float = 0.0
    _first_output: float | None = None
    _pin: Pin | None = None
    _names: dict[str, list[str]] = field(default_factory=dict)
    _last: AgentReport | None = None
    _failure: StartFailure | None = None

    def __post_init__(self) -> None:
        self._streams = {b"o": _Stream(self.on_stdout), b"e": _Stream(self.on_stderr)}

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes."""
        self._pending += chunk
        self._take_frames(final=False)

    def _take_frames(self, *, final: bool) -> None:
        """Takes all whole frames. When no more will come (`final`), one that is not whole is not waited for: its
        length may be what was damaged, and others may stand behind it.
        """
        at = 0
        while (at := self._skip_noise(at)) + HEADER.size <= len(self._pending):
            _, kind, zeros, length, number, micros, tag = HEADER.unpack_from(self._pending, at)
            if zeros != bytes(3) or length > PAYLOAD_LIMIT:
                at = self._reject(at)
                continue
            end = at + HEADER.size + length
            if end > len(self._pending):
                if not final:
                    break
                at = self._reject(at)
                continue
            head = bytes(self._pending[at : at + HEADER.size - TAG_SIZE])
            payload = bytes(self._pending[at + HEADER.size : end])
            if not self._is_the_agents(bytes([kind]), head, payload, tag):
                self._rejected += 1
                at = self._reject(at)
                continue
            self.lost += max(0, number - self._next_number)
            self._next_number = number + 1
            at = end
            self._take(bytes([kind]), payload, micros / 1e6)
        del self._pending[:at]

    def _is_the_agents(self, kind: bytes, head: bytes, payload: bytes, tag: bytes) -> bool:
        """Whether the agent has made the tag. Its first frame brings the key, so before that there is no other frame."""
        if not self._key and kind != b"H":
            return False
        digest = hashlib.sha256(self._key or bytes(KEY_SIZE))
        digest.update(head)
        digest.update(payload)
        return digest.digest()[:TAG_SIZE] == tag

    def finish(self) -> AgentReport:
        """How the program ended, when no more will come.

        Raises LostConnection when the agent's last word did not arrive, RunError when the agent itself did not run,
        ContentDiffers when the stream was changed or has holes: output that was handed on may be wrong then.
        """
        self._take_frames(final=True)
        self._add_noise(bytes(self._pending))
        self._pending.clear()
        noise = self._noise.decode("utf-8", "replace").strip()
        if self._failure is None and self._last is None:
            if self._key:
                raise LostConnection(
                    f"The agent's last word did not arrive: how the program (process {self.pid}) ended is not known."
                )
            if self._rejected:
                raise ContentDiffers("The agent's first word, which all others are proven by, arrived damaged.")
            raise RunError(
                f"The agent did not run on the board{': ' + noise[-500:] if noise else ', and nothing says why'}."
            )
        if self.lost:
            raise ContentDiffers(f"{self.lost} frame(s) of the program's output arrived damaged or not at all.")
        if self._failure is not None or self._last is None:
            return AgentReport(failure=self._failure, noise=bytes(self._noise))
        for name, stream, sent in (
            ("stdout", self._streams[b"o"], self._last.stdout_bytes),
            ("stderr", self._streams[b"e"], self._last.stderr_bytes),
        ):
            if stream.count != sent:
                raise ContentDiffers(f"The program printed {sent} bytes to {name}, but {stream.count} arrived.")
        return dataclasses.replace(self._last, noise=bytes(self._noise))

    def _skip_noise(self, at: int) -> int:
        """The place of the next magic from `at` on; what is before it is noise. A begun magic at the end is kept."""
        found = self._pending.find(MAGIC, at)
        if found < 0:
            found = len(self._pending)
            for length in range(min(len(MAGIC) - 1, found - at), 0, -1):
                if self._pending.endswith(MAGIC[:length]):
                    found -= length
                    break
        self._add_noise(bytes(self._pending[at:found]))
        return found

    def _reject(self, at: int) -> int:
        """Skips what looks like a frame and is none: the next one may begin within it.

        When it was one, and was damaged, its number is missing from the next.
        """
        self._add_noise(MAGIC)
        return at + len(MAGIC)

    def _add_noise(self, text: bytes) -> None:
        self._noise += text[: max(0, NOISE_LIMIT - len(self._noise))]

    def _take(self, kind: bytes, payload: bytes, seconds: float) -> None:
        if kind in self._streams:
            self._take_output(self._streams[kind], payload, seconds)
            return
        try:
            # The agent sends whole numbers only: 1e999 would be infinite.
            value = json.loads(payload, parse_float=_refuse, parse_constant=_refuse)
            self._take_word(kind, value, seconds)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise RunError(f"The agent said something that is not understood: {payload[:200]!r}") from error

    def _take_word(self, kind: bytes, value: Any, seconds: float) -> None:
        match kind:
            case b"H" if not self._key:
                if value["agent"] != AGENT_VERSION:
                    raise RunError(f"The agent on the board has version {value['agent']!r}, not {AGENT_VERSION}.")
                self._key = bytes.fromhex(checked_text(value["key"]))
                if len(self._key) != KEY_SIZE:
                    raise ValueError("a key of another length")
            case b"S":
                self.started, self.pid, self._start_seconds = True, _number(value["pid"]), seconds
            case b"P":
                self._pin = Pin(policies=tuple(map(_pinned, value["policies"])))
            case b"U" if self._pin is not None:
                lost, left = (tuple(map(checked_text, value[key])) for key in ("lost", "left"))
                self._pin = dataclasses.replace(self._pin, lost=lost, left=left)
            case b"F":
                self._failure = StartFailure(
                    stage=checked_text(value["stage"]),
                    errno=_number(value["errno"]),
                    error=checked_text(value["error"]),
                )
            case b"d":
                self._names = {key: _numbered(names) for key, names in value.items()}
            case b"s" if self.on_sample is not None:
                self.on_sample(self._sample(value, seconds))
            case b"X":
                self._last = self._report(value)

    def _take_output(self, stream: _Stream, payload: bytes, seconds: float) -> None:
        if self._first_output is None:
            self._first_output = max(0.0, seconds - self._start_seconds)
        stream.count += len(payload)
        if stream.hand_on is not None:
            stream.hand_on(payload)

    def _sample(self, value: Mapping[str, Any], seconds: float) -> Sample:
        def named(key: str, factor: float) -> dict[str, Any]:
            numbers = zip(self._names.get(key, ()), value[key], strict=False)
            return {
                name: None if number is None else _number(number, -LARGEST_NUMBER) * factor for name, number in numbers
            }

        return Sample(
            seconds=seconds,
            temperatures=named("temperatures", 0.001),
            cpu_frequencies=named("cpu_frequencies", 1000),
            other_frequencies=named("other_frequencies", 1),
            available_bytes=_number(value["available_kb"]) * 1024,
            resident_bytes=_number(value["resident_kb"]) * 1024,
            major_faults=_number_or_none(value["major_faults"]),
            read_bytes=_number_or_none(value["read_bytes"]),
        )

    def _report(self, last: Mapping[str, Any]) -> AgentReport:
        same = [field.name for field in dataclasses.fields(Usage) if field.name in last]
        code, ended_by = _number(last["code"], 0, 255), _number(last["signal"], 0, HIGHEST_SIGNAL)
        return AgentReport(
            exit_code=code if _flag(last["ended"]) and not ended_by else None,
            signal=ended_by,
            core_dumped=_flag(last["core"]),
            reason=checked_text(last["reason"]),
            wall_seconds=_number(last["wall_us"]) / 1e6,
            usage=Usage(
                user_seconds=_number(last["user_us"]) / 1e6,
                system_seconds=_number(last["system_us"]) / 1e6,
                max_rss_bytes=_number(last["max_rss_kb"]) * 1024,
                **{name: _number(last[name]) for name in same},
            ),
            first_output_seconds=self._first_output,
            stdout_bytes=_number(last["stdout_bytes"]),
            stderr_bytes=_number(last["stderr_bytes"]),
            left=_number(last["left"]),
            survivors=_number(last["survivors"]),
            samples_lost=_number(last["samples_lost"]),
            pin=self._pin,
        )


def _pinned(value: Mapping[str, Any]) -> PinnedPolicy:
    return PinnedPolicy(
        name=checked_text(value["name"]),
        governor=checked_text(value["governor"]),
        lowest_hz=_number(value["lowest_khz"]) * 1000,
        highest_hz=_number(value["highest_khz"]) * 1000,
        found_governor=checked_text(value["found_governor"]),
        found_lowest_hz=_number(value["found_lowest_khz"]) * 1000,
    )


def _refuse(text: str) -> Any:
    raise ValueError(f"{text} is no whole number")


def _number(value: Any, low: int = 0, high: int = LARGEST_NUMBER) -> int:
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{value!r} is no number from {low} to {high}")
    return value


def _number_or_none(value: Any) -> int | None:
    return None if value is None else _number(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def checked_text(value: Any) -> str:
    """`value` as a text that can be written anywhere: JSON may name halves of letters, which no encoding has. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value.encode("utf-8", "replace").decode()


def _numbered(names: Any) -> list[str]:
    """`names`, with a number behind each that was there before: boards have several zones of one name."""
    if not isinstance(names, list):
        raise TypeError(f"{names!r} is no list of names")
    seen: dict[str, int] = {}
    unique = []
    for name in map(checked_text, names):
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return unique
