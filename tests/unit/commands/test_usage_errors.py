"""Command lines that cannot be read: each ends with 64, and with ``--json`` in one object."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invoke.parser.argument import Argument

from commands.collection import ns
from commands.command import CommandTask
from commands.program import OhforgeProgram
from core.session import PROJECT
from tests.support.command_line import said_by

TASKS = sorted(ns.task_names)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12).map(lambda text: f"w{text}")
BAD_FLAGS = st.from_regex(r"--zz[a-z0-9_.:é-]{0,8}(=.{0,5})?", fullmatch=True) | st.sampled_from(
    ["--pty", "--echo", "--no-dedupe", "--warn-only", "--prompt-for-sudo-password", "-T", "-x", "---", "--=1"]
)


def arguments_of(name: str) -> list[Argument]:
    return list(ns[name].get_arguments())


def needed_words(name: str) -> list[str]:
    """Arguments with which the words of a task can be read."""
    task: CommandTask = ns[name]
    return [f"--{word}=x" for word in [*task.positional, *([task.unless] if task.unless else [])]]


@st.composite
def unreadable_words(draw: st.DrawFn, name: str) -> list[str]:
    """The words of a call of the task `name` that has exactly one thing wrong."""
    arguments = arguments_of(name)
    typed = [argument for argument in arguments if argument.kind in (int, float)]
    valued = [argument for argument in arguments if argument.takes_value]
    task: CommandTask = ns[name]
    kinds = ["unknown flag", "value of a switch", "words behind dashes"]
    kinds += ["wrong type"] if typed else []
    kinds += ["missing value"] if valued else []
    kinds += ["leftover"] if not task.optional_positional or task.unless else []
    kinds += ["missing argument"] if needed_words(name) else []
    kind = draw(st.sampled_from(kinds))
    needed = needed_words(name)
    if kind == "unknown flag":
        wrong = [draw(BAD_FLAGS)]
    elif kind == "value of a switch":
        wrong = [f"--verbose={draw(WORDS)}"]
    elif kind == "words behind dashes":
        wrong = [draw(WORDS)] if task.remainder and task.unless else [draw(BAD_FLAGS)]
        if not task.remainder:
            return [name, *needed, "--json", "--", draw(WORDS)]
    elif kind == "wrong type":
        wrong = [f"--{draw(st.sampled_from(typed)).names[0]}={draw(WORDS)}"]
    elif kind == "missing value":
        return [name, *needed, f"--{draw(st.sampled_from(valued)).names[0]}", "--json"]
    elif kind == "leftover":
        wrong = [draw(WORDS.filter(lambda word: word not in TASKS))]
    else:
        needed, wrong = [], []
    words = draw(st.permutations([*needed, *wrong, "--json"]))
    return [name, *words]


@pytest.mark.parametrize("name", TASKS)
@given(data=st.data())
@settings(max_examples=25)
def test_whatever_is_wrong_with_a_tasks_words_there_is_one_object_and_status_64(name: str, data: st.DataObject) -> None:
    words = data.draw(unreadable_words(name))
    status, out, err = said_by(words)
    assert status == 64, (words, out, err)
    answer = json.loads(out)
    assert answer["ok"] is False
    assert answer["error"]["category"] == "usage"
    assert set(answer["error"]) == {"code", "category", "message", "remedy"}
    assert err.startswith(f"error {answer['error']['code']} (usage): ")
    # Without --json the same is for people, and nothing is for machines.
    plain = [word for word in words if word != "--json"]
    assert said_by(plain) == (64, "", err)


@pytest.mark.parametrize("program", ["invoke", "ohforge"])
@pytest.mark.parametrize(
    "words",
    [
        "build --nosuch --json",
        "board.run --json",
        "model.fetch --json",
        "biuld --json",
        "board.run m.gguf --tokens abc --json",
        "board.list leftover --json",
        "--nosuch build --json",
        "board.list sdk.list --json",
        "--list-format csv --list --json",
        "--config nowhere.yaml board.list --json",
        "--help nowhere --json",
    ],
)
def test_both_programs_end_unreadable_words_alike(program: str, words: str) -> None:
    command = {
        "invoke": [sys.executable, "-m", "invoke"],
        "ohforge": [sys.executable, "-c", "from commands.main import main; main()"],
    }[program]
    done = subprocess.run([*command, *words.split()], cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 64, done.stderr
    assert json.loads(done.stdout)["error"]["category"] == "usage"
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("biuld", "build is the nearest"),
        ("board.rnu x", "board.run is the nearest"),
        ("build --toolchian zig", "--toolchain is the nearest"),
        ("build --echo", "--verbose"),
        ("build --command-timeout 3", "--timeout"),
        ("model.fetch", "`ohforge model.fetch NAME`"),
        ("board.push a", "`ohforge board.push SOURCE TARGET`"),
        ("board.run m.gguf further", "behind --"),
        ("build --version", "`ohforge build --help` shows all"),
    ],
)
def test_the_remedy_says_what_would_be_right(words: str, hint: str) -> None:
    status, out, err = said_by(words.split())
    assert (status, out) == (64, "")
    remedy = err.partition("  Try: ")[2]
    assert hint in remedy
    assert f"{words.split()[-1]} is the nearest" not in remedy


def test_a_call_within_a_program_reads_the_words_that_it_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["pytest", "--help", "--", "-k", "board"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    OhforgeProgram().run("ohforge board.list --json")
    boards = json.loads(capsys.readouterr().out)["boards"]
    assert "emulated-dayu200" in [board["serial"] for board in boards]


def test_an_argument_that_may_be_given_again_takes_words_up_to_the_name_of_a_task() -> None:
    program = OhforgeProgram()
    program.normalize_argv(["ohforge", "bench.llama", "demo", "a.gguf", "--model", "b.gguf", "bench.list"])
    program.create_config()
    program.parse_core_args()
    program.parse_collection()
    program.parse_tasks()
    first, second = program.tasks
    assert (first.name, first.as_kwargs["model"]) == ("bench.llama", ["demo", "a.gguf", "b.gguf"])
    assert second.name == "bench.list"
