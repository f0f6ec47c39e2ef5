"""Invoke's configuration, in which whatever cannot be read or merged is an error that names the file or variable."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any, cast

from invoke.config import Config
from invoke.env import Environment

from core.addresses import quoted
from core.errors import ConfigurationError, nearest

VARIABLES = "INVOKE_OHFORGE_"


class OhforgeConfig(Config):
    """Invoke's configuration. Everything that reads or merges raises ConfigurationError."""

    prefix = "invoke"

    def sources(self) -> dict[str, Mapping[str, Any]]:
        """What each file and variable says, by its name; the later ones count more."""
        files = {name: (getattr(self, f"_{name}_path"), getattr(self, f"_{name}")) for name in FILES}
        runtime = files.pop("runtime")
        variables = [(_variable(keys), _nest(keys, value)) for keys, value in _leaves(self._env)]
        return {str(path): content for path, content in (*files.values(), *variables, runtime) if path and content}

    def load_shell_env(self) -> None:
        self.merge()
        known = [f"INVOKE_{name}" for name in Environment(self._config, "")._crawl([], {})]
        known = [name for name in known if name.startswith(VARIABLES)]
        for name in sorted(os.environ):
            if known and name.startswith(VARIABLES) and name not in known:
                raise ConfigurationError(f"The variable {name} is not a setting; {nearest(name, known)}.")
        super().load_shell_env()

    def _load_yaml(self, path: Any) -> Any:
        with _reading(path):
            return _checked(super()._load_yaml(path))

    _load_yml = _load_yaml

    def _load_json(self, path: Any) -> Any:
        with _reading(path):
            return _checked(super()._load_json(path))

    def _load_py(self, path: Any) -> Any:
        with _reading(path):
            return _checked(super()._load_py(path))

    def _merge_file(self, name: str, desc: str) -> None:
        if fault := _find_clash(self._config, getattr(self, f"_{name}") or {}):
            raise ConfigurationError(f"{getattr(self, f'_{name}_path')}: {fault}")
        super()._merge_file(name, desc)


FILES = ("system", "user", "project", "runtime")


@contextlib.contextmanager
def _reading(path: Any) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise  # Invoke goes on to the next name.
    except OSError as error:
        raise ConfigurationError(
            f"The configuration file {path} cannot be read: {error.strerror}.",
            remedy="Make it a file that you may read, or remove it; HOME must name a folder.",
        ) from error
    except Exception as error:
        raise ConfigurationError(
            f"The configuration file {path} cannot be read: {_explain(error)}.",
            remedy="Correct the file; docs/configuration.md shows how one looks.",
        ) from error


def _explain(error: Exception) -> str:
    from invoke.util import yaml  # type: ignore[attr-defined]

    from core.data_file import explain_yaml_error

    if isinstance(error, yaml.YAMLError):
        return explain_yaml_error(cast(Any, error))
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")


def _checked(content: Any) -> dict[str, Any]:
    """The content with keys that are text: Invoke makes names of variables of them."""
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise TypeError(f"it must hold a mapping of keys to values, not {_shown(content)}")
    return {str(key): _checked(value) if isinstance(value, dict) else value for key, value in content.items()}


def _find_clash(base: Mapping[str, Any], update: Mapping[str, Any], above: str = "") -> str:
    """What keeps `update` from being merged into `base`; empty when nothing does."""
    for name in base.keys() & update.keys():
        key, value = f"{above}{name}", update[name]
        if isinstance(base[name], dict) and isinstance(value, dict):
            if fault := _find_clash(base[name], value, f"{key}."):
                return fault
        elif isinstance(base[name], dict):
            return f"{key} must be a mapping of keys to values, not {_shown(value)}."
        elif isinstance(value, dict):
            return f"{key} must be a single value, not a mapping."
    return ""


def _shown(value: Any) -> str:
    return "empty" if value is None else quoted(value if isinstance(value, str) else repr(value))[:60]


def _leaves(content: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*above, name))
        else:
            yield (*above, name), value


def _variable(keys: tuple[str, ...]) -> str:
    return f"INVOKE_{'_'.join(keys).upper()}"


def _nest(keys: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(keys):
        value = {key: value}
    return dict(value)
