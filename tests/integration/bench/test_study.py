"""A study as a user runs it: killed on the way, gone on with, and reported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.eval.record import read_answers, read_eval
from core.session import PROJECT
from tests.shared.model_server import ModelServer
from tests.support.asked_models import COUNT, known_answer, write_questions
from tests.support.command_line import invoke
from tests.support.waiting import wait_until

OHFORGE = Path(sys.executable).with_name("ohforge")
EARLY = 16
STUDY = """\
title: two servers
models: {{late: {{source: late.gguf}}, early: {{source: early.gguf}}}}
endpoints: [{{url: "{late}", model: late}}, {{url: "{early}", model: early}}]
evaluate: {{data: "{data}", prompts: [direct], budgets: [10, 20, 32]}}
compare: {{first: early, second: late, budget: 32}}
"""


def early_answer(prompt: str) -> list[str]:
    """The same right numbers as `known_answer` gives to the first `EARLY` questions, but at once; then wrong ones."""
    number = next(piece for piece in known_answer(prompt) if piece.isdigit())
    return [" \\boxed{", number if int(number) < 100 + EARLY else "7", "}", " done"]


def kill_at_an_answer(server: ModelServer, skip: int, words: list[str], runs: Path) -> None:
    """Kills the study while it waits for an answer, `skip` answers of this server from now."""
    killed_at = len(server.asked()) + skip + 1
    server.fault("mute", after=1, skip=skip)
    environment = {**os.environ, "INVOKE_OHFORGE_RUNS_DIR": str(runs)}
    with subprocess.Popen([OHFORGE, *words], env=environment, cwd=runs.parent, stdout=subprocess.DEVNULL) as process:
        wait_until("the answer that never ends", lambda: len(server.asked()) >= killed_at)
        process.kill()


def test_a_study_killed_in_two_cells_is_gone_on_with_and_finds_the_known_crossing(tmp_path: Path) -> None:
    questions, runs = write_questions(tmp_path / "forty.jsonl"), tmp_path / "runs"
    page = tmp_path / "page.html"
    with ModelServer(answer=known_answer) as late, ModelServer(answer=early_answer) as early:
        study = tmp_path / "two.yaml"
        study.write_text(STUDY.format(late=late.url, early=early.url, data=questions))
        kill_at_an_answer(late, 9, ["study.run", str(study)], runs)
        kill_at_an_answer(early, 4, ["study.run", str(study)], runs)
        asked = len(late.asked())
        half = invoke("study.status", study, INVOKE_OHFORGE_RUNS_DIR=str(runs)).answer["cells"]
        assert (len(half["done"]), half["failed"], len(half["left"])) == (1, [], 1)
        said = invoke("study.run", study, INVOKE_OHFORGE_RUNS_DIR=str(runs))
        assert (said.status, len(late.asked())) == (0, asked), said.text
    assert (len(said.answer["cells"]["done"]), said.answer["cells"]["left"]) == (2, [])
    records = [path.parent for path in Path(said.answer["record"]).glob("evaluate-*/*/record.json")]
    assert len(records) == 2
    for record in records:
        whole = Counter(line["id"] for line in read_answers(record) if line["limit"] == 1024)
        assert (read_eval(record)["state"], len(whole), set(whole.values())) == ("done", COUNT, {1})
    made = invoke("study.report", study, "--output", page, INVOKE_OHFORGE_RUNS_DIR=str(runs)).answer
    in_tokens = made["comparison"]["equal"][0]
    # The longest answer has 43 tokens. Within 10 tokens late is right 8 times, within 20 18 times, then 29; early is right 16 times in any case.
    gains = [(row["budget"], round(row["value"] * COUNT)) for row in in_tokens["differences"]]
    assert gains == [(10, -8), (20, 2), (32, 13), (43, 13)]
    # On the straight line from -8 at 10 to 2 at 20.
    assert in_tokens["crossing"]["at"] == pytest.approx(18)
    assert (in_tokens["crossing"]["before"], in_tokens["crossing"]["after"]) == ("early", "late")
    planned = made["comparison"]["planned"]
    assert (planned["first_only"], planned["second_only"]) == (0, 13)
    assert planned["exact"] == pytest.approx(2 * 0.5**13)
    text = page.read_text(encoding="utf-8")
    assert "Early is ahead up to 18 tokens" in text
    assert "Whole: all 2 cells are done" in text


@pytest.mark.exhaustive
def test_the_example_comes_to_its_end_and_says_what_is_emulated(tmp_path: Path) -> None:
    """It builds llama.cpp for this computer and for the board where it is not built yet."""
    runs = {"INVOKE_OHFORGE_RUNS_DIR": str(tmp_path / "runs")}
    page = tmp_path / "demo.html"
    done = invoke("study.run", PROJECT / "studies" / "demo.yaml", seconds=3600, **runs)
    assert (done.status, len(done.answer["cells"]["done"])) == (0, 6), done.text
    made = invoke("study.report", PROJECT / "studies" / "demo.yaml", "--output", page, **runs).answer
    in_time = made["comparison"]["equal"][1]
    assert (made["emulated"], in_time["emulated"], in_time["n"]) == (True, True, 8)
    assert in_time["source"].startswith("answers from host, times from board (board emulated-dayu200")
    text = page.read_text(encoding="utf-8")
    assert "EMULATED" in text
