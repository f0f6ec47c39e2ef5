"""What of a llama-server's memory can be varied, and by which of its flags."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from core.errors import UsageError
from deploy.launch.model_server import ServeOptions
from deploy.launch.serve import run_with, server_words
from deploy.launch.server_settings import ServerSettings, read_settings
from native.models.models import Model
from tests.shared.tiny_gguf import write_tiny_gguf
from tests.support.run_requests import make_request

ALL = ServerSettings(
    load_mode="dio",
    cache_k="q8_0",
    cache_v="q4_0",
    context=512,
    slots=2,
    prompt_cache=True,
    cache_reuse=32,
    draft="small",
    draft_tokens=4,
)


def model_of(path: Path) -> Model:
    return Model(name=path.stem, path=write_tiny_gguf(path), kind="gguf", sha256="0" * 64, size=1, summary={})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        # As ``llama-server --help`` of the pinned version has them.
        ({}, ""),
        ({"load-mode": "mmap+mlock"}, "-lm mmap+mlock"),
        ({"cache-k": "q8_0", "cache-v": "q8_0"}, "-ctk q8_0 -ctv q8_0"),
        ({"prompt-cache": True, "cache-reuse": 32}, "--cache-reuse 32"),
        ({"prompt-cache": False}, ""),
        ({"draft": "small.gguf", "draft-tokens": 4}, "--spec-type draft-simple -md d.gguf --spec-draft-n-max 4"),
    ],
)
def test_settings_are_flags_of_llama_server(content: dict[str, Any], words: str) -> None:
    settings = read_settings(content)
    draft = "d.gguf" if settings.draft else ""
    assert " ".join(settings.words(draft)) == words
    options = ServeOptions(context=100, slots=settings.at_once, settings=settings)
    plain = "-m m.gguf --host 127.0.0.1 --port 0 --offline -c 100 -np 1 --cache-ram 0 -b 512 -ub 512"
    assert " ".join(server_words("m.gguf", options, draft)) == f"{plain} {words}".strip()


def test_all_that_was_asked_for_is_read_again_from_what_is_kept_of_it() -> None:
    kept = ALL.as_json()
    assert len(kept) == 9
    assert read_settings(kept) == ALL
    assert str(read_settings({"cache-k": "q8_0", "prompt-cache": True})) == "cache-k q8_0, prompt-cache on"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"load-mode": "mlook"}, "--load-mode 'mlook' is none of auto, none, mmap"),
        ({"cache-k": "q3_K"}, "--cache-k 'q3_K' is none of f32, f16"),
        ({"context": -1}, "cannot have --context -1"),
        ({"slots": 65}, "more than 64"),
        ({"cache-reuse": 8}, "moves what the prompt cache has"),
        ({"draft-tokens": 4}, "belongs to a draft model"),
    ],
)
def test_settings_that_make_no_sense_are_refused(content: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        read_settings(content)


@pytest.mark.parametrize(
    ("server", "bench", "same"),
    [
        ({}, {}, True),
        ({}, {"cache-k": "f16", "depth": 512}, True),
        ({}, {"cache-k": "q8_0"}, False),
        ({"cache-k": "q8_0"}, {"cache-k": "q8_0"}, True),
        ({"cache-k": "q8_0"}, {}, False),
        ({"load-mode": "mlock"}, {"load-mode": "dio"}, False),
        ({"context": 4096}, {}, True),
        ({"prompt-cache": True}, {}, False),
        ({"slots": 2}, {}, False),
        ({"draft": "small"}, {}, False),
    ],
)
def test_a_bench_has_the_times_of_a_server_only_with_the_same_settings(
    server: dict[str, Any], bench: dict[str, Any], same: bool
) -> None:
    assert read_settings(server).are_those_of(bench) is same


def test_a_draft_model_travels_to_the_board_beside_the_served_one(tmp_path: Path) -> None:
    served, draft = model_of(tmp_path / "served.gguf"), model_of(tmp_path / "draft.gguf")
    run = run_with(make_request(tmp_path / "llama-server"), served, ("-m", "served.gguf"), draft)
    assert [file.name for file in run.files][-2:] == ["served.gguf", "draft.gguf"]
    alone = run_with(make_request(tmp_path / "llama-server"), served, ("-m", "served.gguf"), served)
    assert [file.name for file in alone.files].count("served.gguf") == 1
