"""bench.endpoint: the client against a server on loopback that answers well and badly."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate

import pytest

from bench.endpoint.answer import Ask, Piece
from bench.endpoint.client import KEY_VARIABLE, Endpoint, check_address
from bench.endpoint.interfaces import Interface, LlamaCompletion, OpenAiChat, OpenAiCompletion
from core.deadline import Deadline
from core.errors import (
    AnswerCut,
    EmptyAnswer,
    EndpointError,
    EndpointRefused,
    EndpointSilent,
    EndpointUnreached,
    LimitIgnored,
    NoStream,
    Offline,
    OhforgeError,
    RateLimited,
    UnreadableAnswer,
    UsageError,
)
from core.patience import Patience
from core.session import Session
from tests.shared.model_server import ModelServer

WORDS = ["She", " sells", " 9", " eggs", " for", " \\boxed{", "18", "}"]
INTERFACES = [LlamaCompletion(), OpenAiCompletion(), OpenAiChat()]
CHAT = ({"role": "user", "content": "How many?"},)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(answer=lambda prompt: WORDS) as server:
        yield server


@pytest.fixture
def reach(session: Session, server: ModelServer) -> Iterator[Callable[..., Endpoint]]:
    opened: list[Endpoint] = []

    def make(interface: Interface | None = None, **options: object) -> Endpoint:
        chosen: dict[str, object] = {"patience": Patience(pause=0.001, times=3), **options}
        opened.append(Endpoint(session, server.url, interface=interface, model="stub", **chosen))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for endpoint in opened:
        endpoint.close()


def ask_of(interface: Interface, max_tokens: int = 100) -> Ask:
    if isinstance(interface, OpenAiChat):
        return Ask(messages=CHAT, max_tokens=max_tokens)
    return Ask(prompt="How many?", max_tokens=max_tokens)


@pytest.mark.parametrize("interface", INTERFACES)
def test_an_answer_comes_in_pieces_with_their_times_and_the_reason_of_its_end(
    interface: Interface, reach: Callable[..., Endpoint]
) -> None:
    heard: list[Piece] = []
    answer = reach(interface).answer(ask_of(interface), heard.append)
    assert [piece.text for piece in answer.pieces] == WORDS
    assert list(answer.pieces) == heard
    assert (answer.finish, answer.generated, answer.counted_by) == ("stop", 8, "server")
    assert answer.has_token_in_each_piece
    assert not answer.is_cut
    times = [piece.at for piece in answer.pieces]
    assert times == sorted(times)
    assert 0 < times[0] <= times[-1] <= answer.seconds


@pytest.mark.parametrize("interface", INTERFACES)
def test_an_answer_that_the_limit_ends_is_cut(interface: Interface, reach: Callable[..., Endpoint]) -> None:
    answer = reach(interface).answer(ask_of(interface, max_tokens=3))
    assert answer.text == "She sells 9"
    assert (answer.finish, answer.generated, answer.is_cut) == ("length", 3, True)


def test_a_llama_server_gets_ids_and_gives_ids_and_its_own_clock(
    server: ModelServer, reach: Callable[..., Endpoint]
) -> None:
    answer = reach().answer(Ask(prompt=(82, 83), max_tokens=4, seed=7))
    body = server.asked()[0].body
    assert body["prompt"] == [82, 83]
    assert (body["cache_prompt"], body["temperature"], body["seed"], body["n_predict"]) == (False, 0, 7, 4)
    assert answer.tokens == (1001, 1002, 1003, 1004)
    assert [piece.server_ms for piece in answer.pieces] == [0.001, 10.001, 20.001, 30.001]
    assert (answer.prompt_tokens, answer.cached_tokens) == (2, 0)
    assert answer.timings["prompt_ms"] == 4.0


def test_the_token_that_ends_an_answer_needs_no_piece(server: ModelServer, reach: Callable[..., Endpoint]) -> None:
    server.counts_end = True
    whole, cut = (reach(OpenAiChat()).answer(Ask(messages=CHAT, max_tokens=limit)) for limit in (100, 5))
    assert (whole.generated, len(whole.pieces), whole.has_token_in_each_piece) == (9, 8, True)
    assert (cut.generated, len(cut.pieces), cut.has_token_in_each_piece) == (5, 5, True)


def test_several_tokens_in_one_event_are_seen_as_such(server: ModelServer, reach: Callable[..., Endpoint]) -> None:
    server.merged = 3
    answer = reach(OpenAiChat()).answer(Ask(messages=CHAT, max_tokens=100))
    assert (answer.generated, len(answer.pieces), answer.has_token_in_each_piece) == (8, 3, False)


@pytest.mark.parametrize(
    ("fault", "values", "error", "said"),
    [
        ("cut", {"after": 3}, AnswerCut, "cut in the middle of an answer, after 3 pieces"),
        ("end_early", {"after": 3}, AnswerCut, "ended its stream in the middle of an answer, after 3 pieces"),
        ("ignore_limit", {}, LimitIgnored, "The server gave 6 tokens where 5 were the limit"),
        ("text", {"after": 2, "value": b"data: {broken\n\n"}, UnreadableAnswer, "no JSON: '{broken'"),
        ("text", {"after": 2, "value": b'data: {"content": 7}\n\n'}, UnreadableAnswer, "'content' that is no text"),
        ("silent", {"after": 2}, EndpointSilent, "no sign of work for 0.5 s"),
        ("mute", {"after": 2}, EndpointSilent, "no sign of work for 0.5 s"),
        ("one_json", {}, NoStream, "application/json, not with a stream"),
        ("html", {}, NoStream, "text/html, not with a stream"),
        ("endless", {"after": 1}, UnreadableAnswer, "line without end"),
        ("error_event", {"after": 1, "said": "out of memory"}, EndpointError, "out of memory"),
        ("status", {"code": 400, "said": "prompt too long"}, EndpointRefused, "HTTP 400 Bad Request (prompt too long)"),
        ("status", {"code": 500, "said": "a bug"}, EndpointError, "HTTP 500 Internal Server Error (a bug)"),
        ("status", {"code": 307}, EndpointRefused, "leads to another address"),
    ],
)
def test_each_way_to_answer_badly_has_an_error_of_its_own_and_is_not_asked_again(
    server: ModelServer,
    reach: Callable[..., Endpoint],
    fault: str,
    values: dict[str, object],
    error: type[OhforgeError],
    said: str,
) -> None:
    server.fault(fault, **values)
    with pytest.raises(error) as failed:
        reach(silence=0.5 if error is EndpointSilent else 60.0).answer(Ask(prompt="How many?", max_tokens=5))
    assert type(failed.value) is error
    assert said in failed.value.message
    assert len(server.asked()) == 1


def test_a_stream_without_choices_is_no_empty_answer(server: ModelServer, reach: Callable[..., Endpoint]) -> None:
    server.fault("no_choices")
    with pytest.raises(EmptyAnswer):
        reach(OpenAiChat()).answer(Ask(messages=CHAT, max_tokens=5))


def test_a_model_that_says_nothing_has_given_an_empty_answer(session: Session) -> None:
    with ModelServer(answer=lambda prompt: []) as server:
        for interface in INTERFACES:
            with Endpoint(session, server.url, interface=interface) as endpoint:
                answer = endpoint.answer(ask_of(interface))
            assert (answer.text, answer.finish, answer.generated) == ("", "stop", 0)


@pytest.mark.parametrize(
    "faults",
    [
        [("status", {"code": 503, "said": "Loading model"})],
        [("status", {"code": 502}), ("drop", {})],
        [("status", {"code": 429, "retry_after": "0"})] * 3,
    ],
)
def test_what_may_pass_is_asked_again_before_the_answer_has_begun(
    server: ModelServer, reach: Callable[..., Endpoint], faults: list[tuple[str, dict[str, object]]]
) -> None:
    for name, values in faults:
        server.fault(name, **values)
    answer = reach().answer(Ask(prompt="How many?", max_tokens=100))
    assert answer.text == "".join(WORDS)
    assert answer.attempts == len(faults) + 1 == len(server.asked())


def test_the_pause_is_at_least_what_the_server_asks_for(server: ModelServer, reach: Callable[..., Endpoint]) -> None:
    pauses: list[float] = []
    server.fault("status", code=429, retry_after="7")
    server.fault("status", code=429, retry_after=formatdate(time.time() + 50, usegmt=True))
    reach(sleep=pauses.append).answer(Ask(prompt="How many?", max_tokens=100))
    assert pauses[0] == 7
    assert 30 < pauses[1] <= 50


def test_a_limit_of_requests_that_does_not_pass_is_told_with_what_the_server_says(
    server: ModelServer, reach: Callable[..., Endpoint]
) -> None:
    server.fault("status", code=429, said="three a minute", times=-1)
    with pytest.raises(RateLimited, match=r"three a minute.*4 attempts"):
        reach().answer(Ask(prompt="How many?", max_tokens=100))
    assert len(server.asked()) == 4


def test_a_pause_of_an_hour_is_reported_and_not_waited_for(server: ModelServer, reach: Callable[..., Endpoint]) -> None:
    server.fault("status", code=429, retry_after="3600")
    with pytest.raises(RateLimited, match="It asks to wait 3600 s"):
        reach(sleep=pytest.fail).answer(Ask(prompt="How many?", max_tokens=100))


def test_nobody_at_the_address_is_an_error_of_its_own(session: Session) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there, and nobody else gets the port
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with (
            Endpoint(session, url, patience=Patience(pause=0.001, times=2)) as endpoint,
            pytest.raises(EndpointUnreached, match="refused; given up after 3 attempts"),
        ):
            endpoint.answer(Ask(prompt="How many?", max_tokens=100))


def test_a_key_goes_to_the_server_and_into_no_message(
    server: ModelServer, reach: Callable[..., Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-0123456789")
    for name, values in (
        ("status", {"code": 401, "said": "Incorrect key: sk-0123456789"}),
        ("error_event", {"after": 1, "said": "quota of sk-0123456789"}),
        ("text", {"after": 1, "value": b"data: sk-0123456789\n\n"}),
    ):
        server.faults.clear()
        server.fault(name, **values)
        with pytest.raises(EndpointError) as failed:
            reach().answer(Ask(prompt="How many?", max_tokens=100))
        assert server.asked()[-1].headers["authorization"] == "Bearer sk-0123456789"
        assert "sk-0123456789" not in str(failed.value.as_json())
        assert "…" in failed.value.message


def test_a_key_that_would_go_out_unencrypted_is_warned_of(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-0123456789")
    for url, warned in (("http://model.example", 1), ("https://model.example", 0), ("http://127.0.0.1:9", 0)):
        Endpoint(session, url).close()
        said = capsys.readouterr()
        assert (said.out + said.err).count("unencrypted") == warned, url
        assert "sk-0123456789" not in said.out + said.err


def test_an_address_with_a_password_or_a_query_is_refused_without_repeating_it() -> None:
    for url in ("http://me:sk-1@host:1", "http://host:1/v1?key=sk-1"):
        with pytest.raises(UsageError) as refused:
            check_address(url)
        assert "sk-1" not in str(refused.value.as_json())
    with pytest.raises(UsageError):
        check_address("host:8080")
    assert check_address("http://host:8080/v1/") == "http://host:8080"
    assert check_address("https://host/proxy/v1") == "https://host/proxy"


def test_offline_only_this_computer_is_asked(session: Session, server: ModelServer) -> None:
    offline = session.with_settings(offline=True)
    with pytest.raises(Offline):
        Endpoint(offline, "http://model.example:8080")
    Endpoint(offline, server.url).close()


def test_a_proxy_of_the_environment_is_not_asked_for_a_forwarded_port(
    server: ModelServer, reach: Callable[..., Endpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert reach().answer(Ask(prompt="How many?", max_tokens=100)).finish == "stop"


def test_what_a_llama_server_tells_of_itself(server: ModelServer, reach: Callable[..., Endpoint]) -> None:
    endpoint = reach()
    endpoint.wait_until_ready(Deadline.after(60, "the stub"))
    properties = endpoint.properties()
    assert properties is not None and properties["chat_template"] == server.template
    prompt = endpoint.apply_template(CHAT)
    assert prompt == "<|im_start|>user\nHow many?<|im_end|>\n<|im_start|>assistant\n"
    ids = endpoint.tokenize(prompt, special=True)
    assert (ids[0], ids[-1]) == (0, 10 + ord("\n"))
    assert endpoint.models() == ["stub"]
    server.is_llama = False
    assert endpoint.properties() is None
