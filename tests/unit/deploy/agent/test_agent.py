"""The options that the agent on a board is given, and what it answers."""

from __future__ import annotations

import pytest

from deploy.agent.agent import AgentRun, _read_answer, run_options


def test_every_option_reaches_the_command_line() -> None:
    run = AgentRun(
        folder="/data/run 1",
        environment={"LD_LIBRARY_PATH": "/a:/b", "EMPTY": ""},
        unset=("HOME",),
        grace_seconds=0.5,
        cpus="0-3,6",
        nice=-5,
        limits={"core": 0, "as": "unlimited"},
        sample_seconds=0.25,
        pin=True,
        merge=True,
    )
    assert run_options(run, seconds=1.5) == [
        "run",
        "--deadline=1500",
        "--grace=500",
        "--sample=250",
        "--pin",
        "--merge",
        "--cwd=/data/run 1",
        "--cpus=0-3,6",
        "--nice=-5",
        "--limit=core=0",
        "--limit=as=unlimited",
        "--unset=HOME",
        "--env=LD_LIBRARY_PATH=/a:/b",
        "--env=EMPTY=",
    ]


def test_a_run_without_options_says_nothing_but_the_deadline() -> None:
    assert run_options(AgentRun(), seconds=2) == ["run", "--deadline=2000", "--grace=2000"]


@pytest.mark.parametrize(
    "answer", ["", "[" * 100_000, "1e999", '{"agent":1}', '{"agent":1,"arch":5,"sha256":"armv8"}', "[]"]
)
def test_an_answer_that_is_none_of_the_agents_is_no_agent(answer: str) -> None:
    assert _read_answer("/data/agent", answer) is None
