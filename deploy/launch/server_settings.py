"""What can be varied of a llama-server's memory: each setting by its name in files and flags, and by llama.cpp's own flag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from core.errors import UsageError
from native.models.llama_memory import KV_TYPES

LOAD_MODES = ("auto", "none", "mmap", "mlock", "mmap+mlock", "dio")
"""How a model's file comes into memory, by llama.cpp's own words; ``auto`` is mmap on a CPU."""
SHARED_FLAGS = {"cache-k": "-ctk", "cache-v": "-ctv", "load-mode": "-lm"}
"""Those that llama-bench has as well, by the flags of both."""
SHARED_DEFAULTS = {"cache-k": "f16", "cache-v": "f16", "load-mode": "auto"}
WORDS = {"load_mode": LOAD_MODES, "cache_k": KV_TYPES, "cache_v": KV_TYPES}
MOST_SLOTS = 64


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """How a llama-server keeps and shares what it has in memory. Empty text and 0 leave it as it is without them."""

    load_mode: str = ""
    cache_k: str = ""
    """Type of the cached keys."""
    cache_v: str = ""
    context: int = 0
    """Tokens of one answer with its question; 0: as many as it takes."""
    slots: int = 0
    """Answers at once, each with a context of its own; 0 and 1: one."""
    prompt_cache: bool | None = None
    """Whether a prompt's beginning that a slot still has is taken from there."""
    cache_reuse: int = 0
    """Tokens from which on a later part of a prompt is taken from there as well, moved to its new place."""
    draft: str = ""
    """The model that guesses tokens which the served one only checks: a file, or a name."""
    draft_tokens: int = 0
    """How many it guesses at once, at most."""

    def __post_init__(self) -> None:
        for name, known in WORDS.items():
            if (value := getattr(self, name)) and value not in known:
                raise UsageError(f"--{_dashed(name)} {value!r} is none of {', '.join(known)}.", remedy="")
        counts = {name: getattr(self, name) for name in ("context", "slots", "cache_reuse", "draft_tokens")}
        if wrong := [f"--{_dashed(name)} {count}" for name, count in counts.items() if count < 0]:
            raise UsageError(f"A server cannot have {', '.join(wrong)}.", remedy="Name counts from 1 on.")
        if self.slots > MOST_SLOTS:
            raise UsageError(f"--slots {self.slots} are more than {MOST_SLOTS}.", remedy="")
        if self.cache_reuse and not self.prompt_cache:
            raise UsageError("--cache-reuse moves what the prompt cache has.", remedy="Add --prompt-cache.")
        if self.draft_tokens and not self.draft:
            raise UsageError("--draft-tokens belongs to a draft model.", remedy="Name one with --draft.")

    @property
    def at_once(self) -> int:
        """How many questions it is asked at once."""
        return max(self.slots, 1)

    def as_json(self) -> dict[str, Any]:
        """What was asked for, by the names that a study's file has; empty when nothing was."""
        return {_dashed(each.name): value for each in fields(self) if (value := getattr(self, each.name))}

    def are_those_of(self, bench: Mapping[str, Any]) -> bool:
        """Whether a bench with these settings has the times of such a server: nothing else may be shared or guessed."""
        said = self.as_json()
        own = said.keys() - SHARED_FLAGS.keys() - {"context"}
        return not own and all(
            said.get(name, default) == bench.get(name, default) for name, default in SHARED_DEFAULTS.items()
        )

    def __str__(self) -> str:
        said = {name: "on" if value is True else value for name, value in self.as_json().items()}
        return ", ".join(f"{name} {value}" for name, value in said.items())

    def words(self, draft: str = "") -> tuple[str, ...]:
        """Arguments of llama-server, without context and slots, which it has in any case; `draft` is the file's name there."""
        said = self.as_json()
        found = [word for name, flag in SHARED_FLAGS.items() if name in said for word in (flag, str(said[name]))]
        found += ["--cache-reuse", str(self.cache_reuse)] if self.cache_reuse else []
        # A draft model alone is loaded and not used: the kind of guessing has to be named as well.
        found += ["--spec-type", "draft-simple", "-md", draft] if draft else []
        found += ["--spec-draft-n-max", str(self.draft_tokens)] if self.draft_tokens else []
        return tuple(found)


def read_settings(content: Mapping[str, Any]) -> ServerSettings:
    """The settings of a study's file or of a record. Raises UsageError."""
    return ServerSettings(**{name.replace("-", "_"): value for name, value in content.items() if value})


def _dashed(name: str) -> str:
    return name.replace("_", "-")
