"""Servers that answer with something else than the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.download import download
from core.errors import (
    IntegrityError,
    NetworkError,
    NotFoundOnServer,
    NotTheFile,
)
from core.session import Session
from tests.shared.loopback import Loopback
from tests.support.downloads import CONTENT, DIGEST, left_in


def test_a_damaged_part_is_noticed_and_the_file_fetched_once_more(
    session: Session, server: Loopback, target: Path
) -> None:
    url = server.serve("/file.bin", CONTENT)
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(b"\0" * 1_000_000)
    got = download(session, url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT
    assert got.bytes_reused == 0


def test_a_wrong_hash_shows_both_and_sets_the_file_aside(session: Session, server: Loopback, target: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    wanted = "ab" * 32
    with pytest.raises(IntegrityError) as caught:
        download(session, url, target, sha256=wanted)
    assert wanted in caught.value.message
    assert DIGEST in caught.value.message
    assert caught.value.exit_status == 67
    assert not target.exists()
    assert f"file.bin.rejected-{DIGEST[:12]}" in left_in(target.parent)


def test_a_bit_that_flipped_on_the_way_is_noticed(session: Session, server: Loopback, target: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "corrupt", at=1_234_567)
    with pytest.raises(IntegrityError):
        download(session, url, target, sha256=DIGEST)
    assert not target.exists()


@pytest.mark.parametrize("code", [500, 502, 503, 504, 408, 425, 429])
def test_a_status_that_may_heal_is_tried_again(session: Session, server: Loopback, target: Path, code: int) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "status", code=code, times=2, retry_after="0")
    download(session, url, target, sha256=DIGEST)
    assert len(server.seen) == 3


@pytest.mark.parametrize("code", [400, 401, 403, 404, 410, 451])
def test_a_status_that_will_not_heal_is_reported_at_once(
    session: Session, server: Loopback, target: Path, code: int
) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "status", code=code, times=-1)
    with pytest.raises(NotFoundOnServer, match=f"HTTP {code}") as caught:
        download(session, url, target, sha256=DIGEST)
    assert caught.value.exit_status == 66
    assert len(server.seen) == 1


def test_a_retry_after_in_the_far_future_is_reported_instead_of_waited_for(
    session: Session, server: Loopback, target: Path
) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "status", code=429, times=-1, retry_after="86400")
    with pytest.raises(NetworkError, match="asks to wait 86400 s"):
        download(session, url, target)
    assert len(server.seen) == 1


def test_a_login_page_instead_of_the_file_is_named(session: Session, server: Loopback, target: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "html")
    with pytest.raises(NotTheFile, match="Guest network - sign in") as caught:
        download(session, url, target, sha256=DIGEST)
    assert caught.value.exit_status == 66
    assert not target.exists()


@pytest.mark.parametrize("fault", ["", "no_length"])
def test_a_file_of_another_size_than_announced_is_named(
    session: Session, server: Loopback, target: Path, fault: str
) -> None:
    url = server.serve("/file.bin", b"too short")
    if fault:
        server.fault("/file.bin", fault)
    with pytest.raises(NotTheFile, match=r"9 bytes.*3000000 bytes"):
        download(session, url, target, sha256=DIGEST, size=len(CONTENT))
    assert not target.exists()


def test_an_answer_with_another_range_is_not_joined(session: Session, server: Loopback, target: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(CONTENT[:1_000_000])
    server.fault("/file.bin", "wrong_range")
    with pytest.raises(NotTheFile, match="range"):
        download(session, url, target, sha256=DIGEST)
