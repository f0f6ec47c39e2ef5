"""Faults that are switched on and off by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import UnknownName
from deploy.emulator.board.faults import FAULTS, FaultFile


def test_a_fault_with_a_count_switches_itself_off(tmp_path: Path) -> None:
    faults = FaultFile(folder=tmp_path)
    faults.set("cut-output", at=5, count=2)
    assert [faults.use("cut-output") is not None for _ in range(3)] == [True, True, False]
    assert faults.active() == {}


def test_a_fault_without_a_count_stays(tmp_path: Path) -> None:
    faults = FaultFile(folder=tmp_path)
    faults.set("slow", rate=10)
    for _ in range(3):
        used = faults.use("slow")
        assert used is not None
        assert used["rate"] == 10
    faults.clear()
    assert faults.use("slow") is None


def test_an_unknown_fault_and_an_unknown_parameter_are_refused(tmp_path: Path) -> None:
    faults = FaultFile(folder=tmp_path)
    with pytest.raises(UnknownName, match="did you mean 'cut-output'"):
        faults.set("cut-outputs")
    with pytest.raises(UnknownName, match="parameter of slow"):
        faults.set("slow", speed=1)
    assert faults.active() == {}


def test_every_fault_is_described() -> None:
    assert all(fault.text and name == fault.name for name, fault in FAULTS.items())


def test_a_fault_can_come_after_some_commands(tmp_path: Path) -> None:
    faults = FaultFile(folder=tmp_path)
    faults.set("cut-output", skip=2)
    faults.set("slow")
    assert [sorted(faults.begin_command()) for _ in range(4)] == [
        ["slow"],
        ["slow"],
        ["cut-output", "slow"],
        ["cut-output", "slow"],
    ]
