"""bench.endpoint.stream: lines and events out of chunks that break anywhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.endpoint import stream
from bench.endpoint.stream import END, read_events
from core.errors import UnreadableAnswer


def events_of(*chunks: bytes) -> list[object]:
    return [event for _, event in read_events(chunks) if event is not None]


STREAM = 'data: {"text": "é 八"}\r\n\r\n: ping\n\ndata:{"text": "b"}\n\ndata: [DONE]\n\n'.encode()


@given(cuts=st.lists(st.integers(0, len(STREAM))))
def test_events_are_the_same_however_the_network_cuts_them(cuts: list[int]) -> None:
    places = sorted({0, *cuts, len(STREAM)})
    chunks = [STREAM[start:end] for start, end in itertools.pairwise(places)]
    assert events_of(*chunks) == [{"text": "é 八"}, {"text": "b"}, END]


def test_each_event_has_the_time_at_which_its_last_byte_came() -> None:
    times = iter([1.0, 2.0, 3.0])
    chunks = [b'data: {"a"', b": 1}\n", b'data: {"b": 2}\n']
    found = [(at, event) for at, event in read_events(chunks, lambda: next(times)) if event is not None]
    assert found == [(2.0, {"a": 1}), (3.0, {"b": 2})]


def test_half_a_line_at_the_end_is_no_event() -> None:
    assert events_of(b'data: {"a": 1}\n\ndata: {"b"') == [{"a": 1}]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"data: {text: 1}\n", "no JSON: '{text: 1}'"),
        (b"data: [1, 2]\n", "no JSON object"),
        (b"Internal Server Error\n", "no event: 'Internal Server Error'"),
        (b'data: "\xff\xfe"\n', "no JSON"),
        (b"data: " + b"[" * 100_000 + b"\n", "no JSON"),
        (b'data: {"a": ' + b"9" * 5000 + b"}\n", "no JSON"),
        (b"\x1b[2J bad\n", "'\\\\x1b[2J bad'"),
    ],
)
def test_a_line_that_is_no_event_is_shown_and_refused(line: bytes, said: str) -> None:
    with pytest.raises(UnreadableAnswer) as refused:
        events_of(line)
    assert said in refused.value.message
    assert len(refused.value.message) < 400


def test_a_line_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "LONGEST_LINE", 1000)
    taken = 0

    def endless() -> Iterable[bytes]:
        nonlocal taken
        while True:
            taken += 100
            yield b"x" * 100

    with pytest.raises(UnreadableAnswer, match="line without end"):
        list(read_events(endless()))
    assert taken == 1100


def test_an_error_line_of_older_servers_is_an_error_event() -> None:
    assert events_of(b'error: {"message": "no slot"}\n') == [{"error": {"message": "no slot"}}]
