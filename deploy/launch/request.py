"""What a user wants to be run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from deploy.run.options import RunOptions
from native.recipe.flags import Given
from toolchains.host_toolchain import ToolchainChoice


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """What a user asked for. Empty text and 0 mean "not said"."""

    model: str = ""
    """Path of a model file, or a name of `native/models/models.yaml`."""
    program: str = ""
    """Path of a program for the board, or a recipe (``llama``) or one of its products (``llama/llama-bench``)."""
    arguments: tuple[str, ...] = ()
    """For a program: its arguments. For a model: further arguments of the recipe's program."""
    board: str = ""
    choice: ToolchainChoice = field(default_factory=ToolchainChoice)
    """What the program is built with, where it is built."""
    jobs: int = 0
    given: Mapping[str, Given] = field(default_factory=dict)
    """The flags of recipes that were given, by name: such as ``prompt`` or ``input``."""
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)
    """Further parameters of the recipe's ``run`` section."""
    files: tuple[str, ...] = ()
    """Further local files that shall lie in the program's working directory."""
    options: RunOptions = field(default_factory=RunOptions)
