"""The way to a server: one that is not there, proxies, certificates."""

from __future__ import annotations

import dataclasses
import socket
from pathlib import Path
from typing import Any

import pytest

import core.http
from core.download import download
from core.errors import (
    ConfigurationError,
    NetworkError,
    NotFoundOnServer,
    ServerUnreached,
)
from core.http import Fetch, Transport
from core.patience import Patience
from core.session import Session
from tests.shared.loopback import Loopback, make_certificate
from tests.support.downloads import CONTENT, DIGEST

# proxies and certificates --------------------------------------------------------------------------


PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@pytest.fixture
def no_own_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def test_the_usual_proxy_variable_is_honoured(
    session: Session, server: Loopback, target: Path, no_own_proxy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.serve("/file.bin", CONTENT)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    download(session, "http://files.example/file.bin", target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT
    assert server.seen[0].headers["host"] == "files.example"


def test_a_proxy_that_is_not_there_or_wants_a_login_is_named(
    session: Session, server: Loopback, target: Path, no_own_proxy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(NetworkError, match="proxy cannot be reached"):
            download(session, "http://files.example/file.bin", target)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.fault("/file.bin", "status", code=407, times=-1)
    with pytest.raises(NotFoundOnServer, match="HTTP 407"):
        download(session, "http://files.example/file.bin", target)


def test_a_certificate_is_trusted_when_the_setting_or_the_usual_variable_names_it(
    session: Session, tmp_path: Path, no_own_proxy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = make_certificate(tmp_path)
    with Loopback(certificate=certificate) as server:
        url = server.serve("/file.bin", CONTENT)
        with pytest.raises(NetworkError, match="certificate is not trusted") as caught:
            download(session, url, tmp_path / "one", sha256=DIGEST)
        assert "ohforge.ca_bundle" in caught.value.remedy
        assert caught.value.exit_status == 66
        trusting = dataclasses.replace(session.settings, ca_bundle=str(certificate))
        download(dataclasses.replace(session, settings=trusting), url, tmp_path / "two", sha256=DIGEST)
        # The setting wins over the variable.
        (tmp_path / "other").mkdir()
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(make_certificate(tmp_path / "other")))
        download(dataclasses.replace(session, settings=trusting), url, tmp_path / "three", sha256=DIGEST)
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
        download(session, url, tmp_path / "four", sha256=DIGEST)
        monkeypatch.delenv("REQUESTS_CA_BUNDLE")
        download(session, url, tmp_path / "five", sha256=DIGEST, transport=Transport(insecure=True))
    for name in ("two", "three", "four", "five"):
        assert (tmp_path / name).read_bytes() == CONTENT


# servers that are not there -----------------------------------------------------------------------


def test_a_server_that_is_not_there_is_reported_with_its_address(session: Session, target: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin"
        with pytest.raises(NetworkError, match="Connection refused"):
            download(session, url, target)


@pytest.mark.parametrize(
    ("failure", "said", "attempts"),
    [
        (socket.gaierror(-2, "Name or service not known"), "its name cannot be resolved", 3),
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused", 3),
        (TimeoutError("timed out"), "no answer in time", 1),
    ],
    ids=["no name", "refused", "silent"],
)
def test_a_server_that_was_never_reached_is_soon_given_up(
    session: Session,
    target: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: OSError,
    said: str,
    attempts: int,
) -> None:
    asked = []

    def connect(address: object, *_: object, **__: object) -> None:
        asked.append(address)
        raise failure

    monkeypatch.setattr(core.http, "PATIENCE", Patience(pause=0.01, times=9))
    monkeypatch.setattr("urllib3.util.connection.create_connection", connect)
    with pytest.raises(ServerUnreached, match=f"no connection to mirror.example .*{said}") as caught:
        download(session, "http://mirror.example/file.bin", target)
    assert len(asked) == attempts
    assert "HTTPConnection" not in caught.value.message


def test_a_server_that_goes_away_in_the_middle_is_waited_for(
    session: Session, server: Loopback, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "cut", after=1_000_000)
    connects, away = socket.create_connection, [6]

    def connect(address: tuple[str, int], *words: Any, **options: Any) -> socket.socket:
        if server.requests_of("/file.bin") and away[0]:
            away[0] -= 1
            raise ConnectionRefusedError(111, "Connection refused")
        options.pop("socket_options", None)
        return connects(address, *words, **options)

    monkeypatch.setattr(core.http, "PATIENCE", Patience(pause=0.01, times=9))
    monkeypatch.setattr("urllib3.util.connection.create_connection", connect)
    assert download(session, url, target, sha256=DIGEST).path.read_bytes() == CONTENT
    assert not away[0]


def test_a_missing_certificate_bundle_is_a_configuration_error(session: Session, target: Path) -> None:
    with pytest.raises(ConfigurationError, match="bundle"):
        download(session, "https://127.0.0.1:9/file", target, transport=Transport(ca_bundle="/nowhere/ca.pem"))


@pytest.mark.parametrize("fault", ["", "no_ranges"])
@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_a_question_about_a_file_asks_for_its_first_bytes_only(
    session: Session, server: Loopback, size: int, fault: str
) -> None:
    url = server.serve("/file.bin", bytes(size))
    if fault:
        server.fault("/file.bin", fault, times=-1)
    before = server.body_bytes
    assert Fetch(session, url).probe().size == size
    assert server.body_bytes - before == (size if fault else min(size, 512))
