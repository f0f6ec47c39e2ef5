"""One file read from one address, chunk by chunk, across cut connections and busy servers."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import time
import warnings
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from core.addresses import shown
from core.errors import NetworkError, NotFoundOnServer, NotTheFile, Offline, ServerUnreached
from core.files import human_bytes
from core.http_errors import MayHeal, healing_errors, html_error, looks_like_html, retry_after, split_address
from core.patience import Patience
from core.session import Session

if TYPE_CHECKING:
    import requests

CHUNK = 1024 * 1024
CONNECT_SECONDS = 15.0
PROBE_BYTES = 512
SILENCE_SECONDS = 60.0
"""A server that sends nothing for so long counts as cut."""
PATIENCE = Patience(pause=0.5, growth=2, times=6)
"""For attempts that brought nothing new; any progress starts the row again."""
FIRST_CONTACT_ATTEMPTS = 3
"""A server that was never reached gets no more: who has no network wants to hear it soon, and there may be another source."""
LONGEST_ASKED_PAUSE = 120.0
"""A ``Retry-After`` above this is reported, not waited for."""
MOST_OF_A_SMALL_FILE = 64 * 1024
MOST_OF_AN_ANSWER = 16 * 1024 * 1024
PROGRESS_BYTES = 64 * 1024
"""An attempt must bring so much to count as progress."""
MAY_HEAL = frozenset({408, 425, 429})
USER_AGENT = "ohforge/0.1"


@dataclass(frozen=True, kw_only=True)
class RemoteState:
    """What a server said of a file: tells whether a later answer is about the same content."""

    etag: str = ""
    last_modified: str = ""
    size: int | None = None

    @property
    def condition(self) -> str:
        """The value for ``If-Range``; empty when the server gave nothing that is fit for it (RFC 9110, 13.1.5)."""
        if self.etag and not self.etag.startswith("W/"):
            return self.etag
        return self.last_modified

    def contradicts(self, other: RemoteState) -> bool:
        """True when both speak of the same property and differ."""
        pairs = ((self.etag, other.etag), (self.last_modified, other.last_modified), (self.size, other.size))
        return any(mine and theirs and mine != theirs for mine, theirs in pairs)


@dataclass(frozen=True, kw_only=True)
class Transport:
    """How a server is reached where that differs from the settings and the usual proxy variables."""

    ca_bundle: str = ""
    insecure: bool = False
    """Takes any certificate: for hosts that the user has declared trusted."""
    proxy: str = ""
    client_cert: str = ""

    def verify(self, session: Session) -> str | bool | None:
        """What requests takes as ``verify``; None leaves it to the usual variables."""
        return False if self.insecure else session.settings.ca_bundle or self.ca_bundle or None

    def http(self, session: Session) -> requests.Session:
        """A new client; the caller closes it."""
        import requests

        http = requests.Session()
        verify = self.verify(session)
        if verify is not None:
            # Set on the client, it would lose against REQUESTS_CA_BUNDLE; as an argument it wins.
            http.request = functools.partial(http.request, verify=verify)  # type: ignore[method-assign]
        if self.proxy:
            http.proxies.update({"http": self.proxy, "https": self.proxy})
        if self.client_cert:
            http.cert = self.client_cert
        return http


class Fetch:
    """Reads `url` from byte `start` on. After the first chunk `remote` says what the server told of the file.

    `known` is what an earlier request was told: a file that changed since is sent from its beginning.
    ``file:`` addresses work too.
    """

    def __init__(
        self,
        session: Session,
        url: str,
        *,
        start: int = 0,
        known: RemoteState | None = None,
        transport: Transport | None = None,
    ) -> None:
        self.url = url
        self.remote = known or RemoteState()
        self.received = 0
        """Bytes that came over the network, also those that had to come twice."""
        self._session = session
        self._start = start
        self._transport = transport or Transport()

    def chunks(self) -> Generator[tuple[int, bytes], None, None]:
        """Yields (offset, bytes) in order. The offset falls back to 0 when the server cannot or will not resume.

        Raises Offline, NotFoundOnServer, NotTheFile, or NetworkError when nothing new came after all attempts.
        """
        if self.url.startswith("file:"):
            yield from self._local_chunks()
            return
        refuse_offline(self._session, self.url)
        position, attempts = self._start, _Attempts(self._session, self.url)
        while True:
            begun_at = self.received
            try:
                with contextlib.closing(self._attempt(position)) as pieces:
                    for offset, chunk in pieces:
                        position = offset + len(chunk)
                        yield offset, chunk
                return
            except MayHeal as failure:
                position = 0 if failure.restart else position
                progress = self.received - begun_at >= PROGRESS_BYTES
                attempts.pause_or_give_up(failure, position, progress=progress, reached=self.received > 0)

    def probe(self) -> RemoteState:
        """What the server says of the file, without fetching it. Raises as `chunks` does."""
        if self.url.startswith("file:"):
            with contextlib.closing(self._local_chunks()) as chunks:
                next(chunks, None)
            return self.remote
        refuse_offline(self._session, self.url)
        attempts = _Attempts(self._session, self.url)
        # Of a file that is asked for as a whole, megabytes are on their way before the connection can be closed.
        limit: int | None = PROBE_BYTES
        while True:
            try:
                with (
                    healing_errors(self.url),
                    self._transport.http(self._session) as http,
                    self._ask(http, 0, limit) as response,
                ):
                    if response.status_code == 416 and limit:
                        limit = None  # An empty file has no first byte.
                        continue
                    self._judge(response, 0)
                    if looks_like_html(head := response.raw.read(PROBE_BYTES, decode_content=False)):
                        raise html_error(self.url, head)
                    return self.remote
            except MayHeal as failure:
                attempts.pause_or_give_up(failure)

    def _attempt(self, position: int) -> Generator[tuple[int, bytes], None, None]:
        with (
            healing_errors(self.url),
            self._transport.http(self._session) as http,
            self._ask(http, position) as response,
        ):
            if response.status_code == 416 and self.remote.size == position:
                return
            offset = self._judge(response, position)
            started, floor = time.monotonic(), self.received
            while chunk := response.raw.read1(CHUNK, decode_content=False):
                if offset == 0 and looks_like_html(chunk):
                    raise html_error(self.url, chunk)
                self.received += len(chunk)
                yield offset, chunk
                offset += len(chunk)
                if time.monotonic() - started > SILENCE_SECONDS:
                    if self.received - floor < PROGRESS_BYTES:
                        raise MayHeal(f"hardly anything came for {SILENCE_SECONDS:g} s")
                    started, floor = time.monotonic(), self.received
            if self.remote.size is not None and offset < self.remote.size:
                raise MayHeal("the connection ended early")

    def _ask(self, http: requests.Session, position: int, limit: int | None = None) -> requests.Response:
        """Asks for what is there from `position` on; with `limit` for no more bytes than that."""
        headers = {"User-Agent": USER_AGENT, "Accept-Encoding": "identity"}
        if position or limit:
            headers["Range"] = f"bytes={position}-{position + limit - 1 if limit else ''}"
            if self.remote.condition:
                headers["If-Range"] = self.remote.condition
        with warnings.catch_warnings():
            if self._transport.insecure:
                warnings.simplefilter("ignore")
            return http.get(
                self.url,
                headers=headers,
                stream=True,
                timeout=(CONNECT_SECONDS, SILENCE_SECONDS),
            )

    def _judge(self, response: requests.Response, position: int) -> int:
        """The offset at which the body begins; raises for every answer that is not the file."""
        status = response.status_code
        if status == 416:
            self.remote = RemoteState()
            raise MayHeal("the server no longer has a file of that length", restart=True)
        if status in MAY_HEAL or status >= 500:
            raise MayHeal(f"HTTP {status} {response.reason}", wait=retry_after(response))
        if status not in (200, 206):
            raise NotFoundOnServer(f"{shown(self.url)}: HTTP {status} {response.reason}.", status=status)
        begin, total = _extent(response, position)
        answered = RemoteState(
            etag=response.headers.get("ETag", ""),
            last_modified=response.headers.get("Last-Modified", ""),
            size=total,
        )
        if begin and self.remote.contradicts(answered):
            self.remote = RemoteState()
            raise MayHeal("the file changed on the server", restart=True)
        self.remote = answered
        return begin

    def _local_chunks(self) -> Generator[tuple[int, bytes], None, None]:
        path = path_of_file_url(self.url)
        try:
            file = path.open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotFoundOnServer(f"There is no file {path}.") from error
        with file:
            size = path.stat().st_size
            answered = RemoteState(last_modified=str(path.stat().st_mtime_ns), size=size)
            offset = 0 if self.remote.contradicts(answered) or self._start > size else self._start
            self.remote = answered
            file.seek(offset)
            while chunk := file.read(CHUNK):
                yield offset, chunk
                offset += len(chunk)


class _Attempts:
    """Attempts at one address that failed for reasons that may pass."""

    def __init__(self, session: Session, url: str) -> None:
        self._session, self._url = session, url
        self.barren = 0
        """Those in a row that brought nothing new."""

    def pause_or_give_up(
        self, failure: MayHeal, position: int = 0, *, progress: bool = False, reached: bool = False
    ) -> None:
        """Waits before the next attempt. Raises ServerUnreached or NetworkError when there shall be none."""
        self.barren = 0 if progress else self.barren + 1
        unreached = failure.unreached and not reached
        pause = PATIENCE.pause_after(self.barren)
        if unreached and (failure.waited_long or self.barren >= FIRST_CONTACT_ATTEMPTS):
            pause = None
        if failure.wait is not None:
            pause = None if pause is None else max(pause, failure.wait)
        if pause is None or pause > LONGEST_ASKED_PAUSE:
            raise self._error(failure, position, unreached) from failure
        what = f"going on from {human_bytes(position)}" if position else "trying again"
        where = "" if failure.unreached else f" ({shown(self._url)})"
        self._session.console.info(f"    {failure}: {what} in {pause:g} s{where}")
        time.sleep(pause)

    def _error(self, failure: MayHeal, position: int, unreached: bool) -> NetworkError:
        tried = f"{self.barren} attempts" if self.barren > 1 else "one attempt"
        if unreached:
            return ServerUnreached(f"{shown(self._url)}: {failure} in {tried}.")
        asked = f" The server asks to wait {failure.wait:g} s." if failure.wait else ""
        return NetworkError(
            f"{shown(self._url)}: {failure}. Gave up at {human_bytes(position)} after {tried} without progress.{asked}"
        )


def read_on(fetch: Fetch, start: int) -> Iterator[bytes]:
    """The bytes from `start` on of a fetch that began there, for a reader that cannot go back.

    What a server sends twice is dropped. Raises NetworkError when the file changed while it was fetched.
    """
    begun, position = fetch.remote, start
    with contextlib.closing(fetch.chunks()) as chunks:
        for offset, chunk in chunks:
            if offset < position and begun.contradicts(fetch.remote):
                raise NetworkError(f"{shown(fetch.url)} was replaced by another file while it was being fetched.")
            begun = fetch.remote
            if offset + len(chunk) > position:
                fresh = chunk[position - offset :] if offset < position else chunk
                position += len(fresh)
                yield fresh


def read_small(session: Session, url: str) -> bytes:
    """The content of a small file; raises NotTheFile when it is larger than one can be."""
    content = bytearray()
    with contextlib.closing(Fetch(session, url).chunks()) as chunks:
        for offset, chunk in chunks:
            content[offset:] = chunk
            if len(content) > MOST_OF_A_SMALL_FILE:
                raise NotTheFile(f"{shown(url)} is far larger than it should be.")
    return bytes(content)


def post_json(session: Session, url: str, body: object) -> tuple[int, object]:
    """Sends `body` as JSON and gives the status and the JSON of the answer, whatever the status.

    Raises NotTheFile when the answer is no JSON, NetworkError when there is none after all attempts, Offline.
    """
    refuse_offline(session, url)
    attempts = _Attempts(session, url)
    while True:
        try:
            with healing_errors(url), Transport().http(session) as http:
                timeout = (CONNECT_SECONDS, SILENCE_SECONDS)
                headers = {"User-Agent": USER_AGENT}
                with http.post(url, json=body, headers=headers, timeout=timeout, stream=True) as answer:
                    if answer.status_code in MAY_HEAL or answer.status_code >= 500:
                        raise MayHeal(f"HTTP {answer.status_code} {answer.reason}", wait=retry_after(answer))
                    return answer.status_code, _json(answer)
        except MayHeal as failure:
            attempts.pause_or_give_up(failure)


def _json(answer: requests.Response) -> object:
    content = bytearray()
    for piece in answer.iter_content(MOST_OF_A_SMALL_FILE):
        content += piece
        if len(content) > MOST_OF_AN_ANSWER:
            raise NotTheFile(f"{shown(answer.url)} answers with far more than it was asked for.")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        if looks_like_html(bytes(content)):
            raise html_error(answer.url, bytes(content)) from error
        raise NotTheFile(f"{shown(answer.url)}: HTTP {answer.status_code}, and the answer is no JSON.") from error


def refuse_offline(session: Session, url: str) -> None:
    """Raises Offline when no packet may be sent and `url` would need some."""
    if session.settings.offline and not url.startswith("file:"):
        raise Offline(
            f"{shown(url)} would have to be downloaded, but ohforge.offline (or --offline) forbids all network traffic."
        )


def path_of_file_url(url: str) -> Path:
    return Path(unquote(split_address(url).path))


def _extent(response: requests.Response, position: int) -> tuple[int, int | None]:
    """(first byte of the body, size of the whole file) from a 200 or 206 answer."""
    length = response.headers.get("Content-Length", "")
    if response.status_code == 200:
        return 0, int(length) if length.isdigit() else None
    found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", response.headers.get("Content-Range", "").strip())
    if found is None or int(found[1]) != position:
        raise NotTheFile(
            f"{shown(response.url)}: asked for the bytes from {position} on, the server answered with the range "
            f"{response.headers.get('Content-Range')!r}."
        )
    return position, None if found[3] == "*" else int(found[3])
