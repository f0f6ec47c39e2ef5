"""What runs on a build host, besides the build itself: keeps the files that were sent, starts builds and follows them.

Its text is sent with every call (``python3 -c``), so nothing has to be there beforehand; the standard library is all that
it uses. Everything lies below one folder, the `base`:

    store/        every file that was sent, once, under its SHA-256
    code/ projects/ recipes/ prefixes/ cache/sources/    trees of links into the store, named by their content
    python/       Python environments with what builds need
    jobs/ID/      one folder per attempt: request.json, events (what the build says), result.json, stopped
    build/ cache/ what ohforge itself keeps of builds
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

ANSWER = b"ohforge-answer: "
"""Before the JSON object that a call answers: a shell's start file may print something first."""
STOPPED = "stopped"
"""Marks an attempt that was ended on purpose: who comes later wants another one."""
BEGIN = b"ohforge-begin\n"
"""Before the bytes of an answer that is no JSON."""
LINK = "link"
CHUNK = 1024 * 1024
LOOK_SECONDS = 0.2
STOP_SECONDS = 15.0
KEPT_ATTEMPTS = 3
DAY = 86_400.0
KEPT_TREES = 30 * DAY
TREES = ("code", "projects", "recipes", "prefixes", "cache/sources")


def main(words: Sequence[str], given: IO[bytes], out: IO[bytes]) -> None:
    """Does what the first word says; `given` is what was sent for it."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "ohforge" / "build-host"
    value: Mapping[str, Any] | None
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        if words[0] in STREAMS:
            STREAMS[words[0]](base, words[1:], given, out)
            return
        value = COMMANDS[words[0]](base, words[1:], given)
    except (OSError, tarfile.TarError, Damaged) as error:
        value = {"error": explain(error, base)}
    out.write(ANSWER + json.dumps(value).encode() + b"\n")
    out.flush()


class Damaged(Exception):
    """A file did not arrive as it was sent."""


def explain(error: Exception, base: Path) -> dict[str, str]:
    """An error of this computer's as ohforge's own: code, message, remedy."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = f"Make room there; what builds keep lies in {base} and may be removed."
        return {"code": "OHF7501", "message": f"The disk of the build host is full ({base}).", "remedy": remedy}
    if isinstance(error, PermissionError):
        return {
            "code": "OHF7703",
            "message": f"The build host cannot write: {error}.",
            "remedy": "Check its mode bits.",
        }
    return {"code": "OHF7101", "message": f"The build host said: {error}.", "remedy": "Try again."}


def make_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


def write_json(path: Path, value: object) -> None:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fresh.write_text(json.dumps(value))
    fresh.replace(path)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# files ---------------------------------------------------------------------------------------------


def find_lacking(base: Path, words: Sequence[str], given: IO[bytes]) -> dict[str, Any]:
    """Which of the files that are wanted (SHA-256, ``.x`` after it for one to execute) the store has not, unharmed."""
    store = base / "store"
    make_folder(store)
    return {"lack": [name for name in dict.fromkeys(json.load(given)) if not _has(store / name)]}


def _has(blob: Path) -> bool:
    try:
        if _hash(blob) != blob.stem:
            return False
        if blob.stat().st_nlink == 1:
            os.utime(blob)  # So that nobody tidies it away before it is used.
    except FileNotFoundError:
        return False
    return True


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fill_store(base: Path, words: Sequence[str], given: IO[bytes]) -> dict[str, Any]:
    """Takes a tar of files under the names of the store. Each is there when its content is what its name says."""
    store, count = base / "store", 0
    make_folder(store)
    with tarfile.open(fileobj=given, mode="r|") as archive:
        for member in archive:
            source = archive.extractfile(member)
            if source is None:
                continue
            fresh = store / f".{secrets.token_hex(8)}"
            try:
                with fresh.open("wb") as file:
                    shutil.copyfileobj(source, file, CHUNK)
                blob = store / Path(member.name).name
                if _hash(fresh) != blob.stem:
                    raise Damaged(f"{blob.stem} arrived with another content")
                fresh.chmod(0o555 if blob.suffix else 0o444)
                fresh.replace(blob)
                count += 1
            finally:
                fresh.unlink(missing_ok=True)
    return {"files": count}


