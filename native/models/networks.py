"""Networks for the program nnrt: read from YAML or JSON, looked at here, and written as the JSON that it takes.

The form is ``nnrt/network.schema.json``; docs/nnrt.md explains it. What a schema cannot say (names of layers, numbers
of values) is checked here; whether shapes fit together is left to the program, which works them out.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.data_file import Keys, explain_yaml_error, find_fault, name_line
from core.errors import InvalidData, UsageError, nearest
from core.files import human_bytes, write_atomic
from native.programs import PROGRAMS

if TYPE_CHECKING:
    from yaml.nodes import Node

SCHEMA_FILE = PROGRAMS / "nnrt" / "network.schema.json"
YAML_ENDINGS = (".yaml", ".yml")
LARGEST_FILE = 64 * 1024 * 1024
"""Bytes of a description that the program reads."""


@dataclass(frozen=True, kw_only=True)
class Described:
    """A description as data. `node` is what tells its lines, where the text was YAML."""

    value: Any
    node: Node | None = None


def prepare_network(path: Path, folder: Path) -> Path:
    """Checks the description of a network, and writes it into `folder` as JSON for the program nnrt.

    Raises UsageError when there is no such file, InvalidData for everything that is wrong in it, with its place.
    """
    if not path.is_file():
        raise UsageError(f"There is no description of a network {path}.")
    described = read_description(path)
    check_description(path, described)
    content = json.dumps(described.value, ensure_ascii=False, allow_nan=False) + "\n"
    # Two descriptions of one name are kept apart, and the one that a running program was sent stays as it is.
    made = folder / hashlib.sha256(content.encode()).hexdigest()[:16] / f"{path.stem.lstrip('-') or 'network'}.json"
    write_atomic(made, content)
    return made


def read_description(path: Path) -> Described:
    """The content of a YAML file (by its ending) or a JSON file. Raises InvalidData with the line that is wrong."""
    if path.stat().st_size > LARGEST_FILE:
        raise InvalidData(f"{path} is larger than {human_bytes(LARGEST_FILE)}.")
    kind = "YAML" if path.suffix.lower() in YAML_ENDINGS else "JSON"
    try:
        text = path.read_text(encoding="utf-8-sig")
        return _read_yaml(text) if kind == "YAML" else Described(value=_read_json(text))
    except RecursionError as error:
        raise InvalidData(f"{path} is nested too deeply.") from error
    except ValueError as error:  # Of JSON, of its encoding, and _read_yaml's.
        raise InvalidData(f"{path} is not {kind}: {error}.") from error


def check_description(path: Path, described: Described) -> None:
    """Raises InvalidData for the first thing that is wrong, with its line where that is known."""
    fault = find_fault(described.value, SCHEMA_FILE) or next(_find_faults(described.value), None)
    if fault is not None:
        keys, sentence = fault
        raise InvalidData(f"{path}{name_line(described.node, keys)}: {sentence}")


def _find_faults(network: dict[str, Any]) -> Iterator[tuple[Keys, str]]:
    """What a schema cannot say: keys of the entry, and what is wrong with it."""
    known: list[str] = []
    layers = {layer["name"] for layer in network["layers"]}
    for part in ("inputs", "layers"):
        for index, entry in enumerate(network[part]):
            here, name = (part, index), entry["name"]
            for key in ("input", "other"):
                wanted = entry.get(key)
                if isinstance(wanted, str) and wanted not in known:
                    yield (
                        (*here, key),
                        f"{name} takes {wanted!r}, but nothing before it has that name; {nearest(wanted, known)}.",
                    )
            for key in ("", "other", "weights", "bias"):
                tensor = entry if not key else entry.get(key)
                if isinstance(tensor, dict) and "values" in tensor:
                    yield from _find_wrong_values((*here, key) if key else here, key or name, tensor)
            if name in known:
                yield (*here, "name"), f"The name {name!r} is given twice."
            known.append(name)
    for index, name in enumerate(network["outputs"]):
        if name not in layers:
            yield ("outputs", index), f"The output {name!r} is none of the layers; {nearest(name, layers)}."


def _find_wrong_values(keys: Keys, name: str, tensor: dict[str, Any]) -> Iterator[tuple[Keys, str]]:
    values, wanted = tensor["values"], math.prod(tensor["shape"])
    if "seed" in tensor:
        yield (*keys, "seed"), f"{name} has values and a seed; only one can hold."
    if len(values) != wanted:
        yield (
            (*keys, "values"),
            f"{name} has {len(values)} values, but its shape {_times(tensor['shape'])} needs {wanted}.",
        )
    for index, value in enumerate(values):
        if math.isnan(value):
            yield (*keys, "values", index), f"{name} has a value that is not a number (NaN)."


def _times(shape: list[int]) -> str:
    return "x".join(map(str, shape))


def _read_json(text: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise ValueError(f"the key {key!r} is there twice")
            found[key] = value
        return found

    return json.loads(text, object_pairs_hook=unique)


def _read_yaml(text: str) -> Described:
    """Plain YAML: no aliases, which could make a small file endless, no tags, no key twice, and 1e-3 is a number.

    Raises ValueError with the line.
    """
    import re

    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Node | None, index: int) -> Node | None:
            events: Any = self  # Its type hints lack peek_event.
            event = events.peek_event()
            if self.check_event(yaml.AliasEvent):
                raise yaml.MarkedYAMLError(problem="aliases (*name) are not taken", problem_mark=event.start_mark)
            if getattr(event, "tag", None) is not None:
                raise yaml.MarkedYAMLError(problem="tags (!name) are not taken", problem_mark=event.start_mark)
            return super().compose_node(parent, index)

    # PyYAML follows YAML 1.1, where a number with an exponent needs a point and a sign.
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float",
        re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"),
        list("-+.0123456789"),
    )
    try:
        loader = Loader(text)
        node = loader.get_single_node()
        _check_keys(node)
        return Described(value=None if node is None else loader.construct_document(node), node=node)
    except yaml.YAMLError as error:
        raise ValueError(explain_yaml_error(error)) from error


def _check_keys(node: Node | None) -> None:
    """Raises YAML's error for a key that is no text, or that is there twice."""
    import yaml

    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _check_keys(item)
    elif isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(problem="a key must be text", problem_mark=key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"the key {key.value!r} is there twice", problem_mark=key.start_mark)
            seen.add(key.value)
            _check_keys(value)
