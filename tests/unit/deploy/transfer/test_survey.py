"""What a board is asked before files are sent, and how its answer is read."""

from __future__ import annotations

import os

import pytest

from core.errors import (
    BoardError,
    LostConnection,
)
from core.session import Session
from deploy.board.survey import Question, read_survey, survey_board
from tests.support.local_board import LocalBoard


def test_a_board_is_asked_again_when_its_first_answer_is_swallowed(session: Session, board: LocalBoard) -> None:
    faults = [LostConnection("no answer"), LostConnection("no answer")]

    def swallow(script: str) -> None:
        if faults:
            raise faults.pop()

    board.on_shell = swallow
    assert survey_board(session, board).hash_tool == "sha256sum"
    assert len(board.calls) == 3


def test_a_board_that_never_answers_is_told(session: Session, board: LocalBoard) -> None:
    def swallow(script: str) -> None:
        raise LostConnection("no answer")

    board.on_shell = swallow
    with pytest.raises(LostConnection):
        survey_board(session, board)


def test_an_answer_that_is_cut_is_no_answer() -> None:
    with pytest.raises(BoardError, match="not whole"):
        read_survey("@@hash\nsha256sum\n@@machine\naarch64\n5.10\n")


SAID = """@@hash
md5sum
@@writable
yes
@@space
Filesystem     1024-blocks     Used Available Capacity Mounted on
/dev/block/platform/fe310000.sdhci/by-name/userdata 25165824 1000 25164824 1% /data
@@machine
aarch64
5.10.184
#1 SMP Thu Jan 1 00:00:00 UTC 2026
@@loaders
/lib/ld-musl-arm.so.1
@@libraries
1 /system/lib/libc++.so
2 /system/lib64/libodd.so
@@memory
MemTotal:        1982468 kB
MemFree:          983040 kB
MemAvailable:    1310720 kB
@@cpu
processor\t: 0
Features\t: fp asimd asimddp

processor\t: 1
@@parameters
const.product.model=DAYU200
const.debuggable=Get parameter "const.debuggable" fail! errNum is:106!
@@stored
aaa 100 17 2026-01-01 00:00:00.5 +0000
bbb 200 18 2026-01-01 00:00:00.5 +0000
@@proven
aaa 100 17 2026-01-01 00:00:00.5 +0000
bbb 200 18 2026-01-01 00:00:00.4 +0000
@@end
"""


def test_what_a_board_says_is_understood() -> None:
    survey = read_survey(SAID)
    assert survey.arches == ("arm32", "arm64")  # the system is 32-bit, the kernel 64-bit
    assert survey.static_only == ("arm64",)
    assert survey.free_bytes == 25164824 * 1024
    assert survey.memory_bytes == 1982468 * 1024
    assert survey.available_bytes == 1310720 * 1024
    assert survey.libraries == {("libc++.so", 32), ("libodd.so", 64)}
    assert survey.parameters == {"const.product.model": "DAYU200"}
    assert (survey.cores, survey.cpu_features) == (2, ("fp", "asimd", "asimddp"))
    assert survey.stored == {"aaa": 100, "bbb": 200}
    assert survey.proven == {"aaa"}


def test_every_part_of_the_survey_is_a_script_that_runs(session: Session, board: LocalBoard) -> None:
    survey = survey_board(
        session, board, Question(stored=["0" * 64], libraries=["libc.so.6"], interpreters=["/bin/sh"])
    )
    assert survey.machine == os.uname().machine
    assert "/bin/sh" in survey.loaders
    assert survey.memory_bytes > 0
    assert survey.free_bytes is not None
