"""A server on 127.0.0.1 that answers as file hosts do: ranges, validators, redirects, and faults by name."""

from __future__ import annotations

import hashlib
import json
import re
import socket
import ssl
import struct
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import unquote, urlsplit

LOGIN_PAGE = (
    b"<!DOCTYPE html>\n<html><head><title>Guest network - sign in</title></head><body>Please sign in</body></html>"
)
PIECE = 256 * 1024
FAULTS = (
    "cut",  # after=N: reset the connection when N bytes of the body were sent
    "end_early",  # after=N: close politely when N bytes of the body were sent
    "status",  # code=N, retry_after=TEXT: answer with that status
    "html",  # a login page with status 200
    "no_ranges",  # ignore Range and send all
    "no_length",  # chunked, without Content-Length
    "wrong_range",  # answer 206 with another range than was asked for
    "drop",  # close the connection without any answer
    "corrupt",  # at=N: flip one bit of byte N
    "slow",  # seconds=S: wait before each piece
)


@dataclass(kw_only=True)
class Served:
    """One file of the server."""

    content: bytes | Path
    etag: bool = True
    last_modified: bool = True
    content_type: str = "application/octet-stream"
    redirect: str = ""
    answer: Callable[[bytes], tuple[int, Any]] | None = None
    """For POST: takes the body, gives the status and what is sent as JSON."""

    @property
    def size(self) -> int:
        return len(self.content) if isinstance(self.content, bytes) else self.content.stat().st_size

    @property
    def tag(self) -> str:
        if isinstance(self.content, bytes):
            return f'"{hashlib.md5(self.content).hexdigest()}"'
        stat = self.content.stat()
        return f'"{stat.st_size:x}-{stat.st_mtime_ns:x}"'


@dataclass(kw_only=True)
class Fault:
    name: str
    skip: int
    times: int
    values: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]

    @property
    def range(self) -> str:
        return self.headers.get("range", "")


def make_certificate(folder: Path) -> Path:
    """A self-signed certificate for 127.0.0.1, with its key, in one file."""
    from datetime import UTC, datetime, timedelta
    from ipaddress import IPv4Address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "loopback")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "loopback.pem"
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return file


