"""No credential stands in what is printed, in a record, in any other file that is kept, or in a process's command line."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.endpoint.client import KEY_VARIABLE
from core.patience import Patience
from tests.shared.loopback import Loopback
from tests.shared.model_server import ModelServer
from tests.shared.standin_sdk.pack import make_release
from tests.support.asked_models import known_answer, write_questions
from tests.support.command_line import said_by
from tests.support.emulated import free_port
from tests.support.sdk_server import serve_mirror
from tests.support.sshd import SSHD, loopback_sshd

VERSION = "5.0.0"
SECRET = "s3cr3t"
"""Begins each of them; what follows says whose it is."""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("INVOKE_OHFORGE_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("INVOKE_OHFORGE_RUN_ENGINE", "shell")
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.chdir(tmp_path)
    return home


@pytest.fixture
def check(tmp_path: Path, home: Path) -> Iterator[Callable[..., None]]:
    """Runs a command with all that it may tell, and looks for secrets in all that it leaves."""

    def run(*words: str, status: int) -> None:
        ended, out, err = said_by([*words, "--verbose", "--json"])
        assert ended == status, err
        assert SECRET not in out, words
        assert SECRET not in err, words
        for file in tmp_path.rglob("*"):
            if home not in file.parents and file.is_file() and not file.is_symlink():
                assert SECRET.encode() not in file.read_bytes(), f"{words}: {file}"

    with command_lines_watched() as seen:
        yield run
    assert seen == set()


@contextlib.contextmanager
def command_lines_watched() -> Iterator[set[str]]:
    """Command lines of other processes of this computer that had a secret in them while the block ran."""
    seen, over = set[str](), threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                with contextlib.suppress(OSError):
                    if SECRET.encode() in (line := file.read_bytes()) and int(file.parent.name) != os.getpid():
                        seen.add(line.replace(b"\0", b" ").decode("utf-8", "replace"))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join(timeout=60)


def with_password(url: str, whose: str) -> str:
    return url.replace("://", f"://anna:{SECRET}-{whose}@") + f"?token={SECRET}-{whose}"


def test_of_an_address_that_is_fetched_from(
    check: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("INVOKE_OHFORGE_SDK_SOURCES", "mirror")
    release = make_release(tmp_path_factory.mktemp("release"), VERSION, "linux-x64")
    with Loopback() as server:
        serve_mirror(server, release, "/os")
        good, bad = (with_password(f"{server.url}/{name}", "mirror") for name in ("os", "absent"))
        check("sdk.fetch", VERSION, "--mirror", bad, "--components", "native", status=66)
        check("sdk.fetch", VERSION, "--mirror", good, "--components", "native", status=0)
        check("sdk.info", status=0)
        monkeypatch.setenv("INVOKE_OHFORGE_SDK_MIRROR", bad)
        check("sdk.fetch", VERSION, "--components", "toolchains", status=66)
        check("sdk.fetch", VERSION, "--components", "toolchains", "--dry", status=0)


def test_of_a_proxy(check: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.setenv(name, f"http://anna:{SECRET}-proxy@127.0.0.1:{free_port()}")
    for module in ("core.http", "bench.endpoint.client"):
        monkeypatch.setattr(f"{module}.PATIENCE", Patience(pause=0.001, times=1))
    check("sdk.fetch", VERSION, "--mirror", "http://sdks.invalid/os", status=66)
    check("eval.gsm8k", "--endpoint", "http://models.invalid", status=66)


def test_of_the_key_of_an_endpoint(check: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, f"{SECRET}-key")
    questions = str(write_questions(tmp_path / "forty.jsonl"))
    ask = ("eval.gsm8k", "--data", questions, "--limit", "2", "--budgets", "10,20", "--endpoint")
    with ModelServer(answer=known_answer) as server:
        check(*ask, server.url, status=0)
        assert {request.headers["authorization"] for request in server.asked()} == {f"Bearer {SECRET}-key"}
        server.fault("status", code=401, said=f"the key {SECRET}-key is not known", times=-1)
        check(*ask, server.url, status=66)
        check(*ask, with_password(server.url, "endpoint"), status=64)


def test_of_a_way_to_a_board(check: Callable[..., None], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in ("ssh://anna:{}@127.0.0.1", "ssh://anna:{}@127.0.0.1/192.168.1.9:8710", "anna:{}@127.0.0.1"):
        check("board.shell", "true", "--board", address.format(f"{SECRET}-ssh"), status=70)
        check("build", "--target", "agent", "--on", address.format(f"{SECRET}-ssh"), status=70)
    monkeypatch.setenv("LG_COORDINATOR", f"anna:{SECRET}-lab@127.0.0.1:20408")
    check("board.info", "--board", "lab:bench", status=65)
    monkeypatch.delenv("LG_COORDINATOR")
    for entry in (
        "via: 'ssh://anna:{}@lab1', key: x",
        "serial: 'anna:{}@lab1', transport: ssh",
        "serial: 'anna:{}@lab1'",
    ):
        (home / ".invoke.yaml").write_text(f"ohforge:\n  boards:\n    lab: {{{entry.format(f'{SECRET}-ssh')}}}\n")
        check("board.info", "--board", "lab", status=65)


def test_of_a_scheduler(check: Callable[..., None], tmp_path: Path) -> None:
    there = ("--boards", "a,b", "--scheduler", with_password("tcp://127.0.0.1:8786", "scheduler"))
    check("bench.mslite", "--model", "absent.ms", *there, status=64)
    check("bench.mslite", "--model", "absent.ms", *there, "--dry", status=64)
    check("eval.gsm8k", "absent.gguf", *there, status=64)


@pytest.fixture
def locked_key(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A private key with a passphrase, which would let its user in at ``lab``."""
    if SSHD is None:
        pytest.skip("no sshd is installed (Debian package openssh-server)")
    with loopback_sshd(tmp_path_factory.mktemp("sshd")) as sshd:
        key = home / "key"
        key.write_bytes((sshd.folder / "user").read_bytes())
        key.chmod(0o600)
        change = ["ssh-keygen", "-q", "-p", "-N", f"{SECRET}-passphrase", "-f", str(key)]
        subprocess.run(change, check=True, timeout=60)
        (home / ".ssh").mkdir()
        (home / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{sshd.port} {(sshd.folder / 'host.pub').read_text()}")
        (home / ".ssh/config").write_text(f"Host lab\n HostName 127.0.0.1\n Port {sshd.port}\n IdentityFile {key}\n")
        yield key


def test_of_a_private_key(locked_key: Path, check: Callable[..., None]) -> None:
    before = locked_key.read_bytes()
    check("board.info", "--board", "ssh://lab", status=70)
    assert locked_key.read_bytes() == before
