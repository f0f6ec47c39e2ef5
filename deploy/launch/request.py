"""What a user wants to be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deploy.run.conditions import Conditions

if TYPE_CHECKING:
    from deploy.run.hilog import LogFilter


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """What a user asked for. Empty text, 0 and None mean "not said"."""

    model: str = ""
    """Path of a model file, or a name of `native/models/models.yaml`."""
    program: str = ""
    """Path of a program for the board, or a recipe (``llama``) or one of its products (``llama/llama-bench``)."""
    arguments: tuple[str, ...] = ()
    """For a program: its arguments. For a model: further arguments of the recipe's program."""
    arch: str = ""
    cpu: str = ""
    toolchain: str = ""
    sdk: str = ""
    static: bool | None = None
    stl: str = ""
    jobs: int = 0
    board: str = ""
    prompt: str = ""
    tokens: int = 0
    threads: int = 0
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)
    """Further parameters of the recipe's ``run`` section."""
    environment: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Further local files that shall lie in the program's working directory."""
    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    """For a ``.ms`` model: ``FILE`` or ``WHICH=FILE``, in the order of its inputs."""
    labels: str = ""
    """For a ``.ms`` model: a file with the name of one class on each line."""
    network: str = ""
    """For the program ``nnrt``: the description of a network, in YAML or JSON."""
    log: LogFilter | None = None
    """Which lines of the board's log are wanted; None: all, when the run goes wrong."""
    timeout: float = 0.0
    """Seconds for the program; 0: the setting ``ohforge.timeouts.run``."""
    conditions: Conditions = field(default_factory=Conditions)
    run_engine: str = ""
    """``agent``, ``shell`` or ``auto``; empty: the setting."""
