"""``--dry`` of every task that changes something: it says what it would do, and leaves everything as it is."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commands.collection import ns
from commands.command import CommandTask
from core.session import Session
from deploy.emulator.board.boards import create_board
from deploy.hdc.choose import locate_board
from deploy.lease.lease import lock_board
from tests.shared import ms_ops as ops
from tests.shared.ms_writer import ModelWriter
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.command_line import said_by
from tests.support.snapshot import everything_in
from tests.support.source_tree import make_tree
from tests.support.tiny_elf import write_arm64
from toolchains.installed import InstalledSdk, write_installed

CHANGING = sorted(name for name in ns.task_names if ns[name].changes)
NEEDED: dict[str, dict[str, list[str]]] = {
    "sdk.remove": {"version": ["5.0.0", "4.1", "nosuch"]},
    "bench.export": {"run": ["latest", "nosuch"]},
    "model.fetch": {"name": ["smollm2", "smolm"]},
    "data.fetch": {"name": ["gsm8k", "example", "gsmk"]},
    "board.push": {"source": ["hello", "project", "nosuch"], "target": ["/data/local/tmp/x", "/data/local/tmp/", "x"]},
    "source.build": {"tree": ["tree", "tree/build", "project"]},
    "eval.regrade": {"record": ["latest", "project", "nosuch"]},
    "study.run": {"file": ["study.yaml", "network.yaml", "nosuch.yaml"]},
    "study.report": {"file": ["study.yaml", "nosuch.yaml"]},
    "board.pull": {"source": ["/data/local/tmp/x", "../x"], "target": ["hello", "new", "project"]},
}
"""Task → words that it cannot do without."""
PLAUSIBLE: dict[str, list[str]] = {
    "board": ["dayu200", "emulated-dayu200", "mine", "127.0.0.1:5555", "nosuch"],
    "version": ["5.0.0", "4.1", "api12", "latest"],
    "components": ["native", "native,toolchains,js"],
    "host": ["linux-x64", "windows-x64"],
    "mirror": ["http://127.0.0.1:9/sdk"],
    "archive": ["hello", "http://127.0.0.1:9/sdk.tar.gz", "daily:master", "nosuch.zip"],
    "sha256": ["0" * 64],
    "model": ["model.gguf", "model.ms", "smollm2", "mobilenetv2-quickstart", "nosuch.gguf"],
    "program": ["hello", "llama-bench", "nnrt", "nosuch"],
    "input": ["x=hello"],
    "prompt": ["hello there"],
    "eval.gsm8k prompt": ["direct", "budget", "nosuch"],
    "eval.gsm8k limit": ["3", "-1"],
    "data": ["example", "gsm8k", "nosuch.jsonl"],
    "budgets": ["64,128", "many"],
    "endpoint": ["http://127.0.0.1:9", "here"],
    "arch": ["arm32", "arm64", "x86_64"],
    "toolchain": ["zig", "ohos"],
    "cpu": ["generic", "cortex-a55", "arm64"],
    "source.build cpu": ["arm", "arm64", "mips"],
    "stl": ["c++_static", "c++_shared"],
    "target": ["llama", "mslite", "nosuch"],
    "source": ["project", "."],
    "product": ["rk3568", "llama-bench"],
    "option": ["A=B"],
    "build-type": ["Debug"],
    "component": ["neural_network_runtime", "mindspore_lib"],
    "push-to": ["/data/local/tmp"],
    "folder": ["project", "/data"],
    "shell": ["sh", "fish", "meson", "cargo"],
    "file": ["hello"],
    "param": ["threads=1"],
    "threads": ["1,2"],
    "repetitions": ["6", "5%", "many"],
    "at-most": ["30m", "soon"],
    "cool-within": ["5m", "soon"],
    "device": ["cpu", "nnrt", "gpu"],
    "repack": ["on,off", "1"],
    "depth": ["0,512"],
    "cache-k": ["q8_0", "q3_K"],
    "resume": ["latest"],
    "line": ["ls /data"],
    "for": ["5m", "never"],
    "older-than": ["1.5"],
    "larger-than": ["1M"],
    "timeout": ["5"],
    "wait": ["0"],
    "jobs": ["1"],
    "env": ["A=B"],
    "limit": ["memory=500M"],
    "cpus": ["0-1"],
    "net": ["network.yaml"],
}
"""Flag, behind its task where that matters → values for it."""
STUDY = """\
title: a try
models: {m: {source: model.gguf, quantisations: [Q8_0]}}
boards: [mine]
evaluate: {data: example, prompts: [direct]}
"""


@pytest.fixture
def home(tmp_path: Path, session: Session, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's computer: two SDKs, one of them broken off, a build, models, a project, a locked and a second board."""
    work = tmp_path / "work"
    (work / "project" / "src").mkdir(parents=True)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    (work / "invoke.yaml").write_text("ohforge: {run_engine: auto, boards: {mine: {profile: dayu200}}}\n")
    (work / "project" / "CMakeLists.txt").write_text("project(p C)\n")
    (work / "project" / "CMakeUserPresets.json").write_text('{"version": 3, "configurePresets": []}')
    (work / "network.yaml").write_text("nonsense: true\n")
    write_arm64(work / "hello", b"hello\n").chmod(0o755)
    write_tiny_gguf(work / "model.gguf")
    (work / "study.yaml").write_text(STUDY)
    writer = ModelWriter()
    writer.mark_output(ops.unary(writer, writer.add_input("x", [1, 4]), "abs"))
    (work / "model.ms").write_bytes(writer.to_bytes())
    make_tree(work / "tree")
    build = work / "build" / "llama" / "arm64-0123456789ab"
    (build / "tree").mkdir(parents=True)
    (build / "tree" / "made.o").write_bytes(bytes(1000))
    sdk = session.settings.data / "sdk"
    (sdk / "5.0.0-linux-x64").mkdir(parents=True)
    installed = InstalledSdk(
        folder=sdk / "5.0.0-linux-x64",
        version="5.0.0",
        sdk_version="5.0.0.71",
        api_level=12,
        host="linux-x64",
        components={},
        source={},
        installed_at="2024-01-01T00:00:00Z",
    )
    write_installed(installed, {})
    (sdk / ".new-4.1-linux-x64").mkdir()
    (sdk / ".new-4.1-linux-x64" / "checkpoint.json").write_text('{"offset": 123000000}')
    (session.settings.cache / "downloads").mkdir(parents=True)
    create_board("emulated-dayu200", home=session.settings.data / "boards")
    lock_board(session, locate_board(session, "dayu200"), seconds=3600, purpose="a test")
    return tmp_path


