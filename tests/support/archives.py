"""Archives by a grammar: members with odd names, types, sizes and headers, packed by hand so that each field can lie.

Everything is drawn from a `random.Random`, so that a seed, Hypothesis or another fuzzer decides. Forms: tar in ustar,
PAX and GNU's dialect (POSIX pax; tar.h), gzip (RFC 1952), xz (its own format), zip (APPNOTE 6.3).
"""

from __future__ import annotations

import gzip
import json
import lzma
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

EDGES = (0, 1, 2, 127, 255, 256, 511, 512, 513, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
PLAIN = ("a", "top/a", "top/d/e", "native/a", "A", "d/a", "f.txt", "top/b", "b", "top", "d", "top/d")
ODD_NAMES: tuple[bytes, ...] = (
    b"", b".", b"..", b"/", b"./a", b"a/", b"a//b", b"a/..", b"../x", b"a/../../x", b"top/../../x", b"/etc/x", b"//x", b"C:/x",
    b"c:\\x", b"..\\x", b"a\\b", b"a\nb", b"a\x1b[2Jb", b"a\0b", b"\xff\xfe", b"caf\xe9", b"caf\xc3\xa9", b"\xc2\x9b2J", b"\xed\xa0\x80",
    b"n" * 255, b"n" * 256, b"n" * 300, "é".encode() * 128, b"/".join([b"d"] * 100), b"/".join([b"d"] * 101), b"d/" * 600, b"~", b"-rf", b"*",
    b" ", b"a ", b"%s%n", b"CON", b".part", b"\xe2\x80\xae", b"PaxHeaders.0/a", b"\xef\xbb\xbf",
)  # fmt: skip
LINKS: tuple[bytes, ...] = (b"a", b"top/a", b"b", b"../a", b"d", b".", b"..", b"top/d", b"../top/../a", b"nosuch", b"/")
TAR_TYPES = b"00000000000055552211\x0034567gxLKSDMNVA\xff"
PAX_KEYS = (
    "path", "linkpath", "size", "uid", "gid", "mtime", "atime", "comment", "charset", "hdrcharset", "uname", "GNU.sparse.major",
    "GNU.sparse.minor", "GNU.sparse.name", "GNU.sparse.size", "GNU.sparse.realsize", "GNU.sparse.map", "GNU.sparse.offset",
    "GNU.sparse.numbytes", "GNU.sparse.numblocks", "SCHILY.xattr.user.x", "", "a=b",
)  # fmt: skip
PAX_VALUES = (
    "", "0", "1", "-1", "5", "512", "1e9", "nan", "inf", "9" * 30, "9" * 5000, "0,1,2", "0,5", "a,b", "BINARY", "UTF-8", "utf-16", "no such",
    "../x", "/etc/x", "a", "top/a", "a\0b", "x" * 3000, "1_0", " 5", "٣", "0x10", "true",
)  # fmt: skip
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Whatever decides: `random`, how `odd` the archive is (a probability), and a folder `outside` that it may aim at."""

    random: Random
    odd: float
    outside: str

    def one(self, usual: Sequence[T], odd: Sequence[T]) -> T:
        """One of `usual`, or of `odd` as often as this archive is odd."""
        return self.random.choice(odd if self.is_odd() else usual)

    def is_odd(self, often: float = 1.0) -> bool:
        return self.random.random() < self.odd * often


def any_archive(random: Random, outside: str) -> tuple[str, bytes]:
    """The kind of an archive (``tar``, ``zip`` or ``sdk``) and its bytes; `outside` is a folder that it may aim at."""
    draw = Draw(random=random, odd=random.choice([0.0, 0.03, 0.1, 0.4]), outside=outside)
    kind = random.choice(["tar", "tar", "zip", "zip", "sdk"])
    if kind == "zip":
        return kind, mutated(random, any_zip(draw), 0.3)
    if kind == "sdk":
        return kind, mutated(random, compressed(draw, any_sdk(draw), ("gz",)), 0.2)
    return kind, mutated(random, compressed(draw, summed_again(random, mutated(random, any_tar(draw), 0.4))), 0.1)


def mutated(random: Random, data: bytes, probability: float) -> bytes:
    """`data` with some bytes changed, moved, doubled or cut off, or as it was."""
    if not data or random.random() >= probability:
        return data
    changed = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at, count = random.randrange(len(changed) + 1), random.choice([1, 1, 2, 4, 8, 64, 512])
        do = random.randrange(7)
        if do == 0 and at < len(changed):
            changed[at] ^= 1 << random.randrange(8)
        elif do == 1:
            changed[at : at + count] = random.randbytes(count)
        elif do == 2:
            changed[at : at + 4] = random.choice(EDGES).to_bytes(4, random.choice(["little", "big"]))
        elif do == 3:
            del changed[at : at + count]
        elif do == 4:
            changed[at:at] = changed[at : at + count]
        elif do == 5:
            start = random.randrange(len(changed) + 1)
            changed[at : at + count] = changed[start : start + count]
        else:
            del changed[at:]
    return bytes(changed)


def any_name(draw: Draw, number: int = 0) -> bytes:
    """A member's name; without oddities each `number` has another."""
    random, plain = draw.random, PLAIN[number % len(PLAIN)].encode()
    if not draw.is_odd():
        return plain
    name = random.choice([random.choice(PLAIN).encode(), f"{draw.outside}/x".encode(), *ODD_NAMES])
    return random.choice([name, name, plain + b"/" + name])


def any_content(random: Random) -> bytes:
    size = random.choice([0, 0, 1, 5, 511, 512, 513, 1500])
    return random.randbytes(size) if random.random() < 0.7 else bytes(size)


# tar -----------------------------------------------------------------------------------------------


def any_tar(draw: Draw) -> bytes:
    """A tar of some members; most are right in themselves."""
    members = [any_tar_member(draw, number) for number in range(draw.random.randint(1, 8))]
    ends = [b"", b"\0" * 512, b"x" * 700, b"\0" * 512 + b"x" * 512]
    return b"".join(members) + draw.one([b"\0" * 1024, b"\0" * 10240], ends)


def any_tar_member(draw: Draw, number: int = 0) -> bytes:
    random = draw.random
    name, content = any_name(draw, number), any_content(random)
    usual = [b"0", b"0", b"0", b"0", b"5", b"2", b"1"] if number else [b"0"]  # what links lead to
    kind = draw.one(usual, [bytes([kind]) for kind in TAR_TYPES])
    link = draw.one([PLAIN[0].encode()], [*LINKS, any_name(draw)]) if kind in (b"1", b"2") or draw.is_odd(0.3) else b""
    before = b""
    if random.random() < 0.2:
        before += pax_header(draw)
    if len(name) > 100 or draw.is_odd(0.3):
        before += tar_member(b"././@LongLink", name + b"\0", b"L")
    if len(link) > 100:
        before += tar_member(b"././@LongLink", link + b"\0", b"K")
    if kind not in (b"0", b"\0", b"S", b"7") and not draw.is_odd():
        content = b""
    lies = _lies(draw, len(content)) if draw.is_odd() else {}
    return before + tar_member(
        name, content, kind, link=link, **{"mode": random.choice([0o644, 0o755, 0o4755, 0]), **lies}
    )


def _lies(draw: Draw, size: int) -> dict[str, Any]:
    random = draw.random
    return {
        "size": random.choice([None, None, size + 1, size - 1, -1, -512, 1 << 33, 1 << 62, *EDGES]),
        "mode": random.choice([0o644, 0o7777, 1 << 20]),
        "magic": random.choice([b"ustar\000", b"ustar  \0", b"\0" * 8, b"ustar\0zz"]),
        "prefix": random.choice([b"", b"", b"", b"p", b"..", b"/", b"p" * 155]),
        "number": random.choice([None, None, _base256, lambda _, width: b"8" * width, lambda _, width: b" " * width]),
        "checksum": random.choice([None, None, None, None, None, 0, 777]),
    }


def tar_member(
    name: bytes,
    content: bytes,
    kind: bytes = b"0",
    *,
    link: bytes = b"",
    size: int | None = None,
    mode: int = 0o644,
    magic: bytes = b"ustar\000",
    prefix: bytes = b"",
    number: Callable[[int, int], bytes] | None = None,
    checksum: int | None = None,
) -> bytes:
    """One header with its content, padded to whole blocks."""
    count = len(content) if size is None else size
    write = number or (_octal if 0 <= count < 1 << 33 else _base256)
    fields = [
        *(name[:100].ljust(100, b"\0"), _octal(mode, 8), _octal(0, 8), _octal(0, 8), write(count, 12), _octal(0, 12)),
        *(
            b" " * 8,
            kind[:1],
            link[:100].ljust(100, b"\0"),
            magic[:8].ljust(8, b"\0"),
            bytes(64),
            _octal(0, 8),
            _octal(0, 8),
        ),
        prefix[:155].ljust(167, b"\0"),
    ]
    header = bytearray(b"".join(fields))
    total = sum(header) if checksum is None else checksum
    header[148:156] = b"%06o\0 " % total
    return bytes(header) + content + bytes(-len(content) % 512)


def _octal(value: int, width: int) -> bytes:
    return (b"%0*o" % (width - 1, value % 8 ** (width - 1))) + b"\0"


def _base256(value: int, width: int) -> bytes:
    """GNU's binary numbers, which have a sign."""
    return bytes([0x80 if value >= 0 else 0xFF]) + value.to_bytes(width - 1, "big", signed=True)


def pax_header(draw: Draw) -> bytes:
    """An extended header of some records, for the next member or for all that follow."""
    random, records = draw.random, b""
    for _ in range(random.randint(1, 4)):
        key, value = draw.one(
            [("comment", "c"), ("mtime", "1.5"), ("uid", "0")], [(key, random.choice(PAX_VALUES)) for key in PAX_KEYS]
        )
        text = f" {key}={value}\n".encode("utf-8", "surrogateescape")
        length = len(text) + len(str(len(text) + len(str(len(text)))))
        records += str(draw.one([length], [length, length, 0, -1, 3, length + 1, 10**9])).encode() + text
    return tar_member(
        b"././@PaxHeader", mutated(random, records, draw.odd / 2), draw.one([b"x"], [b"x", b"x", b"g", b"X"])
    )


def compressed(draw: Draw, data: bytes, kinds: Sequence[str] = ("tar", "gz", "gz", "xz")) -> bytes:
    """`data` as it is, or packed in one stream or several."""
    random, kind = draw.random, draw.random.choice(kinds)
    if kind == "tar":
        return data
    cut = random.randrange(len(data) + 1) if random.random() < 0.2 else len(data)
    parts = [data[:cut], data[cut:]] if cut < len(data) else [data]
    tail = draw.one([b""], [b"\0" * 4, b"\0" * 600, b"x", b"\x1f\x8b"])
    if kind == "gz":
        return b"".join(gzip.compress(part, 1, mtime=0) for part in parts) + tail
    return b"".join(lzma.compress(part, preset=0) for part in parts) + tail


def summed_again(random: Random, data: bytes) -> bytes:
    """A tar whose headers have the right checksum more often than what was done to them leaves them."""
    changed = bytearray(data)
    for at in range(0, len(data) - 511, 512) if random.random() < 0.7 else ():
        if data[at + 257 : at + 262] == b"ustar":
            changed[at + 148 : at + 156] = b" " * 8
            changed[at + 148 : at + 156] = b"%06o\0 " % sum(changed[at : at + 512])
    return bytes(changed)


# zip -----------------------------------------------------------------------------------------------


def any_zip(draw: Draw, first: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    """A zip that begins with the files of `first`; most of its members are right in themselves."""
    random = draw.random
    members = [zip_member(name, content) for name, content in first]
    members += [any_zip_member(draw, number) for number in range(random.randint(1, 8))]
    body, directory = bytearray(draw.one([b""], [b"", b"MZ junk"])), bytearray()
    for local, central in members:
        at = draw.one([len(body)], [len(body), len(body), *EDGES])
        body += local
        directory += central[:42] + struct.pack("<I", at) + central[46:]
    comment = draw.one([b""], [b"PK\5\6", b"c" * 70])
    count, size, begin = (draw.one([value], [value, *EDGES]) for value in (len(members), len(directory), len(body)))
    end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, size, begin, len(comment)) + comment
    if draw.is_odd(0.5):
        record = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, begin)
        end = record + struct.pack("<4sIQI", b"PK\6\7", 0, len(body) + len(directory), 1) + end
    return bytes(body + directory + end)


