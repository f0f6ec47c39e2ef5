"""``sdk.fetch`` against ``curl``, ``sha256sum``, ``tar`` and ``unzip``, from the same server on loopback.

    python benchmarks/sdk_fetch.py [--gigabytes 1.0] [--repeat 3] [--json FILE]

Reported: time ratio (median of runs that alternate), peak disk of each, and what is fetched again after a cut at 90 %.
The usual commands are given their best: only the wanted packages are taken out of the tarball. Both write to the same
file system, and neither waits for the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from tests.shared.disk_use import used

VERSION, HOST = "5.0.0", "linux-x64"
FETCH = """
import json, sys
from core.console import Console, Verbosity
from core.errors import OhforgeError
from core.session import Session
from toolchains.install import fetch_sdk
session = Session(console=Console(json_mode=True, verbosity=Verbosity.QUIET))
try:
    got = fetch_sdk(session, sys.argv[1], host=sys.argv[2], mirror=sys.argv[3])
except OhforgeError as error:
    sys.exit(error.exit_status)
print(json.dumps({"downloaded": got.bytes_downloaded, "reused": got.bytes_reused, "path": str(got.path)}))
"""
SERVE = """
import sys
from pathlib import Path
from tests.shared.loopback import Loopback
with Loopback() as server:
    for line in Path(sys.argv[1]).read_text().splitlines():
        path, file = line.split("\\t")
        server.serve("/os/" + path, Path(file))
    print(server.url, flush=True)
    for line in sys.stdin:
        name, path, skip, times, *value = line.split()
        server.fault(path, name, skip=int(skip), times=int(times), **({"after": int(value[0])} if name == "end_early" else {"code": 404}))
        print("ok", flush=True)
"""


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="sdk-fetch-", dir=options.folder) as folder:
        work = Path(folder)
        release = _make_archive(work / "release", options.gigabytes)
        with _server(work, release) as (url, tell):
            runs = [
                (_run(work, lambda data: _by_hand(url, release, data)), _run(work, lambda data: _ours(url, data)))
                for _ in range(options.repeat)
            ]
            again = _fetched_again(work, url, release, tell)
        result = _summary(release, runs, again)
    for name, value in result.items():
        print(f"{name:<28} {value}")
    if options.json:
        Path(options.json).write_text(json.dumps(result, indent=2) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=1.0, help="Size of the archive, in GB.")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", help="Where the work is done; needs about seven times the archive's size.")
    parser.add_argument("--json", help="File for the numbers.")
    return parser.parse_args()


def _make_archive(folder: Path, gigabytes: float) -> Any:
    """A release of that size: two fifths native for this host, the rest what nobody wants, as in published ones."""
    from tests.shared.standin_sdk.pack import make_release, synthetic_tree

    print(f"making an archive of {gigabytes:g} GB …", file=sys.stderr)
    tree = synthetic_tree(folder / "tree", VERSION, int(gigabytes * 0.4e9 * 1.9))
    for component in ("ets", "js", "previewer"):
        (tree / component).mkdir()
        with (tree / component / "noise").open("wb") as file:
            for _ in range(int(gigabytes * 200)):
                file.write(os.urandom(1_000_000))
    release = make_release(folder / "packed", VERSION, HOST, tree=tree)
    shutil.rmtree(tree)
    return release


@contextlib.contextmanager
def _server(work: Path, release: Any) -> Iterator[tuple[str, Callable[[str], None]]]:
    listed = work / "served.txt"
    listed.write_text("".join(f"{path}\t{file}\n" for path, file in release.mirror_files.items()))
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, listed], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def tell(line: str) -> None:
            process.stdin.write(line + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            process.stdout.readline()  # type: ignore[union-attr]

        yield process.stdout.readline().strip(), tell
        process.stdin.close()
        process.kill()


def _by_hand(url: str, release: Any, data: Path) -> None:
    file = data / release.archive.name
    address = f"{url}/os/{release.mirror_path}"
    _call("curl", "-sSf", "-o", file, address)
    digest = subprocess.run(["curl", "-sSf", f"{address}.sha256"], check=True, stdout=subprocess.PIPE, text=True).stdout
    subprocess.run(["sha256sum", "--check", "--quiet"], input=f"{digest.split()[0]}  {file}\n", text=True, check=True)
    wanted = ["*linux/native-*", "*linux/toolchains-*"]
    _call("tar", "-xzf", file, "-C", data, "--wildcards", *wanted)
    for component in ("native", "toolchains"):
        (packed,) = data.glob(f"**/linux/{component}-*.zip")
        _call("unzip", "-q", packed, "-d", data / "sdk")


def _ours(url: str, data: Path) -> None:
    answer = _fetch(url, data)
    assert answer.returncode == 0, answer


def _fetch(url: str, data: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OHFORGE_DATA_DIR": str(data), "OHFORGE_CACHE_DIR": str(data / "cache")}
    command = [sys.executable, "-c", FETCH, VERSION, HOST, f"{url}/os"]
    return subprocess.run(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, text=True, check=False)


def _call(*argv: str | Path) -> None:
    subprocess.run(argv, check=True)


def _run(work: Path, action: Callable[[Path], None]) -> tuple[float, int, int]:
    """(seconds, peak bytes on the disk, bytes at the end) of one run in an empty folder."""
    data = Path(tempfile.mkdtemp(dir=work))
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.1):
            peak = max(peak, used(data))

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    try:
        action(data)
        seconds = time.perf_counter() - started
    finally:
        done.set()
        watcher.join()
    end = used(data)
    shutil.rmtree(data)
    return seconds, max(peak, end), end


def _fetched_again(work: Path, url: str, release: Any, tell: Callable[[str], None]) -> dict[str, float]:
    """Shares of the archive that come twice: when the connection is cut at 90 %, and when the process ends there."""
    path, cut = f"/os/{release.mirror_path}", int(release.size * 0.9)
    data = Path(tempfile.mkdtemp(dir=work))
    tell(f"end_early {path} 1 1 {cut}")
    same = json.loads(_fetch(url, data).stdout)
    shutil.rmtree(data)
    data.mkdir()
    tell(f"end_early {path} 1 1 {cut}")
    tell(f"status {path} 2 1")
    assert _fetch(url, data).returncode == 66
    other = json.loads(_fetch(url, data).stdout)
    shutil.rmtree(data)
    return {
        "cut": (same["downloaded"] - release.size) / release.size,
        "ended": (cut - other["reused"]) / release.size,
    }


def _summary(release: Any, runs: list[Any], again: dict[str, float]) -> dict[str, Any]:
    hand, ours = [run[0] for run in runs], [run[1] for run in runs]
    seconds_hand, seconds_ours = (statistics.median(run[0] for run in side) for side in (hand, ours))
    peak_hand, peak_ours = (max(run[1] for run in side) for side in (hand, ours))
    installed = ours[0][2]
    inner = release.components["native"].stat().st_size
    return {
        "archive_bytes": release.size,
        "native_package_bytes": inner,
        "installed_bytes": installed,
        "seconds_by_hand": [round(run[0], 2) for run in hand],
        "seconds_ohforge": [round(run[0], 2) for run in ours],
        "time_ratio": round(seconds_ours / seconds_hand, 3),
        "peak_bytes_by_hand": peak_hand,
        "peak_bytes_ohforge": peak_ours,
        "peak_ratio": round(peak_ours / peak_hand, 3),
        "peak_over_installed_plus_package": round(peak_ours / (installed + inner), 3),
        "fetched_again_same_process": round(again["cut"], 5),
        "fetched_again_new_process": round(again["ended"], 5),
    }


if __name__ == "__main__":
    main()
