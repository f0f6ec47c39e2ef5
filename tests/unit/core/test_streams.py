"""Hashing, decompressing and reading a tar as streams, and going on in another process from any place."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import os
import random
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import core.gunzip
import core.sha256
from core.errors import DamagedArchive, HostileArchive, HostToolMissing
from core.gunzip import Gunzip, GunzipState
from core.sha256 import new_sha256, restore_sha256
from core.tarstream import TarPlace, TarStream

NOISE = random.Random(3).randbytes(1_500_000)
TEXT = b"".join(b"line %d of a text that compresses well\n" % n for n in range(20_000))


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


# hash ------------------------------------------------------------------------------------------------


@given(content=st.binary(max_size=3000), cut=st.integers(0, 3000))
def test_a_hash_that_was_saved_anywhere_goes_on_to_the_same_digest(content: bytes, cut: int) -> None:
    first = new_sha256()
    first.update(content[:cut])
    state = first.save()
    if not state:
        pytest.skip("this Python's hash library cannot be saved")
    second = restore_sha256(state)
    assert second is not None
    second.update(content[cut:])
    assert second.hexdigest() == hashlib.sha256(content).hexdigest()
    assert first.hexdigest() == hashlib.sha256(content[:cut]).hexdigest()


def test_a_state_of_another_kind_is_not_restored() -> None:
    assert restore_sha256(b"") is None
    assert restore_sha256(b"x" * 50) is None


def test_without_a_library_that_can_save_hashing_still_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core.sha256, "_library", lambda: None)
    digest = new_sha256()
    digest.update(b"abc")
    # FIPS 180-2, appendix B.1
    assert digest.hexdigest() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert digest.save() == b""


# gzip ------------------------------------------------------------------------------------------------


def gunzip(data: bytes, size: int) -> bytes:
    decoder = Gunzip()
    plain = b"".join(part for piece in pieces(data, size) for part in decoder.feed(piece))
    decoder.finish()
    return plain


@pytest.mark.parametrize("size", [1, 7, 4096, 1 << 20])
@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_pieces_of_any_size_decompress_to_the_whole(size: int, level: int) -> None:
    plain = (TEXT + NOISE)[:60_000] if size < 10 else TEXT + NOISE
    assert gunzip(gzip.compress(plain, level), size) == plain


def test_members_one_after_another_and_padding_are_taken_as_gzip_takes_them() -> None:
    packed = gzip.compress(b"one") + gzip.compress(b"") + gzip.compress(b"two") + bytes(1000)
    assert gunzip(packed, 5) == b"onetwo"


def test_headers_with_name_comment_extra_and_checksum_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "named.txt").write_bytes(b"content")
    subprocess.run(["gzip", "--name", tmp_path / "named.txt"], check=True)
    assert gunzip((tmp_path / "named.txt.gz").read_bytes(), 3) == b"content"
    raw = zlib.compressobj(wbits=-15)
    body = raw.compress(b"content") + raw.flush()
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x03\0abc" + b"name\0" + b"comment\0"
    head += (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little")
    trailer = zlib.crc32(b"content").to_bytes(4, "little") + (7).to_bytes(4, "little")
    assert gunzip(head + body + trailer, 1) == b"content"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"<html>",
        b"PK\x03\x04",
        gzip.compress(TEXT, mtime=0)[:-1],
        gzip.compress(TEXT, mtime=0)[:5000],
        gzip.compress(TEXT, mtime=0)[:6],
        gzip.compress(TEXT, mtime=0) + b"tail",
        b"\x1f\x8b\x09" + bytes(20),
        b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 1_100_000,
    ],
)
def test_what_is_not_gzip_or_ends_early_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedArchive):
        gunzip(data, 1 << 20)


def test_a_flipped_bit_is_noticed_by_the_checksum() -> None:
    packed = bytearray(gzip.compress(NOISE))
    packed[len(packed) // 2] ^= 1
    with pytest.raises(DamagedArchive):
        gunzip(bytes(packed), 4096)


def borders(packed: bytes, size: int) -> list[tuple[int, GunzipState, bytes]]:
    """(begin of the piece, state, output so far) of all places that can be saved when `packed` is fed in pieces."""
    decoder, plain, found = Gunzip(), b"", []
    for number, piece in enumerate(pieces(packed, size)):
        for part in decoder.feed(piece):
            plain += part
            if (state := decoder.save()) is not None:
                found.append((number * size, state, plain))
    return found


@pytest.mark.parametrize("size", [1000, 1 << 17])
@pytest.mark.parametrize("tool", [["gzip", "-1"], ["gzip", "-6"], ["gzip", "-9"], "python"])
def test_decompression_goes_on_from_the_border_of_any_two_blocks(tool: list[str] | str, size: int) -> None:
    pick = random.Random(5)
    deflated = zlib.compress(b" ".join(pick.choice([TEXT[:9], NOISE[:7], b"word"]) for _ in range(100_000)), 6)
    plain = TEXT[:200_000] + deflated + NOISE[:200_000] + TEXT[:200_000]
    if tool == "python":
        packed = gzip.compress(plain, 6)
    else:
        packed = subprocess.run([*tool, "-c"], input=plain, stdout=subprocess.PIPE, check=True).stdout
    found = borders(packed, size)
    assert len(found) >= 4
    assert len({state.bits for _, state, _ in found}) > 1
    for begin, state, before in found:
        decoder = Gunzip(state)
        after = b"".join(part for piece in pieces(packed[begin:], 50_001) for part in decoder.feed(piece))
        decoder.finish()
        assert before + after == plain


def test_decompression_goes_on_from_a_member_into_those_that_follow_it() -> None:
    first = gzip.compress(NOISE[:200_000])
    packed = first + gzip.compress(b"two") + bytes(10)
    begin, state, before = [place for place in borders(packed, 5000) if place[0] < len(first)][-1]
    for size in (1, 9, 100_000):
        decoder = Gunzip(state)
        after = b"".join(part for piece in pieces(packed[begin:], size) for part in decoder.feed(piece))
        decoder.finish()
        assert before + after == NOISE[:200_000] + b"two"
    cut = Gunzip(state)
    for _ in cut.feed(packed[begin : len(first) - 3]):
        pass
    with pytest.raises(DamagedArchive):
        cut.finish()


def test_without_zlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(name)

    core.gunzip._library.cache_clear()
    monkeypatch.setattr("ctypes.CDLL", missing)
    with pytest.raises(HostToolMissing, match="zlib") as caught:
        Gunzip()
    assert "zlib1g" in caught.value.remedy


# tar -------------------------------------------------------------------------------------------------


class Collector:
    """Keeps the content of the members whose names end in .zip."""

    def __init__(self, kept: dict[str, bytearray] | None = None) -> None:
        self.kept = kept if kept is not None else {}
        self.closed: list[str] = []

    def open(self, name: str, size: int) -> Collector.Member | None:
        return Collector.Member(self, name) if name.endswith(".zip") else None

    class Member:
        def __init__(self, owner: Collector, name: str) -> None:
            self.owner, self.name = owner, name
            self.content = owner.kept.setdefault(name, bytearray())

        def write(self, data: memoryview) -> None:
            self.content += data

        def close(self) -> None:
            self.owner.closed.append(self.name)


def make_tar(form: int) -> tuple[bytes, dict[str, bytes]]:
    long = "folder/" * 30 + "native-linux-x64-1.zip"
    files = {
        "readme.txt": b"r" * 700,
        "linux/a.zip": NOISE[:3000],
        long: b"z" * 512,
        "linux/empty.zip": b"",
        "é/b.zip": b"b",
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=form) as tar:
        folder = tarfile.TarInfo("linux")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "linux/a.zip"
        tar.addfile(link)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return packed.getvalue(), {name: content for name, content in files.items() if name.endswith(".zip")}


@pytest.mark.parametrize("size", [1, 100, 512, 100_000])
@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_members_come_whole_whatever_the_size_of_the_pieces(form: int, size: int) -> None:
    packed, wanted = make_tar(form)
    collector = Collector()
    stream = TarStream(collector.open)
    for piece in pieces(packed, size):
        stream.feed(piece)
    stream.finish()
    assert {name: bytes(content) for name, content in collector.kept.items()} == wanted
    assert sorted(collector.closed) == sorted(wanted)


@hypothesis_settings(max_examples=60)
@given(cut=st.integers(0, 20_000), form=st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
def test_reading_goes_on_from_a_saved_place(cut: int, form: int) -> None:
    packed, wanted = make_tar(form)
    kept: dict[str, bytearray] = {}
    first = TarStream(Collector(kept).open)
    first.feed(packed[:cut])
    place = TarPlace(**dataclasses.asdict(first.place))
    second = TarStream(Collector(kept).open, place)
    second.feed(packed[cut:])
    second.finish()
    assert {name: bytes(content) for name, content in kept.items()} == wanted


def test_a_tar_that_is_cut_damaged_or_hostile_is_refused() -> None:
    packed, _ = make_tar(tarfile.GNU_FORMAT)
    cut = TarStream(Collector().open)
    cut.feed(packed[:3000])
    with pytest.raises(DamagedArchive, match="in the middle of"):
        cut.finish()
    with pytest.raises(DamagedArchive):
        TarStream(Collector().open).feed(b"this is no tar" * 100)
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 32
    with pytest.raises(HostileArchive):
        TarStream(Collector().open).feed(header.tobuf(tarfile.GNU_FORMAT))
    pax = tarfile.TarInfo("x")
    pax.type, pax.size = tarfile.XHDTYPE, 10
    with pytest.raises(DamagedArchive):
        TarStream(Collector().open).feed(pax.tobuf(tarfile.GNU_FORMAT) + b"notanumber" + bytes(502))


def tar_header(size_field: bytes = b"00000000000\0", kind: bytes = tarfile.REGTYPE) -> bytes:
    """A header block as POSIX ustar has it, with any bytes as its size."""
    block = b"a.zip".ljust(100, b"\0") + b"0000644\0" + 2 * b"0000000\0" + size_field + b"00000000000\0"
    block += b" " * 8 + kind + bytes(100) + b"ustar\00000" + bytes(247)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.XHDTYPE, tarfile.XGLTYPE, b"L"])
def test_a_member_of_less_than_no_bytes_is_damage_and_no_endless_loop(kind: bytes) -> None:
    minus_512 = (256**12 - 512).to_bytes(12, "big")
    with pytest.raises(DamagedArchive):
        TarStream(Collector().open).feed(tar_header(minus_512, kind))


@pytest.mark.parametrize(
    "records",
    [
        b"9 size=-1\n",
        "9 size=²\n".encode(),
        b"11 size=1e9\n",
        b"5015 size=" + b"9" * 5000 + b"\n",
        b"9" * 5000 + b" size=1\n",
        b"1 size=1\n",
        b"0 size=1\n",
    ],
)
def test_numbers_that_are_none_in_a_header_extension_are_damage(records: bytes) -> None:
    size = b"%011o\0" % len(records)
    with pytest.raises(DamagedArchive):
        TarStream(Collector().open).feed(
            tar_header(size, tarfile.XHDTYPE) + records + bytes(-len(records) % 512) + tar_header()
        )


def test_a_tar_made_by_tar_itself_is_read(tmp_path: Path) -> None:
    (tmp_path / "linux").mkdir()
    (tmp_path / "linux/native.zip").write_bytes(NOISE[:10_000])
    os.truncate(tmp_path / "linux/native.zip", 9_999)
    packed = subprocess.run(["tar", "-c", "linux"], cwd=tmp_path, stdout=subprocess.PIPE, check=True).stdout
    collector = Collector()
    stream = TarStream(collector.open)
    stream.feed(packed)
    stream.finish()
    assert collector.kept == {"linux/native.zip": bytearray(NOISE[:9_999])}
