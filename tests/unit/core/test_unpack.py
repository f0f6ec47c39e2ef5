"""Archives, honest and hostile. The honest ones are compared with what `tar` and `unzip` make of them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import lzma
import os
import stat
import subprocess
import tarfile
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from core.errors import DamagedArchive, HostileArchive
from core.files import remove_tree
from core.tree import Limits
from core.unpack import read_zip_member, unpack_tar, unpack_zip

Entry = tuple[str, bytes | str | None, int]
"""(name, content, mode): text is a link's target, None a folder."""
TREE: list[Entry] = [
    ("top/vendor/tree/CMakeLists.txt", b"project(x)\n", 0o644),
    ("top/vendor/tree/tools/run.sh", b"#!/bin/sh\n", 0o755),
    ("top/vendor/tree/tools/again.sh", "run.sh", 0o777),
    ("top/vendor/tree/models/big.bin", b"\0" * 5000, 0o644),
    ("top/vendor/tree/empty/", None, 0o755),
    ("top/setup.py", b"import os\n", 0o644),
]


def make_tar(path: Path, entries: list[Entry], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, content, bits in entries:
            info = tarfile.TarInfo(name.rstrip("/"))
            info.mode = bits
            if content is None:
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            elif isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def make_zip(path: Path, entries: list[Entry], *, type_bits: bool = False) -> Path:
    """A zip as the OpenHarmony build writes it: regular files without type bits, links with them."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content, bits in entries:
            info = zipfile.ZipInfo(name, (2001, 1, 1, 0, 0, 0))
            info.create_system = 3
            kind = stat.S_IFLNK if isinstance(content, str) else stat.S_IFREG if type_bits else 0
            info.external_attr = (kind | bits) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, content.encode() if isinstance(content, str) else content or b"")
    return path


def listing(folder: Path) -> dict[str, tuple[str, int | str]]:
    found: dict[str, tuple[str, int | str]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder", "")
        else:
            found[name] = (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode & 0o777)
    return found


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_tar_unpacks_to_what_tar_makes_of_it(tmp_path: Path, mode: str) -> None:
    archive = make_tar(tmp_path / "a.tar", TREE, mode)
    (tmp_path / "reference").mkdir()
    subprocess.run(["tar", "-xf", archive, "-C", tmp_path / "reference"], check=True)
    done = unpack_tar(archive, tmp_path / "ours")
    assert listing(tmp_path / "ours") == listing(tmp_path / "reference")
    assert (done.files, done.links) == (4, 1)


def test_a_zip_unpacks_to_what_unzip_makes_of_it(tmp_path: Path) -> None:
    archive = make_zip(tmp_path / "a.zip", TREE)
    subprocess.run(["unzip", "-q", archive, "-d", tmp_path / "reference"], check=True)
    unpack_zip(archive, tmp_path / "ours")
    assert listing(tmp_path / "ours") == listing(tmp_path / "reference")
    assert os.access(tmp_path / "ours/top/vendor/tree/tools/again.sh", os.X_OK)


@pytest.mark.parametrize("unpack", [unpack_tar, unpack_zip])
def test_only_the_subfolder_without_what_is_excluded_is_unpacked(tmp_path: Path, unpack: Callable[..., object]) -> None:
    make = make_tar if unpack is unpack_tar else make_zip
    archive = make(tmp_path / "archive", TREE)
    unpack(archive, tmp_path / "out", subfolder="*/vendor/tree", exclude=("models", "*.txt"))
    assert sorted(listing(tmp_path / "out")) == ["empty", "tools", "tools/again.sh", "tools/run.sh"]


def test_a_subfolder_that_is_not_there_is_named(tmp_path: Path) -> None:
    archive = make_tar(tmp_path / "a.tar.gz", TREE)
    with pytest.raises(DamagedArchive, match="no files below top/other"):
        unpack_tar(archive, tmp_path / "out", subfolder="top/other")
    assert not (tmp_path / "out").exists()


HOSTILE: dict[str, list[Entry]] = {
    "absolute name": [("/etc/passwd", b"x", 0o644)],
    "dots": [("a/../../b", b"x", 0o644)],
    "dots at the end": [("a/..", None, 0o755)],
    "drive": [("C:/windows/x", b"x", 0o644)],
    "backslash": [("..\\..\\x", b"x", 0o644)],
    "newline": [("a\nb", b"x", 0o644)],
    "absolute link": [("a", "/etc/passwd", 0o777), ("f", b"", 0o644)],
    "link out": [("d/a", "../../x", 0o777), ("f", b"", 0o644)],
    "file through link": [("a", "d", 0o777), ("d/f", b"", 0o644), ("a/x", b"x", 0o644)],
    "links in a circle": [("a", "b", 0o777), ("b", "a", 0o777), ("f", b"", 0o644)],
    "link over file": [("a", b"x", 0o644), ("a", "b", 0o777)],
    "same name twice": [("a", b"x", 0o644), ("a", b"y", 0o644)],
    "file that is a folder": [("a", b"x", 0o644), ("a/b", b"y", 0o644)],
    "part of 300 bytes": [("a" * 300, b"x", 0o644)],
    "part of 130 letters of two bytes": [("é" * 130, b"x", 0o644)],
    "folders nested 1,990 deep": [("d/" * 1990 + "f", b"x", 0o644)],
    "name of 2,000 bytes": [("/".join(["d" * 99] * 20), b"x", 0o644)],
    "escape": [("a\x1b[2Jb", b"x", 0o644)],
    "C1 control": [("a\x9b2Jb", b"x", 0o644)],
    "link of 2,000 bytes": [("a", "b/../" * 400 + "f", 0o777), ("f", b"", 0o644)],
    "link with an escape": [("a", "\x1b[2J", 0o777), ("f", b"", 0o644)],
    "link that climbs through a link": [("d/e/l", "..", 0o777), ("m", "d/e/l/../../..", 0o777), ("d/f", b"", 0o644)],
}


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_that_reaches_out_of_its_folder_is_refused(tmp_path: Path, case: str, kind: str) -> None:
    make = make_tar if kind == "tar" else make_zip
    unpack = unpack_tar if kind == "tar" else unpack_zip
    box = tmp_path / "box"
    box.mkdir()
    archive = make(tmp_path / "bad", HOSTILE[case])
    with pytest.raises(HostileArchive) as caught:
        unpack(archive, box / "out")
    assert caught.value.exit_status == 67
    assert list(box.iterdir()) == []


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_a_device_node_or_pipe_is_refused(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        info = tarfile.TarInfo("dev")
        info.type = kind
        tar.addfile(info)
    with pytest.raises(HostileArchive, match="neither a file"):
        unpack_tar(tmp_path / "a.tar", tmp_path / "out")


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.GNU_FORMAT, encoding="latin-1") as tar:
        tar.addfile(tarfile.TarInfo("caf\xe9"))
    with pytest.raises(HostileArchive):
        unpack_tar(tmp_path / "a.tar", tmp_path / "out")
    path = make_zip(tmp_path / "a.zip", [("caf\xe9", b"x", 0o644)])
    path.write_bytes(path.read_bytes().replace(b"caf\xc3\xa9", b"caf\xff\xff"))
    with pytest.raises(DamagedArchive):
        unpack_zip(path, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "a.zip"]


def test_the_longest_and_deepest_names_that_are_allowed_unpack(tmp_path: Path) -> None:
    names = ["a" * 255, "d/" * 99 + "f", "/".join(["d" * 203] * 5)]
    done = unpack_zip(make_zip(tmp_path / "a.zip", [(name, b"x", 0o644) for name in names]), tmp_path / "out")
    assert done.files == 3
    assert all((tmp_path / "out" / name).read_bytes() == b"x" for name in names)


ODD_PAX = [
    {"size": "-1"}, {"size": "-512"}, {"size": "1e9"}, {"path": ""}, {"path": "a\0b"}, {"linkpath": "x" * 3000},
    {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}, {"GNU.sparse.map": "a,b"}, {"GNU.sparse.size": "x"},
    {"GNU.sparse.map": "0,1,2"}, {"hdrcharset": "BINARY"}, {"uid": "9" * 5000}, {"mtime": "nan"},
]  # fmt: skip


@pytest.mark.parametrize("records", ODD_PAX, ids=repr)
def test_oddities_of_pax_unpack_or_are_refused_and_nothing_else(tmp_path: Path, records: dict[str, str]) -> None:
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("one", "two"):
            info = tarfile.TarInfo(name)
            info.size, info.pax_headers = 5, records
            tar.addfile(info, io.BytesIO(b"12345"))
    try:
        unpack_tar(tmp_path / "a.tar", tmp_path / "out")
    except (DamagedArchive, HostileArchive):
        assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]
    else:
        assert len(list((tmp_path / "out").iterdir())) == 2


ZIP_FIELDS = {
    # APPNOTE 4.3.12 and 4.3.16: bytes from the begin of the record, and what is written there
    "version 25.5": (b"PK\x01\x02", 6, b"\xff\0"),
    "encrypted": (b"PK\x01\x02", 8, b"\x01\0"),
    "compression by xz": (b"PK\x01\x02", 10, b"\x5f\0"),
    "compression by lzma": (b"PK\x01\x02", 10, b"\x0e\0"),
    "offset of the entry": (b"PK\x01\x02", 42, b"\xff\xff\xff\x7f"),
    "size of the entry": (b"PK\x01\x02", 24, b"\xff\xff\xff\xff"),
    "size of the directory": (b"PK\x05\x06", 12, b"\xff\xff\xff\xff"),
    "small directory": (b"PK\x05\x06", 12, b"\x01\0\0\0"),
    "begin of the directory": (b"PK\x05\x06", 16, b"\xff\xff\xff\xff"),
    "directory that begins late": (b"PK\x05\x06", 16, b"\xf0\0\0\0"),
}


@pytest.mark.parametrize("case", ZIP_FIELDS)
def test_a_bogus_directory_of_a_zip_is_refused(tmp_path: Path, case: str) -> None:
    record, at, lie = ZIP_FIELDS[case]
    path = make_zip(tmp_path / "a.zip", [("f", b"y" * 1000, 0o644)])
    content = bytearray(path.read_bytes())
    at += content.rindex(record)
    content[at : at + len(lie)] = lie
    path.write_bytes(content)
    with pytest.raises((HostileArchive, DamagedArchive)):
        unpack_zip(path, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zip"]


@hypothesis_settings(max_examples=300)
@given(at=st.integers(0, 1 << 16), junk=st.binary(min_size=1, max_size=12), kind=st.sampled_from(["tar", "gz", "zip"]))
def test_an_archive_with_any_bytes_changed_unpacks_or_is_refused(
    tmp_path: Path, at: int, junk: bytes, kind: str
) -> None:
    whole = tmp_path / f"whole.{kind}"
    if not whole.exists():
        make_zip(whole, TREE) if kind == "zip" else make_tar(whole, TREE, "w" if kind == "tar" else "w:gz")
    content = bytearray(whole.read_bytes())
    at %= len(content)
    content[at : at + len(junk)] = junk
    (tmp_path / "changed").write_bytes(content)
    try:
        (unpack_zip if kind == "zip" else unpack_tar)(tmp_path / "changed", tmp_path / "out")
    except (DamagedArchive, HostileArchive):
        assert not list(tmp_path.glob("*out*"))
    remove_tree(tmp_path / "out")


def test_a_hard_link_to_a_file_of_the_archive_is_kept_and_another_is_refused(tmp_path: Path) -> None:
    def with_link(name: str, to: str) -> Path:
        path = tmp_path / name
        with tarfile.open(path, "w") as tar:
            info = tarfile.TarInfo("a")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
            link = tarfile.TarInfo("b")
            link.type, link.linkname = tarfile.LNKTYPE, to
            tar.addfile(link)
        return path

    unpack_tar(with_link("good.tar", "a"), tmp_path / "out")
    assert (tmp_path / "out/b").read_bytes() == b"x"
    with pytest.raises(HostileArchive):
        unpack_tar(with_link("bad.tar", "../../etc/passwd"), tmp_path / "other")
    with pytest.raises(DamagedArchive, match="not in it"):
        unpack_tar(with_link("lost.tar", "absent"), tmp_path / "other")


def test_bombs_are_refused(tmp_path: Path) -> None:
    limits = Limits(entries=10, ratio=10, ratio_from=1000, total_bytes=1_000_000)
    big = make_zip(tmp_path / "big.zip", [("zeros", b"\0" * 500_000, 0o644)])
    with pytest.raises(HostileArchive, match="fill the disk"):
        unpack_zip(big, tmp_path / "out", limits=limits)
    big = make_tar(tmp_path / "big.tar.gz", [("zeros", b"\0" * 500_000, 0o644)])
    with pytest.raises(HostileArchive, match="fill the disk"):
        unpack_tar(big, tmp_path / "out", limits=limits)
    many = make_zip(tmp_path / "many.zip", [(f"f{n}", b"", 0o644) for n in range(20)])
    with pytest.raises(HostileArchive, match="more than 10 entries"):
        unpack_zip(many, tmp_path / "out", limits=limits)
    long_header = tmp_path / "pax.tar"
    with tarfile.open(long_header, "w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "x" * 2_000_000}) as tar:
        tar.addfile(tarfile.TarInfo("a"))
    with pytest.raises(HostileArchive, match="header extension"):
        unpack_tar(long_header, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_zip_whose_entry_is_longer_than_its_directory_says_is_refused(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", [("f", b"y" * 100_000, 0o644)])
    content = path.read_bytes()
    central = content.rindex(b"PK\x01\x02")
    lied = content[: central + 24] + (10).to_bytes(4, "little") + content[central + 28 :]
    path.write_bytes(lied)
    with pytest.raises((HostileArchive, DamagedArchive)):
        unpack_zip(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@hypothesis_settings(max_examples=60)
@given(fraction=st.floats(0, 1, exclude_max=True), kind=st.sampled_from(["gz", "xz", "zip"]))
def test_an_archive_cut_at_any_byte_leaves_no_folder(tmp_path: Path, fraction: float, kind: str) -> None:
    noise: list[Entry] = [(f"top/{n}", os.urandom(2000), 0o644) for n in range(3)]
    whole = tmp_path / f"whole.{kind}"
    if not whole.exists():
        make_zip(whole, noise) if kind == "zip" else make_tar(whole, noise, f"w:{kind}")
    content = whole.read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(content[: int(len(content) * fraction)])
    with pytest.raises(DamagedArchive):
        (unpack_zip if kind == "zip" else unpack_tar)(cut, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_flipped_bit_in_an_archive_is_noticed(tmp_path: Path) -> None:
    for kind in ("gz", "xz", "zip"):
        noise: list[Entry] = [("top/a", os.urandom(20_000), 0o644)]
        path = tmp_path / f"a.{kind}"
        make_zip(path, noise) if kind == "zip" else make_tar(path, noise, f"w:{kind}")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)
        with pytest.raises(DamagedArchive):
            (unpack_zip if kind == "zip" else unpack_tar)(path, tmp_path / "out")


def test_a_web_page_or_another_kind_of_archive_is_named(tmp_path: Path) -> None:
    page = tmp_path / "page.tar.gz"
    page.write_text("<html>sign in</html>" * 100)
    with pytest.raises(DamagedArchive):
        unpack_tar(page, tmp_path / "out")
    with pytest.raises(DamagedArchive):
        unpack_zip(page, tmp_path / "out")
    with pytest.raises(DamagedArchive, match="is a zip file"):
        unpack_tar(make_zip(tmp_path / "a.zip", TREE), tmp_path / "out")
    with pytest.raises(DamagedArchive, match="no archive"):
        unpack_tar(tmp_path / "absent", tmp_path / "out")


def test_compression_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    inner = make_tar(tmp_path / "a.tar", TREE, "w").read_bytes()
    (tmp_path / "odd.tar.gz").write_bytes(lzma.compress(inner))
    unpack_tar(tmp_path / "odd.tar.gz", tmp_path / "out", subfolder="top")
    assert (tmp_path / "out/setup.py").is_file()


def test_an_xz_file_of_several_streams_with_padding_is_read_as_xz_reads_it(tmp_path: Path) -> None:
    plain = make_tar(tmp_path / "a.tar", [*TREE, ("top/noise", os.urandom(300_000), 0o644)], "w").read_bytes()
    cut = len(plain) // 3
    packed = (
        lzma.compress(plain[:cut]) + b"\0" * 2_000_000 + lzma.compress(b"") + lzma.compress(plain[cut:]) + b"\0" * 4
    )
    (tmp_path / "a.tar.xz").write_bytes(packed)
    assert subprocess.run(["xz", "-dc", tmp_path / "a.tar.xz"], capture_output=True, check=True).stdout == plain
    unpack_tar(tmp_path / "a.tar.xz", tmp_path / "out")
    unpack_tar(tmp_path / "a.tar", tmp_path / "reference")
    assert listing(tmp_path / "out") == listing(tmp_path / "reference")
    (tmp_path / "a.tar.xz").write_bytes(packed + b"not xz")
    with pytest.raises(DamagedArchive):
        unpack_tar(tmp_path / "a.tar.xz", tmp_path / "other")


def test_an_xz_file_that_asks_for_huge_memory_is_refused(tmp_path: Path) -> None:
    packed = bytearray(lzma.compress(make_tar(tmp_path / "a.tar", TREE, "w").read_bytes(), preset=6))
    # xz file format 3.1 and 5.3.1: a block's header has one filter, 0x21, with one byte: 22 is 8 MiB, 38 is 2 GiB.
    assert packed[13:17] == bytes.fromhex("00 21 01 16")
    packed[16] = 38
    end = 12 + (packed[12] + 1) * 4
    packed[end - 4 : end] = zlib.crc32(packed[12 : end - 4]).to_bytes(4, "little")
    (tmp_path / "a.tar.xz").write_bytes(packed)
    asked = subprocess.run(["xz", "-lvv", tmp_path / "a.tar.xz"], capture_output=True, text=True, check=True)
    assert "2049 MiB" in asked.stdout
    with pytest.raises(HostileArchive, match=r"268\.4 MB of memory"):
        unpack_tar(tmp_path / "a.tar.xz", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar", "a.tar.xz"]


def test_an_xz_file_of_the_highest_usual_preset_unpacks(tmp_path: Path) -> None:
    plain = make_tar(tmp_path / "a.tar", TREE, "w").read_bytes()
    (tmp_path / "a.tar.xz").write_bytes(lzma.compress(plain, preset=9 | lzma.PRESET_EXTREME))
    assert unpack_tar(tmp_path / "a.tar.xz", tmp_path / "out").files == 4


def test_a_member_that_claims_more_than_any_archive_holds_is_refused_at_once(tmp_path: Path) -> None:
    huge = 1 << 62
    sparse = tarfile.TarInfo("x")
    sparse.type = tarfile.GNUTYPE_SPARSE
    for info in (tarfile.TarInfo("x"), sparse):
        info.size = huge
        (tmp_path / "a.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))
        with pytest.raises(HostileArchive, match="fill the disk"):
            unpack_tar(tmp_path / "a.tar", tmp_path / "out", subfolder="other")


def test_a_member_of_a_zip_is_read_or_refused_as_all_of_it_is(tmp_path: Path) -> None:
    path = make_zip(tmp_path / "a.zip", [("f", b"y" * 3_000_000, 0o644)])
    assert b"".join(read_zip_member(path, "f")) == b"y" * 3_000_000
    whole = path.read_bytes()
    with pytest.raises(DamagedArchive):
        list(read_zip_member(path, "g"))
    for case, (record, at, lie) in ZIP_FIELDS.items():
        content = bytearray(whole)
        begin = content.rindex(record) + at
        content[begin : begin + len(lie)] = lie
        path.write_bytes(content)
        if case == "size of the entry":  # it is not believed
            assert b"".join(read_zip_member(path, "f")) == b"y" * 3_000_000
            continue
        with pytest.raises(DamagedArchive):
            list(read_zip_member(path, "f"))


@pytest.mark.parametrize("packed_bytes", [1, 0xFFFFFFF0])
def test_a_link_in_a_zip_takes_the_memory_of_a_link(tmp_path: Path, packed_bytes: int) -> None:
    path = make_zip(tmp_path / "a.zip", [("f", b"x", 0o644), ("l", "f", 0o777)])
    content = bytearray(path.read_bytes())
    row = content.rindex(b"PK\x01\x02")
    content[row + 10 : row + 12] = b"\0\0"  # stored; APPNOTE 4.3.12
    content[row + 20 : row + 24] = packed_bytes.to_bytes(4, "little")
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with contextlib.suppress(DamagedArchive, HostileArchive):
            unpack_zip(path, tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
