"""``ohforge doctor`` and ``ohforge demo``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from commands.command import Answer, command

if TYPE_CHECKING:
    from core.session import Session

DEMO_MODEL = "smollm2"
DEMO_PROMPT = "The three primary colours are"


@command(
    changes=True,
    dry=True,
    help={"board": "Board to run on; default: the emulated DAYU200.", "prompt": "What the model shall go on from."},
)
def demo(session: Session, board: str = "dayu200", prompt: str = DEMO_PROMPT) -> Answer:
    """The main job: build llama.cpp for ARM, run a small language model on the emulated board, keep the record."""
    from commands.show import show_outcome
    from core.dry import tell
    from deploy.launch.dry import would_run
    from deploy.launch.launch import run_model
    from deploy.launch.request import LaunchRequest

    request = LaunchRequest(model=DEMO_MODEL, board=board, given={"prompt": prompt})
    if session.dry:
        return Answer(tell(session.console, would_run(session, request)))
    outcome = run_model(session, request)
    session.console.stage("Done")
    show_outcome(session.console, outcome)
    session.console.info(
        f"next: ohforge board.run {DEMO_MODEL} --prompt 'Your own words' (after `. .venv/bin/activate`)"
    )
    return Answer(outcome.as_json())


@command(help={})
def doctor(session: Session) -> Answer:
    """Say what is installed, what is missing and what to type; the exit status tells whether something is missing."""
    from core.errors import Category
    from deploy.doctor import examine_host, show_checks

    checks = examine_host(session)
    show_checks(session, checks)
    lacking = [check.name for check in checks if check.state == "missing"]
    value = {"checks": [check.as_json() for check in checks], "missing": lacking}
    return Answer(value, exit_status=Category.HOST.value if lacking else 0)
