"""An emulated board with real limits: memory, storage and processor time by control groups of this machine."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import HostUnsupported
from deploy.emulator.board.boards import create_board, start_board, stop_board
from tests.support.emulated import Hdc
from tests.support.emulated_programs import TMP
from tests.support.nobody import Nobody

MIB = 1024 * 1024
Start = Callable[..., Path]


@pytest.fixture
def limited(own: Hdc) -> Start:
    """Starts the board anew with limits, or skips where this machine lets none be set."""

    def start(**limits: float) -> Path:
        board = create_board("emulated-dayu200", **limits)
        stop_board(board)
        try:
            start_board(board)
        except HostUnsupported as error:
            pytest.skip(error.message)
        return board.folder

    return start


def groups() -> list[Path]:
    return list(Path("/sys/fs/cgroup").glob("**/ohforge-emulated-dayu200-*"))


def test_a_file_that_does_not_fit_into_memory_is_read_from_the_storage_each_time(
    own: Hdc, limited: Start, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(bytes(192 * MIB))
    read = f"cat {TMP}/file >/dev/null"
    limited(memory_limit=60 * MIB, storage_rate=64 * MIB, cpu_quota=0)
    own.board("file", "send", str(tmp_path / "file"), f"{TMP}/file")
    assert rate_of_storage() == 64 * MIB
    # What stayed in memory from the time before need not be read: at least a quarter of the file does not.
    assert min(read_from_storage(own, read) for _ in range(2)) >= 48 * MIB
    assert own.shell("head -n 1 /proc/meminfo") == b"MemTotal:          61440 kB\n"
    limited(memory_limit=0, storage_rate=64 * MIB)
    own.shell(read)
    assert read_from_storage(own, read) < 19 * MIB, "what fits into memory is read from the storage once"


def rate_of_storage() -> int:
    """Bytes a second that the kernel is told to let the board read."""
    return int(re.findall(r"(?:rbps=|^\d+:\d+ )(\d+)", of_groups("blkio.throttle.read_bps_device", "io.max"), re.M)[0])


def read_from_storage(hdc: Hdc, script: str) -> int:
    """Bytes that the kernel counts as read for the board while a script runs. Not its time: with a large readahead the
    kernel lets more through than it was told."""
    before = bytes_read()
    hdc.shell(script)
    return bytes_read() - before


def bytes_read() -> int:
    counted = of_groups("blkio.throttle.io_service_bytes", "io.stat")
    return sum(map(int, re.findall(r"(?:rbytes=| Read )(\d+)", counted)))


def of_groups(*names: str) -> str:
    """A file of the board's control groups, by its name in version 1 or 2."""
    files = [group / name for group in groups() for name in names]
    return "".join(file.read_text() for file in files if file.is_file())


def test_half_a_processor_takes_twice_the_time(own: Hdc, limited: Start) -> None:
    limited(cpu_quota=0.25)
    said = own.shell("time -p sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done'").decode().split()
    times = dict(zip(said[::2], map(float, said[1::2]), strict=True))
    assert times["real"] >= 2 * (times["user"] + times["sys"])


def test_the_groups_end_with_the_board(own: Hdc, limited: Start) -> None:
    folder = limited(memory_limit=100 * MIB)
    assert len(groups()) == 1
    assert own.shell("echo up") == b"up\n"
    stop_board(create_board(folder.name))
    assert groups() == []


def test_a_disk_without_a_device_has_no_rate(own: Hdc) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        board = create_board("emulated-dayu200", home=Path(folder), storage_rate=MIB)
        with pytest.raises(HostUnsupported, match="no block device"):
            start_board(board)


def test_an_ordinary_user_is_told_that_he_may_set_no_limit() -> None:
    with Nobody.settled("namespaces") as nobody:
        nobody.manage("create", "emulated-dayu200", "--memory-limit", "100M")
        assert "This computer lets no limit be set" in nobody.manage("start")
        nobody.manage("create", "emulated-dayu200", "--memory-limit", "0")
        assert nobody.manage("start") == "emulated-dayu200 runs (namespaces)\n"