def place_tree(base: Path, tree: Mapping[str, Any]) -> None:
    """Makes the folder ``tree["place"]`` of links into the store, unless it is there unharmed."""
    place, store = base / tree["place"], base / "store"
    if not _is_whole(store, place, tree["files"]):
        fresh = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            for name, kind, content in tree["files"]:
                make_folder((fresh / name).parent)
                if kind == LINK:
                    (fresh / name).symlink_to(content)
                else:
                    os.link(store / content, fresh / name)
            make_folder(fresh)
            shutil.rmtree(place, ignore_errors=True)
            make_folder(place.parent)
            fresh.rename(place)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    for folder in (place, *place.parents):
        if folder == base:
            break
        os.utime(folder)
    if tree["note"]:
        place.with_name(f"{place.name}.json").write_text(tree["note"])


def _is_whole(store: Path, place: Path, files: Sequence[tuple[str, str, str]]) -> bool:
    found = {os.path.relpath(os.path.join(top, name), place) for top, _, names in os.walk(place) for name in names}  # noqa: PTH118
    links = {os.path.relpath(os.path.join(top, name), place) for top, names, _ in os.walk(place) for name in names}  # noqa: PTH118
    try:
        for name, kind, content in files:
            path = place / name
            if kind == LINK:
                if str(path.readlink()) != content:
                    return False
            elif not path.samefile(store / content):
                return False
    except OSError:
        return False
    return found <= {name for name, _, _ in files} | links


def tidy(base: Path, now: float) -> None:
    """Removes trees that no build has used for a month, and files of the store that no tree has."""
    for kind in TREES:
        for folder in (base / kind).glob("*"):
            if now - folder.stat().st_mtime > KEPT_TREES:
                shutil.rmtree(folder, ignore_errors=True)
                folder.with_name(f"{folder.name}.json").unlink(missing_ok=True)
    for blob in (base / "store").iterdir():
        with contextlib.suppress(FileNotFoundError):
            status = blob.stat()
            if status.st_nlink == 1 and now - status.st_mtime > DAY:
                blob.unlink()


# builds --------------------------------------------------------------------------------------------


def start_build(base: Path, words: Sequence[str], given: IO[bytes]) -> dict[str, Any]:
    """The attempt that runs, the one that the caller knows of and has not heard the end of, or a new one."""
    wanted = json.load(given)
    job = base / "jobs" / wanted["id"]
    make_folder(job)
    with locked(job / "start.lock"):
        attempt = _current(job)
        if attempt and (
            runs(job / attempt)
            or (
                attempt == wanted["known"]
                and (job / attempt / "result.json").exists()
                and not (job / attempt / STOPPED).exists()
            )
        ):
            return {"attempt": attempt, "new": False}
        for tree in wanted["trees"]:
            place_tree(base, tree)
        attempt = f"{time.time_ns()}-{secrets.token_hex(4)}"
        _begin(base, job / attempt, wanted)
        write_json(job / "current.json", attempt)
        for old in sorted(folder for folder in job.iterdir() if folder.is_dir())[:-KEPT_ATTEMPTS]:
            shutil.rmtree(old, ignore_errors=True)
        tidy(base, time.time())
    return {"attempt": attempt, "new": True}


def _current(job: Path) -> str:
    try:
        return str(json.loads((job / "current.json").read_text()))
    except FileNotFoundError:
        return ""