def any_zip_member(draw: Draw, number: int = 0) -> tuple[bytes, bytes]:
    random = draw.random
    name, content = any_name(draw, number), any_content(random)
    kinds = [0o120000, 0o040000, 0o060000, 0o010000, 0o140000, 0o170000]
    kind = draw.one([0, 0, 0, 0o100000, 0o040000, 0o120000], kinds)
    if kind == 0o120000:
        content = draw.one([PLAIN[0].encode()], [*LINKS, any_name(draw)])
    if kind == 0o040000 and not draw.is_odd():
        name, content = name + b"/", b""
    if not draw.is_odd():
        return zip_member(name, content, mode=kind | 0o755, method=random.choice([0, 8]))
    return zip_member(
        name,
        content,
        mode=kind | random.choice([0, 0o644, 0o7777]),
        method=random.choice([0, 8, 8, 8, 8, 9, 12, 14, 93, 95, 99]),
        flags=random.choice([0, 0x800, 0x800, 0x1, 0x8, 0x20, 0x40, 0x2000, 0xFFFF]),
        version=random.choice([20, 20, 20, 45, 63, 255, 0xFFFF]),
        size=random.choice([None, None, None, len(content) + 1, 0, *EDGES]),
        crc=random.choice([None, None, None, 0]),
        extra=random.choice(
            [b"", b"", b"\1\0\4\0aaaa", b"\1\0\x18\0" + bytes(24), b"\x75\x70\6\0\1aaaab", b"\1\0\xff\xff", b"x"]
        ),
        packed=random.choice([None, None, None, None, b"", b"\xff" * 20]),
        date=random.choice([(1 << 5) | 1, 0, 0xFFFF]),
    )


