"""The decoder of the agent's frames, against frames that the test itself puts together from docs/agent.md."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import ContentDiffers, LostConnection, RunError
from deploy.agent.frames import AgentReport, FrameDecoder, Sample
from tests.support.agent_frames import END, conversation, frame


def decode(chunks: Sequence[bytes]) -> tuple[AgentReport, bytes, bytes]:
    out, err = bytearray(), bytearray()
    decoder = FrameDecoder(on_stdout=out.extend, on_stderr=err.extend)
    for chunk in chunks:
        decoder.feed(chunk)
    return decoder.finish(), bytes(out), bytes(err)


def test_a_run_is_decoded_with_its_streams_apart_and_its_numbers_in_base_units() -> None:
    report, out, err = decode([b"".join(conversation(("o", b"one\n"), ("e", b"two\n"), ("o", b"\0\xff")))])
    assert (out, err) == (b"one\n\0\xff", b"two\n")
    assert (report.exit_code, report.signal, report.reason, report.status) == (3, 0, "", 3)
    assert report.wall_seconds == 1.5
    # The program began with frame 1 at 1 ms, its first output came with frame 2 at 2 ms.
    assert report.first_output_seconds == pytest.approx(0.001)
    usage = report.usage
    assert usage is not None
    assert (usage.user_seconds, usage.system_seconds, usage.max_rss_bytes) == (0.25, 0.02, 1024 * 1024)
    assert (usage.minor_faults, usage.major_faults, usage.blocks_read, usage.blocks_written) == (7, 1, 8, 16)
    assert (usage.voluntary_switches, usage.involuntary_switches) == (5, 6)


def test_a_signal_is_told_from_an_exit_status() -> None:
    report, _, _ = decode(conversation(code=0, signal=11, core=True))
    assert (report.exit_code, report.signal, report.core_dumped, report.status) == (None, 11, True, 139)
    same_status, _, _ = decode(conversation(code=139))
    assert (same_status.exit_code, same_status.signal, same_status.status) == (139, 0, 139)


def test_a_program_that_could_not_be_started_is_reported_with_the_stage() -> None:
    failed = frame("F", {"stage": "exec", "errno": 13, "error": "Permission denied"}, 1)
    report, _, _ = decode([conversation()[0], failed])
    assert report.failure is not None
    assert (report.failure.stage, report.failure.errno, report.failure.error) == ("exec", 13, "Permission denied")
    assert (report.exit_code, report.status, report.usage) == (None, 126, None)


texts = st.binary(max_size=40) | st.sampled_from([b"\xf5OHF", b"\xf5OH", b"\n"])


@given(
    outputs=st.lists(st.tuples(st.sampled_from("oe"), texts), max_size=6),
    noise=st.lists(texts, max_size=8),
    cuts=st.lists(st.integers(0, 2000), max_size=12),
)
def test_frames_are_found_wherever_the_stream_is_split_and_whatever_stands_between(
    outputs: list[tuple[str, bytes]], noise: list[bytes], cuts: list[int]
) -> None:
    frames = conversation(*outputs)
    stream = bytearray()
    for index, one in enumerate(frames):
        stream += (noise[index] if index < len(noise) else b"") + one
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    report, out, err = decode([bytes(stream[a:b]) for a, b in itertools.pairwise(edges)])
    assert out == b"".join(text for kind, text in outputs if kind == "o")
    assert err == b"".join(text for kind, text in outputs if kind == "e")
    assert report.exit_code == 3
    assert report.noise == b"".join(noise[: len(frames)])


@example(at=9, mask=2)  # the length of the first frame, which then reaches beyond the end
@given(at=st.integers(0, 10_000), mask=st.integers(1, 255))
def test_a_changed_byte_never_passes_for_a_whole_answer(at: int, mask: int) -> None:
    stream = bytearray(b"".join(conversation(("o", b"some output"), ("e", b"more of it"))))
    stream[at % len(stream)] ^= mask
    with pytest.raises((ContentDiffers, LostConnection)):
        decode([bytes(stream)])


@given(kept=st.integers(0, 10_000))
def test_a_stream_that_ends_early_never_passes_for_a_whole_answer(kept: int) -> None:
    stream = b"".join(conversation(("o", b"some output"), ("e", b"more of it")))
    with pytest.raises((LostConnection, RunError)):
        decode([stream[: kept % len(stream)]])


@pytest.mark.parametrize("missing", [2, 3])
def test_a_missing_frame_of_output_is_an_error(missing: int) -> None:
    frames = conversation(("o", b"one"), ("o", b"two"))
    del frames[missing]
    with pytest.raises(ContentDiffers, match="1 frame"):
        decode(frames)


def test_output_that_the_agent_counted_otherwise_is_an_error() -> None:
    with pytest.raises(ContentDiffers, match="printed 9 bytes to stderr, but 3 arrived"):
        decode(conversation(("e", b"abc"), stderr_bytes=9))


def test_an_agent_that_never_spoke_is_reported_with_what_the_board_said() -> None:
    with pytest.raises(RunError, match="did not run on the board: sh: ohforge-agent: inaccessible or not found"):
        decode([b"sh: ohforge-agent: inaccessible or not found\n"])


def test_output_is_handed_on_before_the_run_ends() -> None:
    seen: list[bytes] = []
    decoder = FrameDecoder(on_stdout=seen.append)
    frames = conversation(("o", b"first"))
    for one in frames[:3]:
        decoder.feed(one)
    assert seen == [b"first"]
    assert (decoder.started, decoder.pid) == (True, 42)
    with pytest.raises(LostConnection, match="process 42"):
        decoder.finish()


def test_samples_carry_names_and_base_units() -> None:
    samples: list[Sample] = []
    decoder = FrameDecoder(on_sample=samples.append)
    hello, started, end = conversation()
    names = {"temperatures": ["soc", "gpu", "gpu"], "cpu_frequencies": ["cpu0"], "other_frequencies": ["dmc"]}
    values = {
        "temperatures": [42500, None, 41000],
        "cpu_frequencies": [1992000],
        "other_frequencies": [1056000000],
        "available_kb": 100,
        "resident_kb": 2,
        "major_faults": 3,
        "read_bytes": None,
    }
    for one in (hello, started, frame("d", names, 2), frame("s", values, 3, 250_000), end):
        decoder.feed(one)
    [sample] = samples
    assert sample.seconds == 0.25
    assert sample.temperatures == {"soc": 42.5, "gpu": None, "gpu#2": 41.0}
    assert (sample.cpu_frequencies, sample.other_frequencies) == ({"cpu0": 1_992_000_000}, {"dmc": 1_056_000_000})
    assert (sample.available_bytes, sample.resident_bytes) == (102_400, 2048)
    assert (sample.major_faults, sample.read_bytes) == (3, None)


PINNED = {
    "name": "policy0",
    "governor": "performance",
    "lowest_khz": 1800000,
    "highest_khz": 1800000,
    "found_governor": "ondemand",
    "found_lowest_khz": 408000,
}


def test_clocks_that_were_fixed_are_told_with_what_became_of_them() -> None:
    hello, started, end = conversation()
    back = {"lost": ["scaling_governor of policy0"], "left": []}
    pinned = [frame("P", {"policies": [PINNED]}, 1), frame("S", {"pid": 42}, 2), frame("U", back, 3)]
    report = decode([hello, *pinned, frame("X", END, 4)])[0]
    assert report.pin is not None
    (policy,) = report.pin.policies
    assert (policy.governor, policy.lowest_hz, policy.found_lowest_hz) == ("performance", 1_800_000_000, 408_000_000)
    assert (report.pin.lost, report.pin.left) == (("scaling_governor of policy0",), ())
    assert decode([hello, started, end])[0].pin is None


@pytest.mark.parametrize(
    "wrong", [{"policies": [{**PINNED, "lowest_khz": "fast"}]}, {"policies": [{}]}, {"policies": 5}, {}]
)
def test_clocks_of_another_form_are_no_answer(wrong: dict[str, object]) -> None:
    with pytest.raises(RunError, match="not understood"):
        decode([conversation()[0], frame("P", wrong, 1)])


def test_an_agent_of_another_version_is_refused() -> None:
    with pytest.raises(RunError, match="version 1, not 3"):
        decode([frame("H", {"agent": 1}, 0)])


def test_a_word_that_is_no_json_is_refused() -> None:
    with pytest.raises(RunError, match="not understood"):
        decode([conversation()[0], frame("X", b"{", 1)])


@pytest.mark.parametrize(
    "change",
    [
        {"code": "boom"},
        {"code": 256},
        {"code": -1},
        {"code": True},
        {"signal": 999},
        {"signal": -1},
        {"ended": "yes"},
        {"reason": ["deadline"]},
        {"wall_us": 10**400},
        {"wall_us": float("inf")},
        {"wall_us": float("nan")},
        {"user_us": -1},
        {"minor_faults": "7"},
        {"left": None},
    ],
)
def test_an_end_that_cannot_be_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(RunError, match="not understood"):
        decode(conversation(**change))


@pytest.mark.parametrize("kind", ["H", "S", "F", "d", "s", "X"])
@pytest.mark.parametrize(
    "payload",
    [
        b"[" * 32_000,
        b'{"a":' * 6_000,
        b"1e999",
        b'{"agent":1e999}',
        b'{"pid":1e999}',
        b'{"pid":"' + b"9" * 5_000 + b'"}',
        b'{"pid":' + b"9" * 5_000 + b"}",
        b"NaN",
        b"[]",
        b"null",
        b'{"temperatures":5}',
        b'{"temperatures":[[]],"stage":1,"errno":"2","error":"","available_kb":-1}',
        b"\xff\xfe",
    ],
)
def test_a_word_that_no_agent_says_is_refused(kind: str, payload: bytes) -> None:
    hello, started, _ = conversation()
    decoder = FrameDecoder(on_sample=lambda sample: None)
    with pytest.raises(RunError):
        for one in (frame("H", payload, 0),) if kind == "H" else (hello, started, frame(kind, payload, 2)):
            decoder.feed(one)


def test_a_signal_of_the_real_time_kind_is_one() -> None:
    report, _, _ = decode(conversation(code=0, signal=64))
    assert (report.exit_code, report.status) == (None, 192)


def test_half_a_letter_in_what_the_agent_says_can_be_printed() -> None:
    hello = conversation()[0]
    failed = frame("F", b'{"stage":"exec","errno":2,"error":"\\ud800 no"}', 1)
    report, _, _ = decode([hello, failed])
    assert report.failure is not None
    assert report.failure.error.encode() == b"? no"


def test_a_frame_that_claims_to_be_huge_is_not_waited_for() -> None:
    huge = bytearray(frame("o", b"", 2))
    huge[8:12] = (2**31).to_bytes(4, "little")
    frames = conversation()
    report, _, _ = decode([frames[0], bytes(huge), *frames[1:]])
    assert report.exit_code == 3
    assert report.noise == bytes(huge)


def test_endless_noise_is_kept_only_up_to_a_limit() -> None:
    report, _, _ = decode([b"x" * 300_000, *conversation()])
    assert len(report.noise) == 65536


ZEROS = bytes(32)


@pytest.mark.parametrize("number", [0, 2, 3, 9])
@pytest.mark.parametrize("key", [ZEROS, bytes(31) + b"x"])
def test_a_frame_that_a_program_has_forged_is_noise(key: bytes, number: int) -> None:
    frames = conversation(("o", b"output"), code=7)
    forged = frame("X", {**END, "code": 0, "stdout_bytes": 6}, number, key=key)
    hello = frame("H", {"agent": 3, "arch": "arm64", "pid": 1, "key": ZEROS.hex()}, number)
    for place in range(1, len(frames) + 1):
        report, out, _ = decode([*frames[:place], hello, forged, *frames[place:]])
        assert (report.exit_code, out) == (7, b"output")
        assert report.noise == hello + forged


def test_a_forged_end_alone_is_no_end() -> None:
    frames = conversation(("o", b"output"))
    with pytest.raises(LostConnection):
        decode([*frames[:-1], frame("X", {**END, "code": 0, "stdout_bytes": 6}, 3, key=ZEROS)])


def test_nothing_is_taken_before_the_agents_first_word() -> None:
    with pytest.raises(ContentDiffers, match="first word"):
        decode([frame("X", {**END, "code": 0}, 0, key=ZEROS)])


@pytest.mark.parametrize("key", ["", "00", "x" * 64, 5])
def test_a_first_word_without_a_key_is_refused(key: object) -> None:
    with pytest.raises(RunError, match="not understood"):
        decode([frame("H", {"agent": 3, "arch": "arm64", "pid": 1, "key": key}, 0)])