def _begin(base: Path, attempt: Path, wanted: Mapping[str, Any]) -> None:
    """Starts the process of an attempt, which holds a lock as long as it lives and does not end with this link."""
    make_folder(attempt)
    write_json(attempt / "request.json", {**wanted, "trees": []})
    words = [sys.executable, "-P", "-m", "deploy.build_host.prepare", str(base), str(attempt)]
    with (
        (attempt / "running").open("w") as lock,
        (attempt / "events").open("ab") as events,
        (attempt / "stderr").open("ab") as stderr,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            words,
            cwd=base,
            env={**os.environ, "PYTHONPATH": str(base / wanted["code"]), "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=events,
            stderr=stderr,
            start_new_session=True,
            pass_fds=[lock.fileno()],
        )
        lock.write(str(process.pid))


def runs(attempt: Path) -> bool:
    """Whether the process of an attempt is alive, which the kernel knows."""
    try:
        with (attempt / "running").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def read_result(base: Path, words: Sequence[str], given: IO[bytes]) -> dict[str, Any]:
    """What an attempt that has ended left; without a result the end of its standard error."""
    attempt = base / "jobs" / words[0] / words[1]
    try:
        return {"result": json.loads((attempt / "result.json").read_text())}
    except FileNotFoundError:
        lines = (attempt / "stderr").read_text(errors="replace").splitlines() if attempt.is_dir() else []
        return {"result": None, "stderr": "\n".join(lines[-8:])}


def stop_builds(base: Path, words: Sequence[str], given: IO[bytes]) -> dict[str, Any]:
    """Ends the builds of that title that run, whatever their sources; how many there were, and whether all have ended."""
    running = [attempt for attempt in (base / "jobs").glob("*/*") if _title(attempt) == words[0] and runs(attempt)]
    ended = [_stop(attempt) for attempt in running]
    return {"ran": len(running), "ended": all(ended)}


def _title(attempt: Path) -> str:
    try:
        return str(json.loads((attempt / "request.json").read_text())["title"])
    except OSError:
        return ""


def _stop(attempt: Path) -> bool:
    with locked(attempt.with_name("start.lock")):
        number = int((attempt / "running").read_text())
        (attempt / STOPPED).touch()
    for signalled in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(number, signalled)
        until = time.monotonic() + STOP_SECONDS
        while time.monotonic() < until:
            if not runs(attempt):
                return True
            time.sleep(LOOK_SECONDS)
    return False


# answers that are no JSON ----------------------------------------------------------------------------


def follow(base: Path, words: Sequence[str], given: IO[bytes], out: IO[bytes]) -> None:
    """What an attempt says from a byte on, until it has ended, or until nobody listens any more."""
    attempt, seen = base / "jobs" / words[0] / words[1], int(words[2])
    out.write(BEGIN)
    out.flush()
    with (attempt / "events").open("rb") as events:
        events.seek(seen)
        while True:
            is_over = not runs(attempt)
            while chunk := events.read(CHUNK):
                out.write(chunk)
                out.flush()
            if is_over or (select.select([given], [], [], LOOK_SECONDS)[0] and not os.read(given.fileno(), 1)):
                return


def give_files(base: Path, words: Sequence[str], given: IO[bytes], out: IO[bytes]) -> None:
    """A tar of the files of a folder that are asked for."""
    folder, names = Path(words[0]), json.load(given)
    out.write(BEGIN)
    with tarfile.open(fileobj=out, mode="w|") as archive:
        for name in names:
            archive.add(folder / name, name, recursive=False)
    out.flush()


COMMANDS: Mapping[str, Callable[[Path, Sequence[str], IO[bytes]], Mapping[str, Any]]] = {
    "lack": find_lacking,
    "fill": fill_store,
    "start": start_build,
    "result": read_result,
    "stop": stop_builds,
}
STREAMS: Mapping[str, Callable[[Path, Sequence[str], IO[bytes], IO[bytes]], None]] = {
    "follow": follow,
    "files": give_files,
}


if __name__ == "__main__":
    main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer)
