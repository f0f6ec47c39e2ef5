"""The Python that a build host builds with."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from deploy.build_host import prepare


def test_an_environment_without_the_packages_is_made_by_pip_and_only_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _write_wheel(tmp_path / "wheels", "ohforge_probe", "1.5")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    packages = {"ohforge_probe": "1.5"}
    assert not prepare.has_packages(packages)
    python = prepare.make_environment(tmp_path, packages)
    question = "import importlib.metadata as m; print(m.version('ohforge_probe'))"
    said = subprocess.run([python, "-c", question], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said == "1.5\n"
    assert "Making a Python environment with ohforge_probe==1.5" in capsys.readouterr().out
    assert prepare.make_environment(tmp_path, packages) == python
    assert capsys.readouterr().out == ""


def test_what_pip_could_not_do_is_told_with_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"venv": "", "pip": "ERROR: No matching distribution found for cmake==4"}
    monkeypatch.setattr(prepare, "_run", lambda words: answers[words[2]])
    with pytest.raises(prepare.Unfit, match="No matching distribution found for cmake==4") as caught:
        prepare.make_environment(tmp_path, {"cmake": "4"})
    assert (caught.value.error["code"], caught.value.error["remedy"][-8:]) == ("OHF7701", "cmake==4")
    answers["pip"] = "OSError: [Errno 28] No space left on device"
    with pytest.raises(prepare.Unfit) as caught:
        prepare.make_environment(tmp_path, {"cmake": "4"})
    assert caught.value.error["code"] == "OHF7501"


def test_a_python_that_can_make_no_environment_is_told_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "_run", lambda words: "ensurepip is not available")
    with pytest.raises(prepare.Unfit, match="ensurepip is not available") as caught:
        prepare.make_environment(tmp_path, {"cmake": "4"})
    assert f"python3.{sys.version_info[1]}-venv" in caught.value.error["remedy"]


def test_a_disk_without_room_for_an_environment_is_told_before_one_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=20_500_000))
    with pytest.raises(prepare.Unfit, match=r"has 20 MB free in .*; .* needs 650 MB") as caught:
        prepare.make_environment(tmp_path, {"cmake": "4"})
    assert caught.value.error["code"] == "OHF7501"
    assert capsys.readouterr().out == ""


def test_a_packages_version_counts() -> None:
    assert prepare.has_packages({"pyyaml": yaml.__version__})
    assert not prepare.has_packages({"pyyaml": "0.1"})


def _write_wheel(folder: Path, name: str, version: str) -> None:
    folder.mkdir()
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in files))
