"""What goes wrong before an answer has begun, as errors that say what may be tried again."""

from __future__ import annotations

import json
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from core.errors import EndpointError, EndpointRefused, EndpointUnreached, RateLimited

if TYPE_CHECKING:
    import httpx

MAY_PASS = frozenset({429, 502, 503})
MOST_OF_A_REASON = 64 * 1024


class Repeatable(Exception):
    """A failure before the first byte of an answer: the same request may be sent again."""

    def __init__(self, text: str, *, status: int = 0, wait: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.wait = wait
        """Seconds that the server asks for."""

    def error(self, url: str, attempts: int) -> EndpointError:
        """What to raise when it is not tried again any more."""
        tried = "one attempt" if attempts == 1 else f"{attempts} attempts"
        asked = f" It asks to wait {self.wait:g} s." if self.wait else ""
        kind: type[EndpointError] = RateLimited if self.status == 429 else EndpointUnreached
        return kind(f"{url}: {self}; given up after {tried}.{asked}")


def checked_status(response: httpx.Response, where: str) -> None:
    """Raises Repeatable, EndpointRefused or EndpointError for a status that is not 200."""
    status = response.status_code
    if status == 200:
        return
    said = f"HTTP {status} {response.reason_phrase}".rstrip() + _reason(response)
    if status in MAY_PASS:
        raise Repeatable(said, status=status, wait=_retry_after(response))
    if 300 <= status < 400:
        raise EndpointRefused(f"{where} leads to another address ({said}); keys are not sent on.")
    raise (EndpointRefused if status < 500 else EndpointError)(f"{where}: {said}.")


def explained(error: httpx.TransportError) -> str:
    """An exception of httpx as the end of a sentence."""
    return str(error).strip().rstrip(".") or type(error).__name__


def _reason(response: httpx.Response) -> str:
    """What the server says of a failure; empty when it says nothing that can be read."""
    import httpx

    content = bytearray()
    try:
        for chunk in response.iter_bytes():
            content += chunk
            if len(content) > MOST_OF_A_REASON:
                break
        value: Any = json.loads(content)
    except (httpx.HTTPError, ValueError, RecursionError):
        return ""
    error = value.get("error", value) if isinstance(value, dict) else value
    message = error.get("message", "") if isinstance(error, dict) else error
    return f" ({message[:500]})" if isinstance(message, str) and message else ""


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds: a number or a date (RFC 9110, 10.2.3)."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isascii() and value.isdigit() and len(value) < 9:
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None