def zip_member(
    name: bytes,
    content: bytes,
    *,
    mode: int = 0o644,
    method: int = 8,
    flags: int = 0x800,
    version: int = 20,
    size: int | None = None,
    crc: int | None = None,
    extra: bytes = b"",
    packed: bytes | None = None,
    date: int = (1 << 5) | 1,
) -> tuple[bytes, bytes]:
    """A member with its header, and its row in the directory, whose offset is still to be filled in."""
    if packed is None:
        deflate = zlib.compressobj(1, wbits=-15)
        packed = content if method == 0 else deflate.compress(content) + deflate.flush()
    common = struct.pack(
        "<5H3I2H",
        *(version & 0xFFFF, flags, method, 0, date, zlib.crc32(content) if crc is None else crc, len(packed)),
        *(len(content) if size is None else size, len(name), len(extra)),
    )
    local = b"PK\3\4" + common + name + extra + packed
    central = (
        b"PK\1\2"
        + struct.pack("<H", 3 << 8 | 20)
        + common
        + struct.pack("<3HII", 0, 0, 0, mode << 16, 0)
        + name
        + extra
    )
    return local, central


# SDK -----------------------------------------------------------------------------------------------


def any_sdk(draw: Draw) -> bytes:
    """A release tarball: the package of one component for this and other hosts, among other members."""
    random = draw.random
    version = draw.one(
        ["5.0.0.71", "9.9.9.9"],
        ["../x", "/etc/x", "", "5\x1b[2J", "v" * 300, 5, None, ["5"], f"{draw.outside}/x", "1." * 90],
    )
    level = draw.one(["12", 12], ["12.0", "-1", "9" * 5000, None, "", {"a": 1}, "twelve", 1e308, True, "٣"])
    described = {"path": "toolchains", "version": version, "apiVersion": level}
    described["releaseType"] = draw.one(["Release"], ["Beta1", None, "\x9b", 5, "R" * 5000])
    text = draw.one(
        [json.dumps(described).encode()], [b"", b"{", b"[" * 5000, b"\xff", b"[]", b"null", b'{"version": NaN}']
    )
    first = [
        (b"toolchains/oh-uni-package.json", mutated(random, text, draw.odd / 2)),
        (b"toolchains/hdc", b"#!/bin/sh\n"),
    ]
    inner = mutated(random, any_zip(draw, first), draw.odd)
    folder = draw.one(["linux"], ["windows", "x/linux", "../linux", f"{draw.outside}/linux"])
    file = f"toolchains-linux-x64-{draw.one(['5.0.0.71'], ['x' * 220, '..', chr(10), chr(0x9B)])}-Release.zip"
    package = tar_member(f"{folder}/{file}".encode(), inner)
    others = [any_tar_member(draw, number) for number in range(random.randint(0, 3))]
    return b"".join([*others, package, *draw.one([[]], [[], [package]])]) + bytes(1024)
