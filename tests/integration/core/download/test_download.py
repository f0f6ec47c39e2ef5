"""A file from a server on loopback: resumed, verified, written whole or not at all."""

from __future__ import annotations

import dataclasses
import hashlib
import multiprocessing
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from core.download import download, download_cached
from core.errors import (
    CannotWrite,
    NetworkError,
    NotEnoughSpace,
    NotFoundOnServer,
    Offline,
    OhforgeError,
    UsageError,
)
from core.session import Session
from tests.shared.loopback import Loopback
from tests.support.downloads import CONTENT, DIGEST, left_in


def test_a_file_arrives_whole_with_its_hash(session: Session, server: Loopback, target: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    got = download(session, url, target, sha256=DIGEST, size=len(CONTENT))
    assert target.read_bytes() == CONTENT
    assert (got.sha256, got.bytes_downloaded, got.bytes_reused) == (DIGEST, len(CONTENT), 0)


def test_a_file_with_the_right_hash_is_not_asked_for_again(session: Session, server: Loopback, target: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    download(session, url, target, sha256=DIGEST)
    again = download(session, url, target, sha256=DIGEST)
    assert len(server.seen) == 1
    assert (again.bytes_downloaded, again.bytes_reused) == (0, len(CONTENT))


@pytest.mark.parametrize("fault", ["cut", "end_early"])
def test_a_cut_transfer_goes_on_where_it_stopped(session: Session, server: Loopback, target: Path, fault: str) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", fault, after=2_000_000)
    got = download(session, url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT
    first, second = server.requests_of("/file.bin")
    assert first.range == ""
    begin = int(second.range.removeprefix("bytes=").removesuffix("-"))
    assert 0 < begin <= 2_000_000
    assert second.headers["if-range"] == server.files["/file.bin"].tag
    assert got.bytes_downloaded == len(CONTENT)


@pytest.mark.parametrize("there", [CONTENT[:1000], b"old", None], ids=["begin of the file", "other", "nothing"])
def test_a_link_in_place_of_a_part_is_not_written_through(
    session: Session, server: Loopback, target: Path, there: bytes | None
) -> None:
    url, precious = server.serve("/file.bin", CONTENT), target.with_name("precious")
    target.parent.mkdir(exist_ok=True)
    if there is not None:
        precious.write_bytes(there)
    target.with_name("file.bin.part").symlink_to(precious)
    got = download(session, url, target, sha256=DIGEST)
    assert (target.read_bytes(), got.bytes_reused, target.is_symlink()) == (CONTENT, 0, False)
    assert (precious.read_bytes() if precious.exists() else None) == there


def test_a_cut_transfer_leaves_no_file_under_the_final_name(session: Session, server: Loopback, target: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "end_early", after=1_500_000)
    server.fault("/file.bin", "status", code=503, skip=1, times=-1)
    with pytest.raises(NetworkError, match="without progress"):
        download(session, url, target, sha256=DIGEST)
    assert left_in(target.parent) == ["file.bin.origin.json", "file.bin.part"]
    assert target.with_name("file.bin.part").read_bytes() == CONTENT[:1_500_000]


@hypothesis_settings(max_examples=40)
@given(cut=st.integers(0, 99_999), etag=st.booleans(), dated=st.booleans(), hashed=st.booleans())
def test_a_download_cut_at_any_byte_and_resumed_by_another_call_is_the_same_file(
    session: Session, server: Loopback, tmp_path: Path, cut: int, etag: bool, dated: bool, hashed: bool
) -> None:
    content = CONTENT[:100_000]
    url = server.serve("/small.bin", content, etag=etag, last_modified=dated)
    target = tmp_path / f"{cut}-{etag}-{dated}-{hashed}" / "small.bin"
    server.fault("/small.bin", "end_early", after=cut)
    server.fault("/small.bin", "status", code=404, skip=1)
    digest = hashlib.sha256(content).hexdigest()
    with pytest.raises(NotFoundOnServer):
        download(session, url, target, sha256=digest if hashed else "")
    got = download(session, url, target, sha256=digest if hashed else "")
    assert target.read_bytes() == content
    assert got.sha256 == digest
    may_resume = etag or dated or hashed
    assert got.bytes_reused == (cut if may_resume else 0)
    assert got.bytes_downloaded == len(content) - got.bytes_reused


def test_a_server_without_ranges_sends_the_file_from_its_beginning(
    session: Session, server: Loopback, target: Path
) -> None:
    url = server.serve("/file.bin", CONTENT)
    target.parent.mkdir()
    target.with_name("file.bin.part").write_bytes(CONTENT[:1_000_000])
    server.fault("/file.bin", "no_ranges")
    got = download(session, url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT
    assert (got.bytes_downloaded, got.bytes_reused) == (len(CONTENT), 0)


def test_a_part_of_an_older_edition_is_not_joined_to_the_new_one(
    session: Session, server: Loopback, target: Path
) -> None:
    old = server.serve("/file.bin", bytes(len(CONTENT)))
    server.fault("/file.bin", "end_early", after=1_000_000)
    server.fault("/file.bin", "status", code=404, skip=1)
    with pytest.raises(NotFoundOnServer):
        download(session, old, target)
    url = server.serve("/file.bin", CONTENT)
    got = download(session, url, target)
    assert target.read_bytes() == CONTENT
    assert got.sha256 == DIGEST


def test_a_file_without_announced_length_arrives(session: Session, server: Loopback, target: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "no_length")
    assert download(session, url, target, sha256=DIGEST).path.read_bytes() == CONTENT


def test_a_redirect_is_followed(session: Session, server: Loopback, target: Path) -> None:
    server.serve("/real.bin", CONTENT)
    url = server.redirect("/moved.bin", "/real.bin")
    download(session, url, target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT


def test_passwords_in_addresses_are_not_shown(session: Session, server: Loopback, target: Path) -> None:
    url = server.url.replace("http://", "http://me:secret@") + "/absent?token=hidden"
    with pytest.raises(NotFoundOnServer) as caught:
        download(session, url, target)
    assert "secret" not in caught.value.message
    assert "hidden" not in caught.value.message


def test_something_that_is_no_address_is_a_usage_error(session: Session, target: Path) -> None:
    with pytest.raises(UsageError):
        download(session, "gopher://example/file", target)


def test_offline_no_socket_is_opened(
    session: Session, server: Loopback, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.serve("/file.bin", CONTENT)
    offline = dataclasses.replace(session, settings=dataclasses.replace(session.settings, offline=True))

    def no_socket(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", no_socket)
    monkeypatch.setattr(socket, "getaddrinfo", no_socket)
    with pytest.raises(Offline) as caught:
        download(offline, url, target, sha256=DIGEST)
    assert caught.value.exit_status == 66
    target.write_bytes(CONTENT)
    assert download(offline, url, target, sha256=DIGEST).bytes_downloaded == 0
    assert server.seen == []


def test_a_full_disk_is_told_before_the_first_byte_when_the_size_is_known(
    session: Session, server: Loopback, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.serve("/file.bin", CONTENT)
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("core.files.shutil.disk_usage", lambda _: usage)
    with pytest.raises(NotEnoughSpace, match=r"3\.0 MB") as caught:
        download(session, url, target, sha256=DIGEST)
    assert caught.value.exit_status == 75
    assert target.with_name("file.bin.part").stat().st_size == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_becomes_full_in_the_middle_leaves_a_part_that_resumes(
    session: Session, server: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "small", disk]).returncode:
        pytest.skip("mounting is forbidden here")
    try:
        monkeypatch.setattr("core.download.require_space", lambda *_: None)
        url = server.serve("/file.bin", CONTENT)
        with pytest.raises(NotEnoughSpace, match="became full"):
            download(session, url, disk / "file.bin", sha256=DIGEST)
        kept = (disk / "file.bin.part").stat().st_size
        assert kept > 1_000_000
        subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
        got = download(session, url, disk / "file.bin", sha256=DIGEST)
        assert got.bytes_reused == kept
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_folder_that_cannot_be_written_is_named(session: Session, server: Loopback, tmp_path: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    (tmp_path / "plain").write_text("no folder")
    with pytest.raises(CannotWrite, match="plain") as caught:
        download(session, url, tmp_path / "plain" / "file.bin")
    assert caught.value.exit_status == 77


def test_a_file_address_is_copied_and_verified(session: Session, tmp_path: Path, target: Path) -> None:
    original = tmp_path / "a file.bin"
    original.write_bytes(CONTENT)
    download(session, original.as_uri(), target, sha256=DIGEST)
    assert target.read_bytes() == CONTENT
    with pytest.raises(NotFoundOnServer):
        download(session, (tmp_path / "absent").as_uri(), target.with_name("other"))


def test_a_file_without_a_known_hash_is_asked_about_but_not_fetched_again(
    session: Session, server: Loopback, target: Path
) -> None:
    url = server.serve("/file.bin", CONTENT)
    download(session, url, target)
    assert download(session, url, target).bytes_reused == len(CONTENT)
    changed = CONTENT[::-1]
    server.serve("/file.bin", changed)
    got = download(session, url, target)
    assert target.read_bytes() == changed
    assert got.sha256 == hashlib.sha256(changed).hexdigest()


def fetch_in_another_process(session: Session, url: str, digest: str) -> int:
    return download_cached(session, url, sha256=digest).bytes_downloaded


def test_two_processes_at_once_download_once(session: Session, server: Loopback) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "slow", seconds=0.02, times=-1)
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        counts = pool.starmap(fetch_in_another_process, [(session, url, DIGEST)] * 2)
    assert sorted(counts) == [0, len(CONTENT)]
    assert len(server.seen) == 1


def test_every_failure_has_a_remedy(session: Session, server: Loopback, target: Path) -> None:
    url = server.serve("/file.bin", CONTENT)
    server.fault("/file.bin", "status", code=404)
    with pytest.raises(OhforgeError) as caught:
        download(session, url, target)
    assert caught.value.remedy
