"""Managing emulated boards from the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from deploy.emulator import manage as subject
from deploy.emulator.board.boards import create_board, list_emulated, stop_board
from deploy.emulator.board.faults import FAULTS, FaultFile
from tests.support.emulated import ROOT, Hdc, emulated_home
from tests.support.trees import nest


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with emulated_home(tmp_path_factory.mktemp("manage")) as environment:
        create_board("emulated-dayu200", home=Path(environment["OHFORGE_EMULATOR_HOME"]))
        yield environment


def manage(home: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deploy.emulator.manage", *words],
        env={**os.environ, **home},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_faults_are_switched_by_the_command_line(home: dict[str, str]) -> None:
    hdc = Hdc(environment=home)
    faults = FaultFile(folder=Path(home["OHFORGE_EMULATOR_HOME"]) / hdc.key)
    assert manage(home, "fault", "set", hdc.key, "cut-output", "at=3", "count=1").returncode == 0
    assert "cut-output" in manage(home, "list").stdout
    assert hdc.shell("echo 1234567") == b"123"
    assert hdc.shell("echo 1234567") == b"1234567\n"
    manage(home, "fault", "set", hdc.key, "freeze")
    manage(home, "fault", "clear", hdc.key)
    assert faults.active() == {}


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("fault", "set", "emulated-dayu200", "freez"), "did you mean 'freeze'"),
        (("fault", "set", "emulated-dayu200", "slow", "speed=1"), "parameter of slow"),
        (("fault", "set", "emulated-dayu200", "slow", "rate=fast"), "is no number"),
        (("fault", "set", "emulated-nothing", "slow"), "no emulated board 'emulated-nothing'"),
        (("create", "emulated-\N{LATIN SMALL LETTER U WITH DIAERESIS}"), "letters A to Z"),
        (("create", f"emulated-{'x' * 24}"), "at most 32"),
        (("create", "emulated-x", "--profile", "dayu20"), "did you mean 'dayu200'"),
        (("create", "emulated-x", "--profile", "dayu200", "--release", "9"), "no OpenHarmony release"),
        (("create", "emulated-x", "--library", "arm64"), "NAME=VALUE"),
        (("stop", "emulated-nothing"), "no emulated board"),
        (("frobnicate",), "No such command"),
    ],
)
def test_a_wrong_command_line_is_refused_with_status_64(
    home: dict[str, str], words: tuple[str, ...], complaint: str
) -> None:
    done = manage(home, *words)
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 64


def test_a_board_is_made_and_removed(home: dict[str, str]) -> None:
    assert manage(home, "create", "emulated-other", "--profile", "generic").returncode == 0
    assert "emulated-other" in manage(home, "list").stdout
    assert manage(home, "start", "emulated-other").stdout == "emulated-other runs (namespaces)\n"
    folder = Path(home["OHFORGE_EMULATOR_HOME"]) / "emulated-other"
    nest(folder / "data/local/tmp", 1200)  # as any program on the board can
    assert manage(home, "remove", "emulated-other").returncode == 0
    assert not folder.exists()


# one JSON object -----------------------------------------------------------------------------------


ANSWERS = [
    ("create emulated-json --profile generic", {"board"}),
    ("list", {"home", "boards"}),
    ("start emulated-json", {"board", "sandbox"}),
    ("fault known", {"faults"}),
    ("fault set emulated-json slow rate=5", {"board"}),
    ("fault clear emulated-json", {"board"}),
    ("hdc bin", {"program"}),
    ("completion zsh", {"shell", "script"}),
    ("stop emulated-json", {"stopped"}),
    ("remove emulated-json", {"removed"}),
]


def names_of(group: click.Group, *before: str) -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from names_of(command, *before, name)
        else:
            yield " ".join((*before, name))


@pytest.mark.parametrize(("words", "fields"), ANSWERS)
def test_with_json_a_command_prints_one_object_and_nothing_else(
    home: dict[str, str], words: str, fields: set[str], tmp_path: Path
) -> None:
    if words == "hdc bin":
        words = f"hdc {tmp_path / 'bin'}"
    done = manage(home, *words.split(), "--json")
    answer = json.loads(done.stdout)
    assert answer["ok"] is True
    assert answer.keys() == fields | {"ok"}
    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_is_among_those_that_were_asked_for_json() -> None:
    for name in names_of(subject.manage):
        assert any(words.startswith(name) for words, _ in ANSWERS), name


def test_the_answers_of_json_say_how_it_is(home: dict[str, str]) -> None:
    key = "emulated-dayu200"
    set_ = json.loads(manage(home, "fault", "set", key, "slow", "rate=5", "count=2", "--json").stdout)
    assert set_["board"]["faults"]["slow"].items() >= {"rate": 5.0, "count": 2.0, "skip": 0}.items()
    (board,) = (
        board for board in json.loads(manage(home, "list", "--json").stdout)["boards"] if board["serial"] == key
    )
    assert (board["profile"], board["faults"]["slow"]["rate"]) == ("dayu200", 5.0)
    assert board["folder"] == str(Path(home["OHFORGE_EMULATOR_HOME"]) / key)
    cleared = json.loads(manage(home, "fault", "clear", key, "--json").stdout)
    assert cleared["board"]["faults"] == {}
    known = json.loads(manage(home, "fault", "known", "--json").stdout)["faults"]
    assert {fault["name"] for fault in known} == set(FAULTS)


@pytest.mark.parametrize(
    "words",
    [
        ("lst", "--json"),
        ("start", "emulated-nothing", "--json"),
        ("create", "../outside", "--json"),
        ("create", "emulated-x", "--port", "many", "--json"),
        ("fault", "set", "emulated-dayu200", "freez", "--json"),
        ("completion", "dos", "--json"),
    ],
)
def test_with_json_a_failure_is_one_object_with_the_status_of_its_category(
    home: dict[str, str], words: tuple[str, ...]
) -> None:
    done = manage(home, *words)
    answer = json.loads(done.stdout)
    assert answer["ok"] is False
    assert answer["error"].keys() >= {"code", "category", "message", "remedy"}
    assert answer["error"]["category"] == "usage"
    assert done.returncode == 64


# from any folder, and with the settings ------------------------------------------------------------


def test_the_words_of_a_command_line_are_completed(home: dict[str, str]) -> None:
    shell = {"_OHFORGE_EMULATOR_COMPLETE": "bash_complete", "COMP_CWORD": "4"}
    words = "ohforge-emulator fault set emulated-dayu200 freeze-"
    done = manage({**home, **shell, "COMP_WORDS": words})
    assert done.stdout.split() == ["plain,freeze-transfer", "plain,freeze-output"]


def test_a_stand_in_that_was_written_reaches_a_board_from_any_folder(home: dict[str, str], tmp_path: Path) -> None:
    manage(home, "hdc", str(tmp_path / "bin"))
    # The server of the other tests: a board that is connected to one answers no second one.
    environment = {name: value for name, value in home.items() if name != "OHFORGE_EMULATOR_HOME"}
    done = subprocess.run(
        [tmp_path / "bin" / "hdc", "shell", "echo from $(pwd) "],
        env={**os.environ, **environment},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"from /\n"


def test_boards_lie_below_the_data_folder_of_the_settings(tmp_path: Path) -> None:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("OHFORGE_DATA_DIR", "OHFORGE_EMULATOR_HOME")
    }
    environment = {**kept, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    (tmp_path / ".invoke.yaml").write_text(f"ohforge:\n  data_dir: {tmp_path / 'data'}\n")
    boards = tmp_path / "data" / "boards"
    try:
        shell = ["-m", "invoke", "board.shell", "--board", "dayu200", "--", "echo up >/data/local/tmp/mark"]
        subprocess.run(
            [sys.executable, *shell], env=environment, cwd=ROOT, check=True, capture_output=True, timeout=120
        )
        assert (boards / "emulated-dayu200/data/local/tmp/mark").read_text() == "up\n"
        listed = subprocess.run(
            [sys.executable, "-m", "deploy.emulator.manage", "list", "--json"],
            env={**environment, "PYTHONPATH": str(ROOT)},
            cwd=tmp_path,
            check=True,
            capture_output=True,
        )
        answer = json.loads(listed.stdout)
        assert answer["home"] == str(boards)
        assert [(board["serial"], board["running"]) for board in answer["boards"]] == [("emulated-dayu200", True)]
    finally:
        for board in list_emulated(boards):
            stop_board(board)


def test_the_commands_of_the_guide_work_one_after_another_from_an_empty_folder(tmp_path: Path) -> None:
    page = (ROOT / "docs/emulated-board.md").read_text()
    (block,) = (part for part in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "ohforge-emulator" in part)
    (tmp_path / "work").mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path), "PATH": path, "OHFORGE_DATA_DIR": str(tmp_path)}
    try:
        done = subprocess.run(
            ["sh", "-e"],
            input=block,
            env=environment,
            cwd=tmp_path / "work",
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        for board in list_emulated(tmp_path / "boards"):
            stop_board(board)
    assert (done.returncode, done.stderr) == (0, "")
    # The first command answers from the board, and the list has those that were made besides the default one.
    assert done.stdout.splitlines()[:2] == [str(tmp_path / "work/tools/hdc"), "aarch64"]
    listed = json.loads(done.stdout[done.stdout.index("{") : done.stdout.rindex("}") + 1])
    made = [board["serial"] for board in listed["boards"]]
    assert [name.removeprefix("emulated-") for name in made] == [
        *("dayu200", "hot", "lan", "net", "second", "small", "sold", "tight")
    ]
    assert sorted(folder.name for folder in (tmp_path / "boards").glob("emulated-*")) == [
        serial for serial in made if serial != "emulated-net"
    ]
