"""Where settings are read from: Invoke's configuration files and variables, also for programs that Invoke does not run."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.errors import ConfigurationError
from core.settings import Settings, defaults, read_settings


def load_settings() -> Settings:
    """The settings that hold in the current folder. Raises ConfigurationError."""
    from invoke.config import Config

    with configuration_errors():
        known = {**Config.global_defaults(), "ohforge": defaults()}
        config = Config(defaults=known)
        if file := find_project_file():
            config.set_project_location(file.parent)
            config.load_project()
        config.load_shell_env()
    return read_settings(dict(config["ohforge"].items()), read_configuration_files)


def find_project_file() -> Path | None:
    """The ``invoke.yaml`` that holds here: of the current folder, else of the nearest one above it."""
    here = Path.cwd()
    files = (folder / "invoke.yaml" for folder in (here, *here.parents))
    return next((file for file in files if file.is_file()), None)


def read_configuration_files() -> dict[str, Any]:
    """What stands in each of Invoke's configuration files: read only when an error has to name one."""
    from core.data_file import read_data

    paths = (Path("/etc/invoke.yaml"), Path.home() / ".invoke.yaml", find_project_file())
    return {str(path): read_data(path) or {} for path in paths if path and path.is_file()}


@contextlib.contextmanager
def configuration_errors() -> Iterator[None]:
    """Makes our error of what Invoke raises for files and variables that it cannot read."""
    from invoke.exceptions import AmbiguousEnvVar, UncastableEnvVar, UnknownFileType
    from invoke.util import yaml  # type: ignore[attr-defined]

    try:
        yield
    except (AmbiguousEnvVar, UncastableEnvVar, UnknownFileType, yaml.YAMLError) as error:
        raise ConfigurationError(f"The configuration cannot be read: {error}") from None
