"""No program on the emulated board reaches this machine: known ways out are tried, in each sandbox, by each kind of user."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.emulator.board.boards import SANDBOX
from deploy.emulator.sandbox.tools import copy_marked
from tests.shared.reference_runtime import compile_with
from tests.support.emulated import ROOT, Hdc
from tests.support.emulated_programs import TMP
from tests.support.nobody import Nobody

SOURCE = ROOT / "tests/support/escape.c"
CANARY = "OHFORGE_CANARY"
PROOT_LETS_OUT = {
    *("host-rootfs", "descriptors", "working-directories", "roots", "environment", "ptrace", "memory-files"),
    *("process_vm_readv", "signals", "chroot", "unshare", "clone", "setns", "kernel-settings", "binfmt_misc", "sysrq"),
    *("kernel-memory", "kernel-log", "device-nodes", "modes-of-devices", "keyring", "key-list", "abstract-socket"),
    *("network", "raw-packets", "file-handle", "shared-memory", "kernel-interfaces", "terminal-input"),
}
"""What docs/emulated-board.md says of proot; with the rights of an ordinary user some of it is closed by the kernel."""


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder into which an ordinary user can look, unlike those of pytest."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def computer(public: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What of this machine a program shall not reach, as the words of the program that tries it."""
    monkeypatch.setenv(CANARY, "seen")
    secret = public / "secret"
    secret.write_text("secret\n")
    libc = ctypes.CDLL(None, use_errno=True)
    key = int.from_bytes(os.urandom(3), "big") + 1
    segment = libc.shmget(key, 4096, 0o1666)
    assert segment >= 0
    sleeper = subprocess.Popen(["sleep", "600"])
    with socket.socket() as port, socket.socket(socket.AF_UNIX) as abstract:
        port.bind(("127.0.0.1", 0))
        name = f"ohforge-{os.urandom(8).hex()}"
        abstract.bind(f"\0{name}")
        for each in (port, abstract):
            each.listen()
        try:
            yield [str(secret), str(sleeper.pid), str(port.getsockname()[1]), name, str(key)]
        finally:
            sleeper.kill()
            sleeper.wait()
            libc.shmctl(segment, 0, None)


def escape_program(cache: Path, arch: str) -> Path:
    """The program that tries the ways, for a CPU of the board or for this machine's own."""
    zig = (sys.executable, "-m", "ziglang", "cc")
    return compile_with(zig, cache, f"escape-{arch}", [SOURCE], ["-target", f"{arch}-linux-musl", "-static", "-O1"])


@pytest.fixture
def programs(shared_cache: Path, public: Path) -> list[Path]:
    """One for a CPU of the board, and one of this machine's, which is marked as the board's own commands are."""
    native, emulated = public / "native", public / "emulated"
    copy_marked(escape_program(shared_cache, os.uname().machine), native)
    shutil.copy(escape_program(shared_cache, "aarch64"), emulated)
    return [native, emulated]


def read_ways(text: str) -> dict[str, str]:
    ways = dict(line.split("\t") for line in text.splitlines())
    assert len(ways) >= 30, text
    return ways


def try_ways(hdc: Callable[..., str], programs: list[Path], words: list[str]) -> dict[str, str]:
    """What came of each way; of both programs, the one that got further counts."""
    found: dict[str, str] = {}
    for program in programs:
        place = f"{TMP}/{program.name}"
        assert "finish" in hdc("file", "send", str(program), place)
        ways = read_ways(hdc("shell", f"chmod 755 {place}; {place} {' '.join(words)} "))
        found |= {name: said for name, said in ways.items() if "OUT" in said or name not in found}
    return found


def ways_out(ways: dict[str, str]) -> dict[str, str]:
    return {name: said for name, said in ways.items() if said.startswith("OUT")}


def test_nothing_of_this_machine_is_reached_from_a_board_in_namespaces(
    own: Hdc, computer: list[str], programs: list[Path]
) -> None:
    assert ways_out(try_ways(own.text, programs, computer)) == {}


def test_nothing_of_this_machine_is_reached_from_the_board_of_an_ordinary_user(
    computer: list[str], programs: list[Path]
) -> None:
    with Nobody.settled("namespaces") as nobody:
        assert ways_out(try_ways(nobody.hdc, programs, computer)) == {}


def test_proot_lets_out_what_the_page_says_of_it(
    own: Hdc, computer: list[str], programs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("proot") is None:
        pytest.skip("proot is not installed")
    monkeypatch.setenv(SANDBOX, "proot")
    found = set(ways_out(try_ways(own.text, programs, [*computer, "careful"])))
    assert {"host-rootfs", "network"} <= found <= PROOT_LETS_OUT


def test_proot_lets_an_ordinary_user_out_no_further(computer: list[str], programs: list[Path]) -> None:
    with Nobody.settled("proot") as nobody:
        found = set(ways_out(try_ways(nobody.hdc, programs, [*computer, "careful"])))
    assert {"host-rootfs", "network"} <= found <= PROOT_LETS_OUT
