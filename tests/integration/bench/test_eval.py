"""``eval.gsm8k`` as a user calls it, against a server on loopback whose true accuracy is known, and killed on the way."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from bench.eval.record import read_answers, read_eval
from core.record_folder import check_record
from tests.shared.model_server import ModelServer
from tests.support.asked_models import COUNT, known_answer, write_questions
from tests.support.command_line import invoke
from tests.support.waiting import wait_until

OHFORGE = Path(sys.executable).with_name("ohforge")


def test_a_known_accuracy_comes_out_after_three_kills(tmp_path: Path) -> None:
    questions = write_questions(tmp_path / "forty.jsonl")
    runs = {"INVOKE_OHFORGE_RUNS_DIR": str(tmp_path / "runs")}
    begin = ["eval.gsm8k", "--data", str(questions), "--budgets", "10,20,32", "--endpoint"]
    with ModelServer(answer=known_answer) as server:
        words = [*begin, server.url]
        for skip in (0, 3, 17):
            killed_at = len(server.asked()) + skip + 1
            server.fault("mute", after=1, skip=skip)
            with subprocess.Popen(
                [OHFORGE, *words], cwd=tmp_path, env={**os.environ, **runs}, stdout=subprocess.DEVNULL
            ) as process:
                wait_until("the answer that never ends", lambda at=killed_at: len(server.asked()) >= at)
                process.kill()
            words = ["eval.gsm8k", "--resume", "latest"]
        said = invoke(*words, **runs)
    assert said.status == 0, said.text
    # Within 10 tokens the boxes of k = 0..7 are whole, within 20 those of k = 0..17, within 32 all 29 right ones.
    accuracy = {row["budget"]: row["accuracy"]["strict"]["value"] for row in said.answer["results"]}
    assert accuracy == {10: 0.2, 20: 0.45, 32: 0.725, 1024: 0.725}
    assert (said.answer["n"], said.answer["accuracy"]["lenient"]["value"]) == (COUNT, 0.725)
    folder = Path(said.answer["record"])
    assert len(list((tmp_path / "runs").iterdir())) == 1
    whole = Counter(line["id"] for line in read_answers(folder) if line["limit"] == 1024)
    assert set(whole.values()) == {1} and len(whole) == COUNT
    assert all(line["text"] == "".join(known_answer(line["prompt"])[: line["limit"]]) for line in read_answers(folder))
    assert (read_eval(folder)["state"], check_record(folder).is_unchanged) == ("done", True)
