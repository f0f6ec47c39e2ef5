"""Pushes and pulls over SSH with a real sshd on loopback, against scp and rsync in the same run.

    python benchmarks/ssh.py [--gigabytes 1.0] [--repeat 3] [--json FILE]

scp and rsync copy; ohforge also hashes on both sides before a file counts as there. So there is a third ratio, to scp and
rsync followed by the quickest hash on each side, both at once (``openssl dgst``, there by ssh). All go through the same
sshd, with the same key and cipher. The second push of the same file, and one after a cut at 90 %, tell how many bytes go again.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT))

from core.console import Console, Verbosity
from core.errors import OhforgeError
from core.session import Session
from core.settings import BoardEntry, Settings
from deploy.hdc.choose import choose_board
from deploy.ssh.board import SshBoard
from deploy.transfer.pull import pull_files
from deploy.transfer.push import push_files
from tests.shared.faulty_link import faulty_link
from tests.shared.sshd import SSHD, loopback_sshd

NEEDED = {"sshd": SSHD, **{name: shutil.which(name) for name in ("scp", "rsync", "openssl")}}
CIPHER = "aes128-gcm@openssh.com"
NO_START_FILES = {"SHLVL": "2"}
"""Else bash reads this user's ~/.bashrc for each command: of a transfer's time that says nothing, and ohforge has more commands."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gigabytes", type=float, default=1.0)
    options.add_argument("--repeat", type=int, default=3)
    options.add_argument("--json", type=Path)
    given = options.parse_args()
    if missing := [name for name, path in NEEDED.items() if path is None]:
        print(f"not installed: {', '.join(missing)}")
        return
    with tempfile.TemporaryDirectory(prefix="ssh-bench-") as folder:
        found = measure(Path(folder), int(given.gigabytes * 1e9), given.repeat)
    for name, value in found.items():
        print(f"{name:40} {value}")
    if given.json:
        given.json.write_text(json.dumps(found, indent=2) + "\n")


