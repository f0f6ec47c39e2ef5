"""Answers of a record token by token with their times, and a board's times for answers that came from elsewhere."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.eval.budgets import LatencyModel, TimedAnswer, fit_latency, model_of_speeds
from bench.eval.curves import HOST_ANSWERS
from bench.eval.grading import read_gold
from bench.eval.planning import Cell, Need, need_of
from bench.eval.progress import CHECK_EVERY
from bench.eval.record import ANSWER, read_answers, read_eval
from bench.eval.request import EvalPlan, plan_of
from bench.record import read_bench
from bench.regime import regime_of_bench
from bench.series import DECODE, PREFILL
from core.errors import InvalidData, UsageError
from deploy.launch.server_settings import ServerSettings


def read_timed_answers(folder: Path) -> list[TimedAnswer]:
    """The whole answers of an evaluation, in the order of its questions.

    Raises UsageError when the answers under smaller limits are not the beginnings of these, InvalidData for a record
    that cannot be read.
    """
    content = read_eval(folder)
    plan = plan_of(content)
    if plan.names_budgets:
        raise UsageError(
            f"The prompts of {folder} name the limit, so that each limit has answers of its own and none is whole.",
            remedy="Take the accuracies that the record has, or evaluate with another --prompt.",
        )
    if content["prefix"] and content["prefix"]["differs"]:
        raise UsageError(
            f"The answers in {folder} cannot be cut: {content['prefix']['why']}.",
            remedy="Take the accuracies that the record has.",
        )
    found: dict[str, TimedAnswer] = {}
    for line in read_answers(folder):
        if line["purpose"] == ANSWER and line["limit"] == plan.max_tokens:
            found.setdefault(line["id"], _timed(folder, line))
    return [found[id] for id in content["data"]["ids"] if id in found]


def _timed(folder: Path, line: Mapping[str, Any]) -> TimedAnswer:
    gold = read_gold(line["gold"])
    if gold is None:
        raise InvalidData(f"The right answer of {line['id']} in {folder} is no number: {line['gold']!r}.")
    if not line["token_in_each_piece"]:
        raise UsageError(
            f"{line['id']} in {folder} came as {len(line['pieces'])} pieces of {line['generated']} tokens: what is there "
            "after so many tokens is not known.",
            remedy="Ask a server that sends each token by itself, such as a llama-server.",
        )
    pieces, seconds = [piece["text"] for piece in line["pieces"]], _seconds(line["pieces"])
    if line["generated"] > len(pieces):
        # The token that ends an answer has no piece, but without it the limit cuts the answer.
        pieces.append("")
        seconds.append(max([line["seconds"], *seconds[-1:]]))
    return TimedAnswer(
        id=line["id"],
        gold=gold,
        pieces=pieces,
        truncated=bool(line["truncated"]),
        seconds=seconds,
        prompt_tokens=_prompt_tokens(line),
    )


def _prompt_tokens(line: Mapping[str, Any]) -> int | None:
    """By the server's count, else by that of the ids that were sent; None: not known."""
    return line["evaluated"] or len(line["prompt_tokens"] or ()) or None


def _seconds(pieces: Sequence[Mapping[str, Any]]) -> list[float]:
    """When each token was there: the first by this computer's clock, which knows when it was asked for, the others by
    the server's, which no link disturbs."""
    at = [float(piece["at"]) for piece in pieces]
    server = [piece["server_ms"] for piece in pieces]
    if not at or None in server:
        return at
    return [at[0] + (milliseconds - server[0]) / 1000 for milliseconds in server]


def foresee(plan: EvalPlan, lines: Sequence[Mapping[str, Any]], items: int, each: float) -> Need:
    """What so many further items will take, by the `lines` of the first ones. Where these tell no times of single tokens,
    an item takes `each` seconds, at most too.
    """
    told = plan.budgets if plan.names_budgets else ()
    cell = Cell(
        name=plan.data,
        items=items,
        prompt_tokens=statistics.fmean(_prompt_tokens(line) or 0 for line in lines),
        answer_tokens=statistics.fmean(line["generated"] for line in lines),
        max_tokens=plan.max_tokens,
        latency=LatencyModel(
            prefill=each, prefill_per_token=0, decode=0, decode_per_position=0, source="whole answers"
        ),
        told=told,
        checked_share=1 / CHECK_EVERY if plan.budgets else 0.0,
    )
    answers = [_timed(Path(plan.data), line) for line in lines if line["token_in_each_piece"]]
    if timed := [answer for answer in answers if answer.seconds and answer.prompt_tokens]:
        cell = replace(cell, latency=fit_latency(timed, "the first answers"))
    return need_of(cell)


def board_latency(bench: Path, model: str, settings: ServerSettings | None = None) -> LatencyModel:
    """A board's times for a model, by the medians of a bench with the configuration that decodes fastest.

    Only of those configurations that keep their memory as a server with these `settings`.
    Raises UsageError when the bench has not measured both for that model.
    """
    settings = settings or ServerSettings()
    content = read_bench(bench)
    speeds: dict[str, dict[str, float]] = {}
    for row in content["results"]:
        if row["model"] == model and settings.are_those_of(row.get("settings") or {}):
            speeds.setdefault(row["configuration"], {})[row["test"]] = row["median"]
    whole = {name: found for name, found in speeds.items() if {PREFILL, DECODE} <= found.keys()}
    if not whole:
        names = ", ".join(sorted({row["model"] for row in content["results"]})) or "none"
        raise UsageError(
            f"{bench} has no speeds of both prefill and decode for {model}{f' with {settings}' if str(settings) else ''}; "
            f"its models: {names}.",
            remedy="Measure with `ohforge bench.llama`, neither --prompt 0 nor --generate 0.",
        )
    best = max(whole, key=lambda name: whole[name][DECODE])
    board = content["board"]
    doubts = [*(["emulated"] if board["emulated"] else []), *(["bench not valid"] if not content["valid"] else [])]
    regime = regime_of_bench(bench, best)
    where = "; ".join([f"board {board['serial']}", best.removeprefix(f"{model}, "), regime, *doubts])
    return model_of_speeds(whole[best][PREFILL], whole[best][DECODE], f"{HOST_ANSWERS} ({where})")
