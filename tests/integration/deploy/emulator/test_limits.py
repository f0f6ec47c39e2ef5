"""An emulated board with real limits: memory, storage and processor time by control groups of this machine."""

from __future__ import annotations

import tempfile
import time
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


def test_a_file_that_does_not_fit_into_memory_is_read_at_the_rate_of_the_storage_each_time(
    own: Hdc, limited: Start, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(bytes(32 * MIB))
    read = f"cat {TMP}/file >/dev/null"
    limited(memory_limit=20 * MIB, storage_rate=16 * MIB, cpu_quota=0)
    own.board("file", "send", str(tmp_path / "file"), f"{TMP}/file")
    slow = [seconds_of(own, read) for _ in range(2)]
    # 32 MiB at 16 MiB a second; what stayed in memory from the time before need not be read.
    assert min(slow) >= (32 - 20) / 16
    assert own.shell("head -n 1 /proc/meminfo") == b"MemTotal:          20480 kB\n"
    limited(memory_limit=0, storage_rate=16 * MIB)
    own.shell(read)
    assert seconds_of(own, read) < min(slow) / 2, "what fits into memory is read from the storage once"


def seconds_of(hdc: Hdc, script: str) -> float:
    begin = time.monotonic()
    hdc.shell(script)
    return time.monotonic() - begin


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