@dataclass(kw_only=True)
class Loopback:
    """``with Loopback() as server: server.serve("/a.zip", b"…"); server.fault("/a.zip", "cut", after=100)``."""

    files: dict[str, Served] = field(default_factory=dict)
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    body_bytes: int = 0
    """Bytes of bodies that were handed to the network."""
    certificate: Path | None = None
    """File with a certificate for 127.0.0.1 and its key: then the server speaks HTTPS."""

    def __enter__(self) -> Loopback:
        outer = self

        class Handler(_Handler):
            server_of_test = outer

        self._httpd = _QuietServer(("127.0.0.1", 0), Handler)
        if self.certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.certificate)
            self._httpd.socket = context.wrap_socket(self._httpd.socket, server_side=True)
        self._thread = threading.Thread(target=self._httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._httpd.shutdown()
        self._httpd.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        scheme = "http" if self.certificate is None else "https"
        return f"{scheme}://127.0.0.1:{self._httpd.server_address[1]}"

    def serve(self, path: str, content: bytes | str | Path, **options: Any) -> str:
        """Puts a file under `path` and returns its address."""
        self.files[path] = Served(content=content.encode() if isinstance(content, str) else content, **options)
        return self.url + path

    def redirect(self, path: str, to: str) -> str:
        self.files[path] = Served(content=b"", redirect=to)
        return self.url + path

    def answer_posts(self, path: str, answer: Callable[[bytes], tuple[int, Any]]) -> str:
        self.files[path] = Served(content=b"", answer=answer)
        return self.url + path

    def fault(self, path: str, name: str, *, times: int = 1, skip: int = 0, **values: Any) -> None:
        """Switches a fault of `FAULTS` on for `times` requests of `path` (-1: for good) after `skip` good ones."""
        assert name in FAULTS, name
        self.faults.setdefault(path, []).append(Fault(name=name, skip=skip, times=times, values=values))

    def requests_of(self, path: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path == path]


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests, not worth a traceback."""
        if not isinstance(sys.exception(), ConnectionError | ssl.SSLError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_test: Loopback

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_GET(self) -> None:
        self._handle(send_body=True)

    def do_HEAD(self) -> None:
        self._handle(send_body=False)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        served = self._look_up()
        if served is None or served.answer is None:
            self._send_status(405 if served else 404)
            return
        status, value = served.answer(body)
        text = value if isinstance(value, bytes) else json.dumps(value).encode()
        self._send(status, {"Content-Type": "application/json", "Content-Length": str(len(text))}, text)

    def _look_up(self) -> Served | None:
        path = unquote(urlsplit(self.path).path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server_of_test.seen.append(Seen(method=self.command, path=path, headers=headers))
        return self.server_of_test.files.get(path)

    def _handle(self, *, send_body: bool) -> None:
        served = self._look_up()
        faults = self._take_faults()
        if "drop" in faults:
            self._reset()
        elif "status" in faults:
            self._send_status(faults["status"]["code"], faults["status"].get("retry_after", ""))
        elif "html" in faults:
            self._send(200, {"Content-Type": "text/html", "Content-Length": str(len(LOGIN_PAGE))}, LOGIN_PAGE)
        elif served is None:
            self._send_status(404)
        elif served.redirect:
            self._send(302, {"Location": served.redirect, "Content-Length": "0"}, b"")
        else:
            self._send_file(served, faults, send_body)

    def _take_faults(self) -> dict[str, dict[str, Any]]:
        active = {}
        for fault in self.server_of_test.faults.get(unquote(urlsplit(self.path).path), []):
            if fault.skip:
                fault.skip -= 1
            elif fault.times and fault.name not in active:
                fault.times -= 1
                active[fault.name] = fault.values
        return active

    def _send_file(self, served: Served, faults: dict[str, dict[str, Any]], send_body: bool) -> None:
        headers = {"Content-Type": served.content_type, "Accept-Ranges": "bytes"}
        modified = formatdate(1_700_000_000, usegmt=True)
        if served.etag:
            headers["ETag"] = served.tag
        if served.last_modified:
            headers["Last-Modified"] = modified
        begin, end, status = 0, served.size, 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        condition = self.headers.get("If-Range", "")
        still_same = condition in ("", served.tag if served.etag else None, modified if served.last_modified else None)
        if asked and still_same and "no_ranges" not in faults:
            begin, status = int(asked[1]), 206
            end = min(end, int(asked[2]) + 1) if asked[2] else end
            if begin >= served.size:
                headers["Content-Range"] = f"bytes */{served.size}"
                self._send(416, {**headers, "Content-Length": "0"}, b"")
                return
            shift = 7 if "wrong_range" in faults else 0
            headers["Content-Range"] = f"bytes {begin + shift}-{end - 1}/{served.size}"
        if "no_length" in faults:
            headers["Transfer-Encoding"] = "chunked"
        else:
            headers["Content-Length"] = str(end - begin)
        self._start(status, headers)
        if send_body:
            self._send_body(served, begin, end, faults)

    def _send_body(self, served: Served, begin: int, end: int, faults: dict[str, dict[str, Any]]) -> None:
        stop, how = end, ""
        for name in ("cut", "end_early"):
            if name in faults:
                stop, how = min(end, begin + faults[name]["after"]), name
        position = begin
        while position < stop:
            piece = self._piece(served, position, min(PIECE, stop - position))
            if "corrupt" in faults and 0 <= (at := faults["corrupt"]["at"] - position) < len(piece):
                piece = piece[:at] + bytes([piece[at] ^ 1]) + piece[at + 1 :]
            if "slow" in faults:
                time.sleep(faults["slow"]["seconds"])
            self.server_of_test.body_bytes += len(piece)
            try:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if "no_length" in faults else piece)
            except OSError:
                self.close_connection = True
                return
            position += len(piece)
        if how == "cut":
            self._reset()
        elif how == "end_early":
            self.close_connection = True
        elif "no_length" in faults:
            self.wfile.write(b"0\r\n\r\n")

    def _piece(self, served: Served, position: int, count: int) -> bytes:
        if isinstance(served.content, bytes):
            return served.content[position : position + count]
        with served.content.open("rb") as file:
            file.seek(position)
            return file.read(count)

    def _reset(self) -> None:
        """Ends the connection as a router does that loses its state: with RST."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def _send_status(self, code: int, retry_after: str = "") -> None:
        text = f"status {code}\n".encode()
        headers = {"Content-Type": "text/plain", "Content-Length": str(len(text))}
        self._send(code, {**headers, **({"Retry-After": retry_after} if retry_after else {})}, text)

    def _send(self, code: int, headers: dict[str, str], body: bytes) -> None:
        self._start(code, headers)
        self.wfile.write(body)

    def _start(self, code: int, headers: dict[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