def answer_of(words: list[str]) -> tuple[int, dict[str, Any], str]:
    """Status, the JSON object and the text for people, of a call in this process."""
    status, out, err = said_by(words)
    return status, json.loads(out), err


@st.composite
def plausible_words(draw: st.DrawFn, name: str) -> list[str]:
    task: CommandTask = ns[name]
    arguments = [*task.get_arguments(), *task.more_arguments()]
    needed = NEEDED.get(name, {})
    words = [f"--{flag}={draw(st.sampled_from(values))}" for flag, values in needed.items()]
    if task.unless:  # a model or a program
        flag = draw(st.sampled_from(["model", "program"]))
        words.append(f"--{flag}={draw(st.sampled_from(PLAUSIBLE[flag]))}")
    left = set(needed) | ({"model", "program"} if task.unless else set()) | {"json", "verbose"}
    flags = {argument.names[0].replace("_", "-").rstrip("-"): argument.takes_value for argument in arguments}
    offered = [flag for flag in flags if flag not in left]
    for flag in draw(st.lists(st.sampled_from(offered), unique=True, max_size=3)) if offered else []:
        values = PLAUSIBLE.get(f"{name} {flag}") or PLAUSIBLE.get(flag, [])
        if not flags[flag]:
            words.append(f"--{flag}")
        elif values:
            words.append(f"--{flag}={draw(st.sampled_from(values))}")
    return words


