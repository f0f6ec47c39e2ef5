"""Data that stands in YAML files, compared with its schema; what is wrong is named with file, line and entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import InvalidData, nearest

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from yaml import Node, YAMLError

Keys = tuple[str | int, ...]
"""What leads to an entry: keys of mappings and places in lists."""


def read_data(file: Path, schema: Path | Mapping[str, Any] | None = None) -> Any:
    """The content of a YAML file. `schema` is a JSON schema, or the file that holds it.

    Raises InvalidData for a file that is not YAML, or not of that form.
    """
    import yaml

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        value = yaml.load(file.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - both are safe loaders
    except yaml.YAMLError as error:
        raise InvalidData(f"{file} is not YAML: {explain_yaml_error(error)}.") from error
    except UnicodeDecodeError as error:
        raise InvalidData(f"{file} is not YAML: {error}.") from error
    fault = find_fault(value, schema) if schema is not None else None
    if fault is not None:
        raise wrong_entry(file, *fault)
    return value


def wrong_entry(file: Path, keys: Keys, sentence: str) -> InvalidData:
    """The error for an entry of a YAML file, with its line."""
    import yaml

    node = yaml.compose(file.read_text(encoding="utf-8"))
    return InvalidData(f"{file}{name_line(node, keys)}: {sentence}")


def find_fault(value: Any, schema: Path | Mapping[str, Any]) -> tuple[Keys, str] | None:
    """The most telling fault of `value`: the keys of the entry, and what is wrong with it. None when there is none."""
    import jsonschema
    from jsonschema.exceptions import best_match

    rules = json.loads(schema.read_text(encoding="utf-8")) if isinstance(schema, Path) else schema
    checker = jsonschema.FormatChecker(["regex"])
    fault = best_match(jsonschema.Draft202012Validator(rules, format_checker=checker).iter_errors(value))
    return (tuple(fault.absolute_path), _explain(fault)) if fault is not None else None


def name_line(node: Node | None, keys: Keys) -> str:
    """``, line 7`` for the entry below those keys, or for the nearest around it; empty without a node of YAML."""
    import yaml

    line = ""
    for key in (*keys, None):
        if node is None:
            break
        line = f", line {node.start_mark.line + 1}"
        if isinstance(node, yaml.MappingNode):
            node = next((value for name, value in node.value if name.value == str(key)), None)
        else:
            node = node.value[key] if isinstance(node, yaml.SequenceNode) and isinstance(key, int) else None
    return line


def name_keys(keys: Keys) -> str:
    """Keys as people write them: ``rules[0].when``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def explain_yaml_error(error: YAMLError) -> str:
    """What is wrong with a text, after its line when that is known."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    line = f"line {mark.line + 1}: " if mark is not None else ""
    return line + str(problem or getattr(error, "context", None) or str(error).splitlines()[0])


def _explain(error: ValidationError) -> str:
    """A schema's complaint as a sentence that names the key."""
    key = error.json_path.removeprefix("$").removeprefix(".") or "the file"
    schema: Any = error.schema
    rule: Any = error.validator_value
    match error.validator:
        case "additionalProperties" if isinstance(error.instance, dict):
            known = schema.get("properties", {})
            unknown = next(name for name in error.instance if name not in known)
            return f"{key} has the unknown key {unknown!r}; {nearest(str(unknown), known)}."
        case "required" if isinstance(error.instance, dict):
            missing = [name for name in rule if name not in error.instance]
            return f"{key} lacks {', '.join(missing)}."
        case "enum":
            return f"{key} is {error.instance!r}; {nearest(str(error.instance), map(str, rule))}."
        case "not":
            return f"{key} is {error.instance!r}, but must be a path below the folder, without '..'."
        case "pattern":
            return f"{key} is {error.instance!r}, which does not have the form {rule}."
        case _:
            return f"{key}: {error.message}."
