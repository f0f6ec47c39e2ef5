"""A study as it is written, and the cells that it consists of."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bench.eval.request import MOST_TOKENS
from core.data_file import read_data, wrong_entry
from core.errors import UsageError, nearest
from deploy.launch.server_settings import ServerSettings, read_settings

SCHEMA_FILE = Path(__file__).parent / "schema.json"
QUANTIZE, BENCH, EVALUATE = "quantize", "bench", "evaluate"
TOLD = "budget"
"""The prompt that tells the model its limit, so that each limit needs answers of its own."""
HOST = "host"
"""As whose board this computer stands in tables."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One thing that is done once. `after` names the cells whose results it takes."""

    kind: str
    parameters: Mapping[str, Any]
    """All that its result depends on, and nothing else: the key is made of them."""
    after: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Hash of kind, parameters and of what it comes after: the same cell in another study is the same."""
        text = json.dumps([self.kind, self.parameters, self.after], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def place(self) -> str:
        """Board, address of a server, or `HOST`; empty for what is made and not measured."""
        known = self.parameters
        return str(known.get("board") or known.get("url") or (HOST if known.get("on_host") else ""))

    @property
    def title(self) -> str:
        """For people: what is done with what, where."""
        known = self.parameters
        where = self.place
        budget = f"at {known['budget']} tokens" if known.get("budget") else ""
        settings = f"with {self.settings}" if str(self.settings) else ""
        return " ".join(
            filter(
                None, (self.kind, known["model"], known.get("prompt"), budget, f"on {where}" if where else "", settings)
            )
        )

    @property
    def settings(self) -> ServerSettings:
        """Of the llama-server that is asked; those without which it is started as ever are not said."""
        return read_settings(self.parameters.get("server", {}))


@dataclass(frozen=True, kw_only=True)
class Study:
    """What `path` says, of the form of ``schema.json``."""

    path: Path
    content: Mapping[str, Any]
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Every model that is measured, by the name ``MODEL`` or ``MODEL/QUANTISATION``: its source and quantisation."""
    data_sha256: str = ""
    """Of a file of questions; empty for a set that has a name, whose hash is pinned."""
    drafts: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each draft model by its name, where it is known."""

    @property
    def title(self) -> str:
        return str(self.content["title"])

    @property
    def expected(self) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
        """What is expected of each model at each place, before anything was measured."""
        models = self.content["models"]
        return {name: models[name.partition("/")[0]].get("expected", {}) for name in self.models}

    @property
    def asked(self) -> Mapping[str, Any]:
        """What it says of answers; empty when it wants none."""
        found: Mapping[str, Any] = self.content.get("evaluate", {})
        return found

    @property
    def answers_on_host(self) -> bool:
        return bool(self.asked.get("on_host"))

    @property
    def servers(self) -> list[ServerSettings]:
        """The settings under which servers that ohforge starts are asked."""
        return list(dict.fromkeys(map(read_settings, self.asked.get("servers", ({},)))))

    @property
    def compared_settings(self) -> ServerSettings:
        """Under which the planned comparison is made."""
        compared = self.content.get("compare", {}).get("server")
        return self.servers[0] if compared is None else read_settings(compared)

    def cells(self) -> list[Cell]:
        """All cells, each after those that it needs."""
        runs_here = bool(self.content.get("boards")) or self.answers_on_host
        made = {
            name: Cell(kind=QUANTIZE, parameters={"model": name, **model})
            for name, model in self.models.items()
            if model["type"] and runs_here
        }
        found: list[Cell] = list(made.values())
        for name, model in self.models.items():
            after = (made[name].key,) if name in made else ()
            here = {"model": name, **model}
            for board in self.content.get("boards", ()):
                if "bench" in self.content:
                    measured = {**here, "board": board, "bench": self.content["bench"]}
                    found.append(Cell(kind=BENCH, parameters=measured, after=after))
                if not self.answers_on_host:
                    found += self._started({**here, "board": board}, after)
            if self.answers_on_host:
                found += self._started({**here, "on_host": True}, after)
            for server in self.content.get("endpoints", ()):
                if server["model"] == name:
                    place = {"url": server["url"], "served_as": server.get("served_as", "")}
                    found += self._evaluations({**here, **place}, ())
        return found

    def _started(self, where: Mapping[str, Any], after: tuple[str, ...]) -> Iterator[Cell]:
        """Answers of a server that ohforge starts, under each of the settings."""
        for settings in self.servers:
            said = settings.as_json()
            draft = {"draft_sha256": self.drafts[settings.draft]} if settings.draft else {}
            threads = {"threads": self.asked["threads"]} if "threads" in self.asked else {}
            yield from self._evaluations({**where, **({"server": said} if said else {}), **draft, **threads}, after)

    def _evaluations(self, where: Mapping[str, Any], after: tuple[str, ...]) -> Iterator[Cell]:
        asked = self.content.get("evaluate")
        if asked is None:
            return
        common = {
            "data": asked["data"],
            "data_sha256": self.data_sha256,
            "limit": asked.get("limit", 0),
            "seed": asked.get("seed", 1),
            "max_tokens": asked.get("max_tokens", MOST_TOKENS),
            "concurrency": asked.get("concurrency", 1),
        }
        budgets = sorted(asked.get("budgets", ()))
        for prompt in asked["prompts"]:
            # One run without a limit serves all, unless the model is told its own.
            runs = [{"budget": budget} for budget in budgets] if prompt == TOLD else [{"budgets": budgets}]
            for run in runs:
                yield Cell(kind=EVALUATE, parameters={**where, **common, "prompt": prompt, **run}, after=after)


def read_study(path: Path, identify: Callable[[str], str]) -> Study:
    """The study in a YAML file; `identify` gives the SHA-256 of a file or a named model, or nothing where that is not known.

    Raises UsageError when there is no file, InvalidData, with the line, for one of another form.
    """
    if not path.is_file():
        raise UsageError(f"There is no study {path}.", remedy="Name a file such as studies/small.yaml.")
    content = read_data(path, SCHEMA_FILE)
    models = {
        f"{name}/{kind}" if kind else name: {
            "source": model["source"],
            "type": kind,
            "sha256": identify(model["source"]),
            **({"allow_requantize": True} if kind and model.get("allow_requantize") else {}),
        }
        for name, model in content["models"].items()
        for kind in model.get("quantisations", ("",))
    }
    for place, name in _named_models(content):
        if name not in models:
            raise wrong_entry(path, place, f"there is no model {name!r}; {nearest(name, list(models))}.")
    prompts = content.get("evaluate", {}).get("prompts", ())
    if TOLD in prompts and not content["evaluate"].get("budgets"):
        raise wrong_entry(
            path, ("evaluate", "prompts"), f"the prompt {TOLD!r} tells a limit, but there are no budgets."
        )
    if "bench" not in content and "evaluate" not in content:
        raise wrong_entry(path, (), "neither bench nor evaluate says what is to be measured.")
    asked = content.get("evaluate", {})
    if max(asked.get("budgets", (0,))) > asked.get("max_tokens", MOST_TOKENS):
        raise wrong_entry(path, ("evaluate", "budgets"), "a budget is above max_tokens, the limit of whole answers.")
    data = identify(asked["data"]) if asked else ""
    study = Study(path=path, content=content, models=models, data_sha256=data)
    return replace(study, drafts={draft: identify(draft) for draft in _check_servers(study)})


def _check_servers(study: Study) -> list[str]:
    """The draft models. Raises InvalidData for settings that cannot be, or that are compared and not asked for."""
    compared = study.content.get("compare", {}).get("server")
    written = [(("evaluate", "servers", place), each) for place, each in enumerate(study.asked.get("servers", ()))]
    for keys, each in [*written, (("compare", "server"), compared or {})]:
        try:
            read_settings(each)
        except UsageError as error:
            raise wrong_entry(study.path, keys, error.message) from error
    if compared is not None and read_settings(compared) not in study.servers:
        raise wrong_entry(study.path, ("compare", "server"), "these settings are none of evaluate's servers.")
    return [each.draft for each in study.servers if each.draft]


def _named_models(content: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for number, server in enumerate(content.get("endpoints", ())):
        yield ("endpoints", number, "model"), server["model"]
    for side in ("first", "second"):
        if "compare" in content:
            yield ("compare", side), content["compare"][side]