@pytest.mark.parametrize("name", CHANGING)
@settings(max_examples=15, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_dry_changes_nothing_and_starts_nothing(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch, data: st.DataObject
) -> None:
    started: list[object] = []

    class NoProgram:
        def __init__(self, words: object, *_: object, **__: object) -> None:
            started.append(words)
            raise FileNotFoundError

    monkeypatch.setattr(subprocess, "Popen", NoProgram)
    words = data.draw(plausible_words(name))
    before = everything_in(home)
    status, answer, text = answer_of([name, *words, "--dry", "--json"])
    assert everything_in(home) == before
    assert started == []
    if status == 0:
        assert list(answer) == ["ok", "dry", "would"]
        assert (answer["ok"], answer["dry"]) == (True, True)
        assert text.count("would ") >= len(answer["would"])
    else:
        assert (answer["ok"], 64 <= status <= 99) == (False, True), text
        assert status != 99 and "Error:" not in answer["error"]["message"], text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            "sdk.fetch 4.1 --host linux-x64",
            [("fetch", "ohos-sdk 4.1 for linux-x64 (native, toolchains)", 123_000_000)],
        ),
        ("sdk.remove 5.0.0", [("remove", "ohos-sdk 5.0.0 for linux-x64", None)]),
        ("build.clean --trees", [("remove", "build/llama/arm64-0123456789ab/tree", None)]),
        ("board.shell --board dayu200 -- ls -l", [("run", "ls -l", None)]),
        ("board.lock --board mine --for 5m", [("lock", "board emulated-mine", None)]),
        ("board.unlock --board dayu200", [("release", "board emulated-dayu200", None)]),
        ("board.push hello /data/x --board mine", [("send", "hello", None)]),
        ("toolchain.render --arch arm64 --toolchain zig", [("render", "the toolchain file for arm64", None)]),
        (
            "board.run --program hello --board mine --run-engine shell -- a 'b c'",
            [("send", "hello", None), ("run", "./hello a 'b c'", None)],
        ),
        (
            "eval.gsm8k model.gguf --data example --limit 5 --board mine",
            [
                ("use", "the questions example", 6069),
                ("serve", "model by llama-server", None),
                ("ask", "5 questions of example", None),
            ],
        ),
        (
            "study.run study.yaml",
            [("quantize", "quantize m/Q8_0", None), ("evaluate", "evaluate m/Q8_0 direct on mine", None)],
        ),
        (
            "bench.llama model.gguf --boards a,b --scheduler tcp://lab:8786",
            [("measure", "model.gguf by bench.llama", None)],
        ),
        (
            "bench.llama model.gguf --board mine --threads 1,2 --prompt 8 --generate 2",
            [
                ("fetch", "the source of llama 0.5.0-dev", 0),
                ("build", "llama 0.5.0-dev for arm64 (llama-bench)", None),
                ("send", "llama-bench", None),
                ("build", "the agent for arm32", None),
                ("send", "the agent for arm32", None),
                ("send", "model.gguf", None),
                ("run", "./llama-bench -m model.gguf -t 1 -p 8 -n 2 -r 1 -o jsonl", None),
                ("run", "./llama-bench -m model.gguf -t 2 -p 8 -n 2 -r 1 -o jsonl", None),
            ],
        ),
        (
            "bench.llama model.gguf --board mine --threads 1 --prompt 8 --generate 2 --completions 3",
            [
                ("fetch", "the source of llama 0.5.0-dev", 0),
                ("build", "llama 0.5.0-dev for arm64 (llama-bench)", None),
                ("send", "llama-bench", None),
                ("build", "the agent for arm32", None),
                ("send", "the agent for arm32", None),
                ("send", "model.gguf", None),
                ("run", "./llama-bench -m model.gguf -t 1 -p 8 -n 2 -r 1 -o jsonl", None),
                ("build", "llama 0.5.0-dev for arm64 (llama-server)", None),
                ("send", "llama-server", None),
                (
                    "run",
                    "./llama-server -m model.gguf --host 127.0.0.1 --port 0 --offline -c 10 -np 1 --cache-ram 0 -b 512 -ub 512",
                    None,
                ),
            ],
        ),
        (
            "bench.mslite model.ms --board mine --threads 1 --loops 5 --warm-up 0 --fp16 on",
            [
                ("build", "mslite 1 for arm64 (mslite)", None),
                ("send", "mslite", None),
                ("build", "the agent for arm32", None),
                ("send", "the agent for arm32", None),
                ("send", "model.ms", None),
                ("run", "./mslite --device cpu --threads 1 --affinity none --fp16=on", None),
            ],
        ),
    ],
)
def test_dry_says_what_would_be_done(words: str, expected: list[tuple[str, str, int | None]], home: Path) -> None:
    import shlex

    typed = shlex.split(words)
    at = typed.index("--") if "--" in typed else len(typed)
    status, answer, text = answer_of([*typed[:at], "--dry", "--json", *typed[at:]])
    assert status == 0, text
    here = f"{Path.cwd()}{os.sep}"
    told = [(entry["action"], entry["what"].removeprefix(here), entry["there"]) for entry in answer["would"]]
    assert len(told) == len(expected)
    for (action, what, there), (wanted, beginning, bytes_there) in zip(told, expected, strict=True):
        assert (action, what[: len(beginning)]) == (wanted, beginning)
        assert bytes_there in (None, there)
    assert "would " in text


@pytest.mark.parametrize("damaged", [False, True])
def test_the_models_files_are_told_before_they_are_here(home: Path, session: Session, damaged: bool) -> None:
    if damaged:
        file = session.settings.cache / "models" / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"
        file.parent.mkdir(parents=True)
        file.write_bytes(b"cut short")
    status, answer, text = answer_of(["board.run", "smollm2", "--board=mine", "--prompt=hi", "--dry", "--json"])
    assert status == 0, text
    told = {(entry["action"], Path(entry["what"]).name.split(" ")[0]): entry for entry in answer["would"]}
    assert told["fetch", "the"]
    sent = told["send", "SmolLM2-135M-Instruct.Q4_1.gguf"]
    assert 98_000_000 < sent["size"] < 99_000_000
    assert any(action == "build" for action, _ in told)
    [run] = [entry for entry in answer["would"] if entry["action"] == "run"]
    assert "./llama-completion -m SmolLM2-135M-Instruct.Q4_1.gguf -p hi" in run["what"]
    assert "build" in text and "first build" in text
