"""``sdk.fetch`` that is cut, killed, starved of disk or started twice: it goes on, and ends with the same files."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import core.http
import core.sha256
import toolchains.tarball
from core.console import Console, Verbosity
from core.errors import NotEnoughSpace, NotFoundOnServer
from core.patience import Patience
from core.session import PROJECT, Session
from tests.shared.disk_use import used
from tests.shared.loopback import Loopback
from tests.shared.standin_sdk.pack import Release, make_release, synthetic_tree
from tests.support.sdk_server import archive_path, listing, serve_list, serve_mirror, unpack_by_hand
from tests.support.waiting import wait_until
from toolchains.install import FetchedSdk, fetch_sdk
from toolchains.installed import list_sdks, sdk_root, verify_sdk
from toolchains.tarball import CHECKPOINT, OnePass

HOST = "linux-x64"
VERSION = "5.0.0"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is saved so often that archives of some megabytes behave as those of some gigabytes."""
    monkeypatch.setattr(core.http, "PATIENCE", Patience(pause=0.01, times=1))
    monkeypatch.setattr(toolchains.tarball, "CHECKPOINT_BYTES", 64 * 1024)


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as server:
        yield server


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """A release of about 4 MB, a third of it behind what is wanted."""
    folder = tmp_path_factory.mktemp("release")
    tree = synthetic_tree(folder / "tree", VERSION, 6_000_000)
    (tree / "previewer").mkdir()
    (tree / "previewer/noise").write_bytes(random.Random(9).randbytes(1_200_000))
    return make_release(folder / "packed", VERSION, HOST, tree=tree)


@pytest.fixture(scope="module")
def by_hand(release: Release, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, bytes | str]]:
    return listing(unpack_by_hand(release, tmp_path_factory.mktemp("by-hand") / "tree"))


def fetch(session: Session, mirror: str) -> FetchedSdk:
    return fetch_sdk(session, VERSION, host=HOST, mirror=mirror)


def test_a_cut_connection_costs_nothing_twice(
    session: Session, server: Loopback, release: Release, by_hand: dict[str, object]
) -> None:
    mirror = serve_mirror(server, release)
    cut = int(release.size * 0.9)
    server.fault(archive_path(release), "end_early", skip=1, after=cut)  # the first request only asks for the size
    fetched = fetch(session, mirror)
    assert listing(fetched.path) == by_hand
    assert fetched.bytes_downloaded == release.size
    assert server.requests_of(archive_path(release))[-1].range == f"bytes={cut}-"


@hypothesis_settings(max_examples=25)
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_cut_at_any_byte_and_resumed_by_another_call_the_files_are_the_same(
    session: Session,
    server: Loopback,
    release: Release,
    by_hand: dict[str, object],
    tmp_path: Path,
    fraction: float,
) -> None:
    cut = int(release.size * fraction)
    folder = tempfile.mkdtemp(dir=tmp_path)
    own = dataclasses.replace(session, settings=dataclasses.replace(session.settings, data_dir=folder))
    with contextlib.ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).delenv("OHFORGE_DATA_DIR")
        mirror = serve_mirror(server, release)
        server.faults.clear()
        server.fault(archive_path(release), "end_early", skip=1, after=cut)
        server.fault(archive_path(release), "status", skip=2, code=404)
        with pytest.raises(NotFoundOnServer):
            fetch(own, mirror)
        fetched = fetch(own, mirror)
        assert listing(fetched.path) == by_hand
        assert fetched.bytes_reused <= cut
        assert fetched.bytes_downloaded == release.size - fetched.bytes_reused
        # Between two saved states lie 64 KiB and a step of 256 KiB.
        assert cut - fetched.bytes_reused < 64 * 1024 + 2 * 256 * 1024
        assert not list(sdk_root(own).glob(".new-*"))


def test_without_a_hash_that_can_be_saved_it_begins_anew_and_ends_right(
    session: Session, server: Loopback, release: Release, by_hand: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core.sha256, "_library", lambda: None)
    mirror = serve_mirror(server, release)
    server.fault(archive_path(release), "end_early", skip=1, after=2_000_000)
    server.fault(archive_path(release), "status", skip=2, code=404)
    with pytest.raises(NotFoundOnServer):
        fetch(session, mirror)
    fetched = fetch(session, mirror)
    assert listing(fetched.path) == by_hand
    assert fetched.bytes_reused == 0


def break_off(session: Session, server: Loopback, release: Release, at: float = 0.8) -> Path:
    """Leaves a broken-off installation; returns its folder."""
    server.fault(archive_path(release), "end_early", skip=1, after=int(release.size * at))
    server.fault(archive_path(release), "status", skip=2, code=404)
    with pytest.raises(NotFoundOnServer):
        fetch(session, serve_mirror(server, release))
    return sdk_root(session) / f".new-{VERSION}-{HOST}"


