"""Ctrl-C while a file is on its way; for builds see test_build.py, for runs deploy/test_runs.py."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.download import download
from core.session import PROJECT, Session
from deploy.emulator.board.boards import EmulatedBoard, list_emulated, stop_board
from deploy.emulator.board.faults import FaultFile
from deploy.hdc.choose import choose_board
from deploy.launch.shell import run_shell
from tests.shared.loopback import Loopback
from tests.support.waiting import wait_until

SIZE = 3_000_000
CHUNK = 400_000
INTERRUPTED = 79
DOWNLOAD = """
import sys
from pathlib import Path
from core.download import download
from core.session import Session
download(Session(), sys.argv[1], Path(sys.argv[2]))
"""


def interrupt_when(begun: Callable[[], bool], words: list[str]) -> tuple[int, str]:
    """Runs Python with `words`, presses Ctrl-C once `begun`; gives the exit status and what was said."""
    process = subprocess.Popen(
        [sys.executable, *words], cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with process:
        try:
            wait_until("the beginning", lambda: begun() or process.poll() is not None)
            assert process.poll() is None, process.communicate()[0]
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[0]
        finally:
            process.kill()
    return process.returncode, said


def is_arriving(folder: Path) -> bool:
    # Of what is looked at, anything may have got another name meanwhile.
    with contextlib.suppress(FileNotFoundError):
        return any(part.stat().st_size > 100_000 for part in folder.rglob("*.part"))
    return False


@pytest.fixture
def emulated(session: Session) -> Iterator[EmulatedBoard]:
    """The emulated dayu200, running."""
    run_shell(session, choose_board(session, "dayu200"), "true")
    (board,) = list_emulated(session.settings.data / "boards")
    yield board
    stop_board(board)


def test_ctrl_c_in_a_push_leaves_no_file_there_and_the_next_push_is_whole(
    session: Session, emulated: EmulatedBoard, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(os.urandom(SIZE))
    words = ["-m", "invoke", "board.push", str(tmp_path / "file"), "/data/local/tmp/there/", "--board", "dayu200"]
    faults = FaultFile(folder=emulated.folder)
    faults.set("slow", rate=200_000)
    status, said = interrupt_when(lambda: is_arriving(emulated.disk), words)
    faults.clear()
    assert status == INTERRUPTED, said
    assert "OHF7901" in said
    assert "Traceback" not in said
    assert list(emulated.disk.rglob("there/file")) == []

    subprocess.run([sys.executable, *words], cwd=PROJECT, check=True, capture_output=True)
    (arrived,) = emulated.disk.rglob("there/file")
    assert arrived.read_bytes() == (tmp_path / "file").read_bytes()


PUSH_IN_CHUNKS = f"""
import sys
from pathlib import Path
from core.session import Session
from deploy.transfer import chunks
from deploy.hdc.choose import choose_board
from deploy.transfer.placement import FileToPlace
from deploy.transfer.push import place_files
chunks.CHUNKED_FROM = chunks.SMALLEST_CHUNK = chunks.LARGEST_CHUNK = {CHUNK}
session = Session()
file = FileToPlace(local=Path(sys.argv[1]), name="file")
print(place_files(session, choose_board(session, "dayu200"), [file], "/data/local/tmp/there").bytes_sent)
"""


def test_after_kill_9_the_next_push_of_a_large_file_sends_at_most_one_chunk_again(
    emulated: EmulatedBoard, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(os.urandom(SIZE))
    words = [sys.executable, "-c", PUSH_IN_CHUNKS, str(tmp_path / "file")]
    faults = FaultFile(folder=emulated.folder)
    faults.set("slow", rate=1_000_000)

    def joined() -> int:
        return sum(path.stat().st_size for path in emulated.disk.rglob("*.parts/joined"))

    with subprocess.Popen(words, cwd=PROJECT, stdout=subprocess.DEVNULL) as process:
        wait_until("half of the file", lambda: joined() >= SIZE / 2 or process.poll() is not None)
        assert process.poll() is None
        process.kill()
    lacking = SIZE - joined()
    assert list(
        Path(os.environ["TMPDIR"]).glob("ohforge-spool-*/*")
    )  # Whoever is killed cannot remove what he has cut.
    faults.clear()
    done = subprocess.run(words, cwd=PROJECT, check=True, capture_output=True, text=True)
    assert int(done.stdout.split()[-1]) <= lacking
    (arrived,) = emulated.disk.rglob("there/file")
    assert arrived.read_bytes() == (tmp_path / "file").read_bytes()
    assert list(emulated.disk.rglob("*.parts")) == []
    assert list(Path(os.environ["TMPDIR"]).glob("ohforge-*")) == []


def test_ctrl_c_in_a_download_keeps_what_came_and_the_next_one_goes_on(session: Session, tmp_path: Path) -> None:
    content, target = os.urandom(SIZE), tmp_path / "file.bin"
    with Loopback() as server:
        url = server.serve("/file.bin", content)
        server.fault("/file.bin", "slow", seconds=0.1)
        interrupt_when(lambda: is_arriving(tmp_path), ["-c", DOWNLOAD, url, str(target)])
        assert not target.exists()
        done = download(session, url, target)
    assert target.read_bytes() == content
    assert done.bytes_reused > 0
    assert done.bytes_downloaded + done.bytes_reused == SIZE