def measure(folder: Path, size: int, repeat: int) -> dict[str, float]:
    """Seconds of each way (the median), ratios, and bytes that went again."""
    file = folder / "file"
    with file.open("wb") as target:
        for _ in range(-(-size // 1_000_000)):
            target.write(os.urandom(1_000_000))
    size = file.stat().st_size
    (folder / "keys").mkdir()
    (folder / "home/.ssh").mkdir(parents=True)
    os.environ.update(HOME=str(folder / "home"), OHFORGE_DATA_DIR=str(folder / "data"))
    os.environ.pop("SSH_AUTH_SOCK", None)
    with loopback_sshd(folder / "keys", NO_START_FILES) as sshd, faulty_link(sshd.port) as link:
        hosts = [("direct", sshd.port), ("lab", link.port)]
        (folder / "home/.ssh/config").write_text(
            "".join(f"Host {name}\n HostName 127.0.0.1\n Port {port}\n" for name, port in hosts)
            + f"Host *\n User {getpass.getuser()}\n IdentityFile {folder}/keys/user\n Ciphers {CIPHER}\n"
        )
        with (folder / "keys/sshd_config").open("a") as configuration:
            configuration.write("Subsystem sftp internal-sftp\n")
        key = (folder / "keys/host.pub").read_text()
        (folder / "home/.ssh/known_hosts").write_text("".join(f"[127.0.0.1]:{port} {key}" for _, port in hosts))
        ssh = ["-F", f"{folder}/home/.ssh/config", "-o", f"UserKnownHostsFile={folder}/home/.ssh/known_hosts"]
        there = folder / "there"
        board = open_board(folder, "direct")

        def scp() -> None:
            subprocess.run(["scp", "-q", *ssh, str(file), f"direct:{there}/scp"], check=True)

        def rsync() -> None:
            rsh = " ".join(["ssh", *ssh])
            subprocess.run(["rsync", "--whole-file", "-e", rsh, str(file), f"direct:{there}/rsync"], check=True)

        def verify(name: str) -> None:
            hasher = ["openssl", "dgst", "-sha256", "-r"]
            remote = ["ssh", *ssh, "direct", *hasher, f"{there}/{name}"]
            both = [subprocess.Popen(words, stdout=subprocess.PIPE) for words in ([*hasher, str(file)], remote)]
            hashes = {each.communicate()[0].split()[0] for each in both}
            assert len(hashes) == 1

        def pull() -> None:
            pull_files(quiet_session(), board, [str(file)], there / "back")

        def scp_back() -> None:
            subprocess.run(["scp", "-q", *ssh, f"direct:{file}", f"{there}/scp-back"], check=True)

        def ohforge() -> None:
            push(board, file, there)

        ways: dict[str, Callable[[], object]] = {
            "scp": scp,
            "scp, hashed": lambda: (scp(), verify("scp")),
            "rsync": rsync,
            "rsync, hashed": lambda: (rsync(), verify("rsync")),
            "pull by scp": scp_back,
            "pull by ohforge": pull,
            "ohforge": ohforge,  # The last, for what it has brought is pushed again.
        }
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeat):  # In turn, so that a busy minute meets all.
            for name, way in ways.items():
                shutil.rmtree(there, ignore_errors=True)
                shutil.rmtree(folder / "device", ignore_errors=True)
                there.mkdir()
                (folder / "device").mkdir()
                seconds[name].append(timed(way))
        again = timed(ohforge)
        assert push(board, file, there) == 0
        resumed = push_after_cut(folder, file, there, lambda: link.fault("cut", int(size * 0.9)))
    medians = {name: round(statistics.median(values), 2) for name, values in seconds.items()}
    hashed = min(medians["scp, hashed"], medians["rsync, hashed"])
    return {
        **{f"{name}, s": value for name, value in medians.items()},
        **{f"ohforge / {name}": round(medians["ohforge"] / medians[name], 2) for name in ("scp", "rsync")},
        "ohforge / the faster of both, hashed": round(medians["ohforge"] / hashed, 2),
        "pull: ohforge / scp": round(medians["pull by ohforge"] / medians["pull by scp"], 2),
        "ohforge, MB/s": round(size / 1e6 / medians["ohforge"], 1),
        "second push, s": round(again, 2),
        "second push, bytes": 0,
        "after a cut at 90 %, bytes of it again": resumed,
        "after a cut at 90 %, share": round(resumed / size, 3),
        "load": round(os.getloadavg()[0], 1),
    }


def open_board(folder: Path, host: str) -> SshBoard:
    entry = BoardEntry(serial=host, transport="ssh", device_dir=f"{folder}/device")
    settings = Settings(boards={host: entry}, run_engine="shell")
    board = choose_board(Session(settings=settings, console=Console(verbosity=Verbosity.QUIET)), host)
    assert isinstance(board, SshBoard)
    return board


def push(board: SshBoard, file: Path, there: Path) -> int:
    """Bytes that were sent."""
    return push_files(quiet_session(), board, [file], f"{there}/").bytes_sent


def quiet_session() -> Session:
    return Session(settings=Settings(run_engine="shell"), console=Console(verbosity=Verbosity.QUIET))


def push_after_cut(folder: Path, file: Path, there: Path, cut: Callable[[], None]) -> int:
    """Bytes that a push sends beyond the file's size, which is cut on its way and goes on by itself or is called again."""
    shutil.rmtree(folder / "device")
    (folder / "device").mkdir()
    board = open_board(folder, "lab")
    cut()
    try:
        return push(board, file, there) - file.stat().st_size
    except OhforgeError as error:
        print(f"cut: {error.message}", file=sys.stderr)
        return push(board, file, there)


def timed(way: Callable[[], object]) -> float:
    started = time.monotonic()
    way()
    return time.monotonic() - started


if __name__ == "__main__":
    main()
