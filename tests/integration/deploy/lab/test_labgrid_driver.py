"""labgrid's own plugin for pytest with the resource and the driver of `deploy.labgrid_hdc`, on the emulated board."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

pytest.importorskip("labgrid", reason="labgrid is not installed: make test-setup")

from labgrid.remote.config import ResourceConfig

from core.session import PROJECT
from deploy.labgrid_hdc import NetworkHDCDevice
from tests.support.lab import Lab

TESTS = """
import os
from pathlib import Path

import pytest
from labgrid.driver.exception import ExecutionError


@pytest.fixture
def board(target):
    return target.get_driver("CommandProtocol")


def test_output_and_status_are_the_commands_own(board):
    assert board.run_check("uname -m; echo two") == ["aarch64", "two"]
    assert board.run("echo out; echo err >&2; exit 7") == (["out", "err"], [], 7)
    assert board.get_status() == 1
    board.wait_for("cat /proc/cpuinfo", "0xd05", timeout=60.0)
    assert board.poll_until_success("true", timeout=60.0)
    with pytest.raises(ExecutionError):
        board.run_check("false")


def test_a_command_that_does_not_end_is_ended_on_the_board(board):
    with pytest.raises(ExecutionError, match="No end of the command"):
        board.run("exec sleep 4242", timeout=0.5)
    assert "sleep 4242" not in "".join(board.run_check("ps -ef"))


def test_files_go_there_and_come_back(target, tmp_path):
    files = target.get_driver("FileTransferProtocol")
    sent = tmp_path / "a file"
    sent.write_bytes(os.urandom(100_000))
    files.put(str(sent), "/data/local/tmp/there/")
    files.get("/data/local/tmp/there/a file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == sent.read_bytes()
    with pytest.raises(ExecutionError, match="OHF7102"):
        files.get("/data/local/tmp/none", str(tmp_path / "none"))
"""


def run_pytest(folder: Path, home: Path, described: Mapping[str, object], which: str = "test") -> str:
    """What pytest prints with labgrid's plugin and this configuration, with which those tests pass that `which` selects."""
    (folder / "lab.yaml").write_text(yaml.safe_dump(described))
    (folder / "test_board.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--lg-env", "lab.yaml", "-k", which],
        cwd=folder,
        env={**os.environ, "OHFORGE_EMULATOR_HOME": str(home), "PYTHONPATH": str(PROJECT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def shown_in_the_guide(first: str) -> str:
    """The YAML of the guide that begins with this key."""
    blocks = re.findall(r"^ *```yaml\n(.*?)^ *```", (PROJECT / "docs/lab.md").read_text(), re.MULTILINE | re.DOTALL)
    [found] = [textwrap.dedent(block) for block in blocks if block.strip().startswith(f"{first}:")]
    return found


def test_the_exporter_of_the_guide_offers_what_the_resource_takes(tmp_path: Path) -> None:
    (tmp_path / "exports.yaml").write_text(shown_in_the_guide("bench"))
    told = ResourceConfig(str(tmp_path / "exports.yaml"), {"hostname": "lab1"}).data["bench"]["NetworkHDCDevice"]
    device = NetworkHDCDevice(target=None, name=None, **told)
    serial = "7001005458323933328a01bce16d3800"
    assert (device.host, device.serial, device.profile, device.hdc_server) == ("lab1", serial, "dayu200", "")


def with_device(serial: str) -> dict[str, object]:
    """A configuration with a board of this computer."""
    main = {"resources": [{"HDCDevice": {"serial": serial}}], "drivers": [{"HDCDriver": {}}]}
    return {"targets": {"main": main}, "imports": ["deploy.labgrid_hdc"]}


def test_labgrids_plugin_drives_the_board_of_a_place_as_the_guide_says(lab: Lab, tmp_path: Path, home: Path) -> None:
    [shown] = re.findall(
        r"^```yaml\n(targets:.*?)^```", (PROJECT / "docs/lab.md").read_text(), re.MULTILINE | re.DOTALL
    )
    described = yaml.safe_load(shown.replace("coordinator:20408", lab.address))
    lab.client("acquire", place="bench")
    try:
        assert "3 passed" in run_pytest(tmp_path, home, described)
    finally:
        lab.client("release", place="bench")


def test_the_driver_needs_no_coordinator_for_a_board_of_this_computer(tmp_path: Path, home: Path) -> None:
    assert "1 passed" in run_pytest(tmp_path, home, with_device("emulated-dayu200"), "output")


def test_a_board_that_is_not_there_is_labgrids_own_error(tmp_path: Path, home: Path) -> None:
    with pytest.raises(AssertionError, match=r"ExecutionError.*OHF"):
        run_pytest(tmp_path, home, with_device("emulated-nothing"), "output")
