"""Where settings are read from: Invoke's configuration files and variables, also for programs that Invoke does not run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from core.errors import ConfigurationError
from core.settings import Settings, defaults, read_settings


def load_settings() -> Settings:
    """The settings that hold in the current folder. Raises ConfigurationError."""
    from core.invoke_configuration import OhforgeConfig

    with configuration_errors():
        known = {**OhforgeConfig.global_defaults(), "ohforge": defaults()}
        config = OhforgeConfig(defaults=known)
        if file := find_project_file():
            config.set_project_location(file.parent)
            config.load_project()
        config.load_shell_env()
    return read_settings(dict(config["ohforge"].items()), config.sources)


def find_project_file() -> Path | None:
    """The ``invoke.yaml`` that holds here: of the current folder, else of the nearest one above it."""
    here = Path.cwd()
    files = (folder / "invoke.yaml" for folder in (here, *here.parents))
    return next((file for file in files if file.is_file()), None)


@contextlib.contextmanager
def configuration_errors() -> Iterator[None]:
    """Makes our error of what Invoke raises for files and variables that it cannot read."""
    from invoke.exceptions import AmbiguousEnvVar, UncastableEnvVar, UnknownFileType

    try:
        yield
    except (AmbiguousEnvVar, UncastableEnvVar, UnknownFileType) as error:
        raise ConfigurationError(f"The configuration cannot be read: {error}") from None