def test_a_broken_off_installation_is_no_installation_and_is_listed_as_begun(
    session: Session, server: Loopback, release: Release
) -> None:
    staging = break_off(session, server, release)
    assert not (sdk_root(session) / f"{VERSION}-{HOST}").exists()
    (row,) = [row for row in list_sdks(session) if row["version"] == VERSION]
    assert row["path"] == ""
    assert row["fetched_bytes"] == json.loads((staging / CHECKPOINT).read_text())["offset"] > release.size // 2


@pytest.mark.parametrize("damage", ["zip flipped", "zip lost", "zip cut", "tree cut", "state garbled", "state lost"])
def test_leftovers_that_were_damaged_are_noticed_and_fetched_anew(
    session: Session,
    server: Loopback,
    release: Release,
    by_hand: dict[str, object],
    damage: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin = OnePass._begin_unpacking

    def unpack_at_once(reader: OnePass, component: str) -> None:
        begin(reader, component)
        reader._jobs[component].result()

    monkeypatch.setattr(OnePass, "_begin_unpacking", unpack_at_once)
    staging = break_off(session, server, release, 0.4 if damage.startswith("zip") else 0.95)
    packed = staging / "native.zip"
    if damage == "zip flipped":
        content = bytearray(packed.read_bytes())
        content[len(content) // 3] ^= 1
        packed.write_bytes(content)
    elif damage == "zip lost":
        packed.unlink()
    elif damage == "zip cut":
        os.truncate(packed, 1000)
    elif damage == "tree cut":
        os.truncate(next((staging / "native/data").rglob("*.bin")), 1)
    elif damage == "state garbled":
        (staging / CHECKPOINT).write_text('{"identity": ')
    else:
        (staging / CHECKPOINT).unlink()
    fetched = fetch(session, serve_mirror(server, release))
    assert listing(fetched.path) == by_hand
    assert fetched.bytes_reused == 0


def test_what_was_begun_from_one_mirror_goes_on_from_another(
    session: Session, server: Loopback, release: Release, by_hand: dict[str, object]
) -> None:
    break_off(session, server, release)
    fetched = fetch(session, serve_mirror(server, release, "/elsewhere"))
    assert listing(fetched.path) == by_hand
    assert fetched.bytes_reused > release.size // 2


def test_a_mirror_that_dies_in_the_middle_is_followed_by_the_next_where_it_stopped(
    session: Session, server: Loopback, release: Release, by_hand: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support.sdk_server import MIRROR2, use_loopback_for_all

    use_loopback_for_all(server, monkeypatch)
    serve_mirror(server, release, MIRROR2)
    settings = dataclasses.replace(session.settings, sdk_mirror=serve_mirror(server, release))
    server.fault(archive_path(release), "cut", skip=1, after=int(release.size * 0.7))
    server.fault(archive_path(release), "drop", skip=2, times=-1)
    fetched = fetch_sdk(dataclasses.replace(session, settings=settings), VERSION, host=HOST)
    assert listing(fetched.path) == by_hand
    assert "/second/" in fetched.source
    assert fetched.bytes_downloaded < release.size * 1.3


def test_an_archive_that_was_replaced_while_it_was_fetched_is_not_mixed(
    session: Session, server: Loopback, release: Release, tmp_path: Path
) -> None:
    from core.errors import OhforgeError

    mirror = serve_mirror(server, release)
    path = archive_path(release)
    server.fault(path, "end_early", skip=1, after=1_000_000)
    other = make_release(tmp_path / "other", VERSION, HOST, "prefix")
    served = server.files[path]
    real_sleep = time.sleep

    def replace(seconds: float) -> None:
        server.files[path] = dataclasses.replace(served, content=other.archive)
        real_sleep(0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", replace)
        with pytest.raises(OhforgeError, match="replaced"):
            fetch(session, mirror)
    assert not (sdk_root(session) / f"{VERSION}-{HOST}").exists()


FETCHING = """
import sys
import toolchains.tarball
toolchains.tarball.CHECKPOINT_BYTES = 64 * 1024
from core.console import Console
from core.session import Session
from toolchains.install import fetch_sdk
got = fetch_sdk(Session(console=Console(json_mode=True)), sys.argv[2], host=sys.argv[3], mirror=sys.argv[1])
print(got.bytes_downloaded, got.bytes_reused, flush=True)
"""


def in_a_process(mirror: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCHING, mirror, VERSION, HOST],
        cwd=PROJECT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("seed", range(4))
def test_killed_at_any_moment_it_leaves_the_old_state_or_one_that_resumes(
    session: Session, server: Loopback, release: Release, by_hand: dict[str, object], seed: int
) -> None:
    mirror = serve_mirror(server, release)
    server.fault(archive_path(release), "slow", times=-1, seconds=0.04)
    moments = random.Random(seed)
    target = sdk_root(session) / f"{VERSION}-{HOST}"
    for _ in range(4):
        with in_a_process(mirror) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=moments.uniform(0.3, 1.6))
            process.kill()
        if target.exists():
            assert verify_sdk(session).ok
    server.faults.clear()
    fetched = fetch(session, mirror)
    assert listing(fetched.path) == by_hand
    assert verify_sdk(session).ok
    assert [path.name for path in sdk_root(session).iterdir() if not path.name.endswith(".lock")] == [target.name]


def test_killed_half_way_the_next_process_fetches_only_the_rest(
    session: Session, server: Loopback, release: Release, by_hand: dict[str, object]
) -> None:
    mirror = serve_mirror(server, release)
    staging = sdk_root(session) / f".new-{VERSION}-{HOST}"
    server.fault(archive_path(release), "slow", times=-1, seconds=0.05)
    process = in_a_process(mirror)

    def offset() -> int:
        with contextlib.suppress(OSError, ValueError):
            return int(json.loads((staging / CHECKPOINT).read_text())["offset"])
        return 0

    wait_until("half of the archive", lambda: offset() > release.size * 0.5)
    process.kill()
    process.communicate()
    saved = offset()
    server.faults.clear()
    fetched = fetch(session, mirror)
    assert listing(fetched.path) == by_hand
    assert fetched.bytes_reused == saved
    assert fetched.bytes_downloaded == release.size - saved


@pytest.mark.parametrize("moment", ["before the renaming", "between the components"])
def test_killed_in_the_last_step_it_is_finished_without_a_download(
    session: Session, server: Loopback, release: Release, by_hand: dict[str, object], moment: str
) -> None:
    mirror = serve_mirror(server, release)
    target = fetch(session, mirror).path
    staging = target.with_name(f".new-{target.name}")
    target.rename(staging)
    (staging / "left.zip").touch()
    asked = len(server.seen)
    if moment == "between the components":
        (staging / "toolchains").rename(staging.with_name("moved-away"))
        assert listing(fetch(session, mirror).path) == by_hand
        return
    fetched = fetch(session, mirror)
    assert listing(fetched.path) == by_hand
    assert (fetched.bytes_downloaded, len(server.seen)) == (0, asked)
    assert not (fetched.path / "left.zip").exists()


def test_two_processes_at_once_download_once(session: Session, server: Loopback, release: Release) -> None:
    mirror = serve_mirror(server, release)
    server.fault(archive_path(release), "slow", times=-1, seconds=0.02)
    processes = [in_a_process(mirror) for _ in range(2)]
    counts = sorted(int(process.communicate()[0].split()[0]) for process in processes)
    assert counts == [0, release.size]
    assert verify_sdk(session).ok


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_disk_that_becomes_full_in_the_middle_leaves_what_resumes(
    session: Session, server: Loopback, release: Release, by_hand: dict[str, object], tmp_path: Path
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "small", disk]).returncode:
        pytest.skip("mounting is forbidden here")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OHFORGE_DATA_DIR", str(disk))
            patch.setattr("toolchains.tarball.require_space", lambda *_: None)
            mirror = serve_mirror(server, release)
            with pytest.raises(NotEnoughSpace, match="became full") as caught:
                fetch(session, mirror)
            assert caught.value.exit_status == 75
            subprocess.run(["mount", "-o", "remount,size=40m", disk], check=True)
            fetched = fetch(session, mirror)
            assert listing(fetched.path) == by_hand
            assert fetched.bytes_reused > 500_000
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("source", ["mirror", "components"])
def test_the_disk_never_holds_more_than_what_is_installed_and_the_packed_component(
    server: Loopback, session: Session, tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = synthetic_tree(tmp_path / "tree", VERSION, 40_000_000)
    packed = make_release(tmp_path / "packed", VERSION, HOST, tree=tree)
    mirror = serve_mirror(server, packed)
    if source == "components":
        from tests.support.sdk_server import use_loopback_for_all

        use_loopback_for_all(server, monkeypatch)
        serve_list(server, packed)
    settings = dataclasses.replace(session.settings, sdk_sources=("components",))
    quiet = Session(settings=settings, console=Console(verbosity=Verbosity.QUIET))
    peak, done = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.is_set():
            peak = max(peak, used(tmp_path / "data") + used(tmp_path / "cache"))
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        fetched = fetch_sdk(quiet, VERSION, host=HOST, mirror=mirror if source == "mirror" else "")
    finally:
        done.set()
        watcher.join()
    installed = used(fetched.path)
    inner = packed.components["native"].stat().st_size
    assert peak <= installed + inner + 1_000_000, f"{peak=} {installed=} {inner=} archive={packed.size}"
