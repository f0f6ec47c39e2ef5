"""Servers of language models: reaching one, and what it answers."""

from __future__ import annotations

from core.errors.base import Category, Failure
from core.errors.general import DeadlineExpired
from core.errors.making import NetworkError


class EndpointError(NetworkError):
    """The server of a language model did not do what it was asked to do."""

    code = "OHF6620"
    default_remedy = "Read what the server said, and its log."


class EndpointUnreached(EndpointError):
    """Nobody answers at the address of a language model's server, or it did not become ready."""

    code = "OHF6621"
    default_remedy = "Check the address (--endpoint http://HOST:PORT) and that the server has been started."


class EndpointRefused(EndpointError):
    """The server refused the request: a wrong key, a name that it does not know, a prompt that is too long."""

    code = "OHF6622"
    default_remedy = "Correct what the server names; a key is taken from the variable OHFORGE_ENDPOINT_KEY."


class RateLimited(EndpointError):
    """The server wants fewer requests (HTTP 429), or longer pauses than ohforge makes."""

    code = "OHF6623"
    default_remedy = "Lower --concurrency, or run again later with --resume."


class UnreadableAnswer(EndpointError):
    """What the server streams is not of the form that its interface has: no JSON, wrong types, a line without end."""

    code = "OHF6624"
    default_remedy = "Check that --endpoint names a llama-server or a server with OpenAI's interface."


class NoStream(UnreadableAnswer):
    """The server answered with something other than a stream of events, such as a web page or one piece of JSON."""

    code = "OHF6625"


class EmptyAnswer(EndpointError):
    """The stream came to its end without a single choice in it: there is no answer, not even an empty one."""

    code = "OHF6626"


class LimitIgnored(EndpointError):
    """The server gives more tokens than it was asked for, so that no budget can be told by it."""

    code = "OHF6627"
    default_remedy = "Use another server, or a version that obeys the limit; what it gave was not graded."


class TemplateUnfit(EndpointError):
    """The model has no chat template, or one whose markers its vocabulary does not have."""

    code = "OHF6628"
    default_remedy = (
        "Give the server the model's own template (--chat-template-file of llama-server), or go on with --anyway: the "
        "result is then marked as not valid."
    )


class AnswerCut(Failure):
    """The connection to a language model's server ended in the middle of an answer."""

    code = "OHF7410"
    category = Category.LOST_CONNECTION
    default_remedy = "Look whether the server still runs and what its log says; then go on with --resume."


class EndpointSilent(DeadlineExpired):
    """A language model's server took a request and then gave no sign of work for too long."""

    code = "OHF7310"
    default_remedy = "Look whether the server still works on it; --silence SECONDS waits longer."
