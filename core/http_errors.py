"""What goes wrong between a client and a server, as errors that say which failures may heal."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit, urlunsplit

from core.addresses import shown
from core.errors import ConfigurationError, NetworkError, NotFoundOnServer, NotTheFile, UsageError

if TYPE_CHECKING:
    import requests


class MayHeal(Exception):
    """A failure after which the same request may succeed."""

    def __init__(
        self,
        text: str,
        *,
        wait: float | None = None,
        restart: bool = False,
        unreached: bool = False,
        waited_long: bool = False,
    ) -> None:
        super().__init__(text)
        self.wait = wait
        self.restart = restart
        self.unreached = unreached
        """No server answered at all: its name is not known, or nobody takes the connection."""
        self.waited_long = waited_long
        """It took a whole deadline to see that."""


def split_address(url: str) -> SplitResult:
    """The parts of an address. Raises UsageError for a malformed one."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - it is looked at only when it is asked for
    except ValueError:
        raise malformed(url) from None
    return parts


def malformed(url: str) -> UsageError:
    return UsageError(
        f"{shown(url)!r} is not an address that can be fetched from.",
        remedy="Write it as https://HOST/PATH; other characters in a user name or password as %XX.",
    )


def with_path(url: str, ending: str) -> str:
    """The address whose path goes on with `ending`; its query stays behind the path."""
    parts = split_address(url)
    return urlunsplit(parts._replace(path=parts.path + ending))


def _host(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


@contextlib.contextmanager
def healing_errors(url: str) -> Iterator[None]:
    """Turns what requests and urllib3 raise into `MayHeal`, or into an error that says what to do."""
    import requests
    import urllib3

    split_address(url)
    try:
        yield
    except (requests.exceptions.SSLError, urllib3.exceptions.SSLError) as error:
        raise NetworkError(
            f"{shown(url)}: the server's certificate is not trusted ({_cause(error)}).",
            remedy="If a proxy of your organisation re-signs traffic, name its certificates with ohforge.ca_bundle "
            "or REQUESTS_CA_BUNDLE.",
        ) from error
    except requests.exceptions.ProxyError as error:
        if "407" in str(error):
            raise NetworkError(
                f"{shown(url)}: the proxy wants a user name and password.",
                remedy="Put them into HTTPS_PROXY as http://user:password@host:port.",
            ) from error
        raise MayHeal(f"the proxy cannot be reached ({_cause(error)})", unreached=True) from error
    except requests.exceptions.ConnectTimeout as error:
        raise MayHeal(f"no connection to {_host(url)} (no answer in time)", unreached=True, waited_long=True) from error
    except requests.exceptions.Timeout as error:
        raise MayHeal("no answer in time") from error
    except requests.exceptions.ChunkedEncodingError as error:
        raise MayHeal(f"the connection was cut ({_cause(error)})") from error
    except requests.exceptions.ConnectionError as error:
        inner = _innermost(error)
        unreached = isinstance(inner, urllib3.exceptions.NewConnectionError)
        unnamed = isinstance(inner, urllib3.exceptions.NameResolutionError)
        why = "its name cannot be resolved" if unnamed else _cause(error)
        raise MayHeal(f"no connection to {_host(url)} ({why})", unreached=unreached) from error
    except urllib3.exceptions.HTTPError as error:
        raise MayHeal(f"the connection was cut ({_cause(error)})") from error
    except requests.exceptions.TooManyRedirects as error:
        raise NotFoundOnServer(f"{shown(url)}: the server redirects in a circle.") from error
    except (
        requests.exceptions.InvalidURL,
        requests.exceptions.InvalidSchema,
        requests.exceptions.MissingSchema,
    ) as error:
        raise malformed(url) from error
    except OSError as error:
        if "TLS CA certificate bundle" in str(error):
            raise ConfigurationError(f"The certificate bundle cannot be read: {error}.") from error
        raise MayHeal(f"the connection was cut ({_cause(error)})") from error


def _cause(error: BaseException) -> str:
    """The innermost sentence of an exception chain as requests and urllib3 nest them."""
    error = _innermost(error)
    text = str(error).strip() or type(error).__name__
    text = re.sub(r"//[^\s/@]*@|\?[^\s'\")]+", lambda secret: "//" if secret[0].startswith("//") else "", text)
    return re.sub(r"^(<[^>]*>|\w+\(host=[^)]*\)): ", "", text)


def _innermost(error: BaseException) -> BaseException:
    while True:
        inner = getattr(error, "reason", None) or next((a for a in error.args if isinstance(a, BaseException)), None)
        if not isinstance(inner, BaseException):
            return error
        error = inner


def retry_after(response: requests.Response) -> float | None:
    """Seconds that the server asks to wait: a number or a date (RFC 9110, 10.2.3)."""
    from email.utils import parsedate_to_datetime

    value = response.headers.get("Retry-After", "").strip()
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def looks_like_html(chunk: bytes) -> bool:
    return chunk[:512].lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith((b"<!doctype html", b"<html"))


def html_error(url: str, chunk: bytes) -> NotTheFile:
    found = re.search(rb"<title[^>]*>(.*?)</title>", chunk, re.IGNORECASE | re.DOTALL)
    title = f' titled "{" ".join(found[1].decode("utf-8", "replace").split())[:80]}"' if found else ""
    return NotTheFile(f"{shown(url)}: the server answered with a web page{title} instead of the file.")
