"""Addresses that users give: signed ones work, malformed ones are refused, and no secret in one is ever shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands.program import OhforgeProgram
from core.addresses import shown, without_secrets
from core.errors import NotTheFile, UsageError, unknown_name
from core.http import Fetch, post_json
from core.session import Session
from tests.shared.loopback import Loopback
from tests.support.command_line import said_by
from toolchains.catalogue import find_release
from toolchains.sources import SdkRequest, TarOffer, ask_archive, ask_mirror

DIGEST = "5" * 64


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


def request(archive: str = "") -> SdkRequest:
    release = None if archive else find_release("5.0.0")
    return SdkRequest(release=release, host="linux-x64", components=("native",), archive=archive)


def test_a_signed_archives_hash_is_looked_for_beside_it_with_its_signature(session: Session, server: Loopback) -> None:
    url = server.serve("/sdk.tar.gz", b"x" * 100_000) + "?token=TOP&x=1"
    server.serve("/sdk.tar.gz.sha256", DIGEST)
    offer = ask_archive(session, request(url))
    assert isinstance(offer, TarOffer)
    assert (offer.sha256, offer.pieces[0].url, offer.pieces[0].size) == (DIGEST, url, 100_000)
    assert "TOP" not in offer.title + offer.first_seen_name


@pytest.mark.parametrize("answer", [b"x" * 100_000, b"<html><title>Please sign in</title>", b"denied"])
def test_what_a_server_says_to_a_signature_for_another_file_is_no_hash(
    session: Session, server: Loopback, answer: bytes
) -> None:
    url = server.serve("/sdk.tar.gz", b"x" * 100_000) + "?token=TOP"
    server.serve("/sdk.tar.gz.sha256", answer)
    offer = ask_archive(session, request(url))
    assert isinstance(offer, TarOffer)
    assert offer.sha256 == ""


def test_a_mirrors_signature_stays_behind_the_path(session: Session, server: Loopback) -> None:
    release = find_release("5.0.0")
    archive = release.archives_for("linux-x64")[0]
    server.serve(f"/os/{release.folder}/{archive.file}", b"x")
    offer = ask_mirror(session, request(), base=f"{server.url}/os?token=TOP", source="mirror")
    assert isinstance(offer, TarOffer)
    assert offer.pieces[0].url == f"{server.url}/os/{release.folder}/{archive.file}?token=TOP"


MALFORMED = [
    "https://anna:SECRET@[x/sdk.tar.gz?token=SECRET",
    "https://anna:SECRET@host:port/sdk.tar.gz?token=SECRET",
    "https://anna:SECRET@host:99999/sdk.tar.gz?token=SECRET",
    "https://anna:SEC/SECRET@host/sdk.tar.gz",
    "https://anna:SEC?SECRET@host/sdk.tar.gz",
    "https:/anna:SECRET@host/sdk.tar.gz?token=SECRET",
    "HTTPS://anna:SECRET@?token=SECRET",
    "ftp://anna:SECRET@host/sdk.tar.gz?token=SECRET",
    "anna:SECRET@host/sdk.tar.gz?token=SECRET",
    "file://[SECRET?token=SECRET",
]


@pytest.mark.parametrize("option", ["--archive", "--mirror"])
@pytest.mark.parametrize("url", MALFORMED)
def test_a_malformed_address_is_refused_without_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str, option: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        OhforgeProgram().run(["ohforge", "sdk.fetch", "5.0.0", option, url, "--json"])
    said = capsys.readouterr()
    assert (end.value.code, json.loads(said.out)["error"]["code"]) == (64, "OHF6401")
    assert "SEC" not in (said.out + said.err).replace("file://[SECRET", "")


SIGNED = "https://anna:SECRET@x.invalid/a.tar.gz?token=SECRET"
MISPLACED = [
    ["sdk.fetch", "5.0.0", SIGNED], ["sdk.fetch", "--archive", SIGNED, SIGNED], ["sdk.fetch", SIGNED], [SIGNED],
    ["sdk.fetch", "5.0.0", "anna:SECRET@host?token=SECRET"], ["sdk.fetch", f"--json={SIGNED}"],
    ["sdk.fetch", "--host", SIGNED], ["sdk.fetch", "--sha256", SIGNED, "--archive", "nosuch"], ["build", SIGNED],
    ["sdk.fetch", "--archive", SIGNED, "--mirror", SIGNED], ["sdk.verify", SIGNED], ["model.fetch", SIGNED],
    ["build", "--target", SIGNED], ["board.info", "--board", SIGNED], ["model.inspect", SIGNED], ["build", "--jobs", SIGNED],
]  # fmt: skip


@pytest.mark.parametrize("words", MISPLACED, ids=" ".join)
def test_an_address_in_the_wrong_place_does_not_tell_its_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    status, out, err = said_by([*words, "--json"])
    assert (status != 99, json.loads(out)["ok"]) == (True, False)
    assert "SECRET" not in out + err


def test_a_word_with_a_question_mark_is_no_address() -> None:
    assert "'what?'" in unknown_name("task", "what?", ["build"]).message


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://host/a/b.tar.gz", "https://host/a/b.tar.gz"),
        ("https://anna:SECRET@host:8443/a@b?token=SECRET#SECRET", "https://host:8443/a@b"),
        ("https://anna:SE@CRET@host/a", "https://host/a"),
        ("http://[::1]:80/a?b", "http://[::1]:80/a"),
        ("file:///tmp/an sdk.tar.gz", "file:///tmp/an sdk.tar.gz"),
        ("daily:master", "daily:master"),
        ("ssh://anna@lab1:22/7001", "ssh://anna@lab1:22/7001"),
        ("ssh://anna:SECRET@lab1", "ssh://lab1"),
        ("https://anna:SEC/RET@host/a", "https://…"),
        ("anna:SECRET@host", "…"),
    ],
)
def test_an_address_is_shown_without_secrets(url: str, text: str) -> None:
    assert shown(url) == text


def test_an_address_in_a_sentence_ends_before_the_punctuation() -> None:
    text = "Neither ssh://anna@lab1, nor (https://anna:SECRET@host/a?token=SECRET): 'https://TOKEN@host/b'."
    assert without_secrets(text) == "Neither ssh://anna@lab1, nor (https://host/a): 'https://host/b'."


def test_what_a_client_says_of_an_address_is_not_repeated(session: Session) -> None:
    with pytest.raises(UsageError) as caught:
        Fetch(session, "https://anna:SECRET@.host/sdk?token=SECRET").probe()
    assert "SECRET" not in caught.value.message


@pytest.mark.parametrize(
    "answer", [b"[" * 200_000, b'{"a":' * 200_000, b"[" + b"0," * 9_000_000, b"\xff\xfe\xfd", b"nothing"]
)
def test_an_answer_that_is_deep_huge_or_no_json_is_not_the_list_that_was_asked_for(
    session: Session, server: Loopback, answer: bytes
) -> None:
    url = server.answer_posts("/list", lambda body: (200, answer))
    with pytest.raises(NotTheFile):
        post_json(session, url, {})
