"""The section of a page about one evaluation: how many answers are right, and which board gave them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.eval.intervals import wilson
from bench.eval.record import ANSWER, WHOLE, read_answers, read_eval
from bench.report.bench_sections import STATES
from bench.report.document import BAD, GOOD, NOTE, Block, Cell, Facts, Notice, Section, Table, number
from core.errors import InvalidData
from deploy.hdc.version import tell_link

NEEDED: Mapping[str, type | tuple[type, ...]] = {
    "seconds": (int, float),
    "verdicts": dict,
    "limit": int,
    "purpose": str,
}
"""What a line of an answer must have to be shown."""
SHOWN_IDS = 8
"""Questions that are named in a line."""
MOVED = {"left": "left to others", "taken_over": "taken over"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An evaluation that can be shown, with the lines of its answers."""

    folder: Path
    content: Mapping[str, Any]
    answers: Sequence[Mapping[str, Any]]

    @property
    def emulated(self) -> bool:
        return bool((self.content["server"] or {}).get("emulated"))

    @property
    def models(self) -> str:
        model = self.content["model"]
        return str(model.get("name") or Path(model["given"]).stem or "a model")


def read_asked(folder: Path) -> Asked:
    """Reads the record and its answers. Raises InvalidData."""
    answers = list(read_answers(folder))
    for line in answers:
        if not all(isinstance(line.get(key), kind) for key, kind in NEEDED.items()):
            raise InvalidData(f"{folder}: the answer to {line['id']} lacks one of {', '.join(NEEDED)}.")
    return Asked(folder=folder, content=read_eval(folder), answers=answers)


def boards_of_answers(asked: Asked) -> list[dict[str, Any]]:
    """Of each board what it answered, for scripts; whose questions went to others, and who took them over."""
    return [_board(asked, part) for part in asked.content.get("parts", ())]


def asked_sections(asked: Asked, name: str) -> list[Section]:
    """All that is told of one evaluation."""
    boards = boards_of_answers(asked)
    server = asked.content["server"] or {}
    several = f" on {len(boards)} boards of one kind" if boards else ""
    where = several or (f" on {server['board']}" if server.get("board") else "")
    parts = [
        Section(title="Verdict", blocks=list(_verdict(asked))),
        Section(title="Right answers", blocks=[_results(asked)] if asked.content["results"] else []),
        Section(title="Boards", blocks=list(_boards(asked, boards))),
        Section(title="Environment", blocks=[Facts(rows=list(_environment(asked)))]),
    ]
    title = f"{asked.models}{where}: {asked.content['data']['name']}"
    return [Section(title=title, blocks=[], parts=[part for part in parts if part.blocks])]


def _board(asked: Asked, part: Mapping[str, Any]) -> dict[str, Any]:
    lines = [line for line in asked.answers if part["serial"] is not None and line.get("board") == part["serial"]]
    longest = max((line["limit"] for line in asked.answers if line["purpose"] == ANSWER), default=0)
    whole = [line for line in lines if line["purpose"] == ANSWER and line["limit"] == longest]
    right = sum(bool(line["verdicts"].get(WHOLE, {}).get("lenient")) for line in whole)
    seconds = [line["seconds"] for line in whole]
    return {
        "board": part["board"],
        "serial": part["serial"],
        "answers": len(lines),
        "items": len({line["id"] for line in lines}),
        "whole": len(whole),
        "right": wilson(right, len(whole)).as_json() if whole else None,
        "median_seconds": statistics.median(seconds) if seconds else None,
        "failures": part["failures"],
        "left": part.get("left", []),
        "taken_over": part.get("taken_over", []),
        "given_up": part["given_up"],
    }


def _verdict(asked: Asked) -> Iterator[Block]:
    content = asked.content
    if asked.emulated:
        yield Notice(
            tone=BAD, title="EMULATED", lines=["Answers are those of the program; its times are none of a board."]
        )
    if content["valid"]:
        yield Notice(tone=GOOD, title="Valid: nothing speaks against these answers")
    elif content["valid"] is None:
        lines = [content["error"]["message"]] if content.get("error") else []
        why = STATES.get(content["state"], "it did not come to its end")
        yield Notice(tone=BAD, title=f"Not judged: {why}", lines=lines)
    else:
        yield Notice(tone=BAD, title="NOT VALID", lines=[flag["sentence"] for flag in content["flags"]])
    if content["notes"]:
        yield Notice(tone=NOTE, title="To be known", lines=content["notes"])


def _results(asked: Asked) -> Table:
    rows = []
    for row in asked.content["results"]:
        told = f" (told {row['told']})" if row["told"] is not None else ""
        rows.append(
            [
                Cell(text=f"{row['budget']}{told}", value=row["budget"]),
                _share(row["accuracy"]["strict"]),
                _share(row["accuracy"]["lenient"]),
                *(Cell(text=str(row[key]), value=row[key]) for key in ("n", "truncated", "no_answer")),
            ]
        )
    return Table(
        caption="Shares of right answers below each limit, with their 95 % intervals.",
        columns=["Tokens", "Strict", "Lenient", "Questions", "Cut", "No answer"],
        rows=rows,
        numeric=frozenset(range(6)),
    )


def _boards(asked: Asked, boards: Sequence[Mapping[str, Any]]) -> Iterator[Block]:
    if not boards:
        return
    lost = [f"{board['board']}: {board['given_up']['message']}" for board in boards if board["given_up"]]
    if lost:
        yield Notice(tone=BAD, title=f"{len(lost)} of {len(boards)} boards were given up", lines=lost)
    mark = " EMULATED" if asked.emulated else ""
    columns = ["Board", "Serial", "Answers", "Questions", "Right", "Median", "Failures", "Left", "Taken over"]
    yield Table(
        caption="What each board has answered: the share of its longest answers that is right, and the median of their "
        "times. What it had begun when it failed, it left to the others, who took it over.",
        columns=columns,
        rows=[
            [
                Cell(text=board["board"]),
                Cell(text=board["serial"] or "never answered"),
                *(Cell(text=str(board[key]), value=board[key]) for key in ("answers", "items")),
                _share(board["right"]) if board["right"] else Cell(text="-"),
                Cell(text=f"{number(board['median_seconds'], 's')}{mark}", value=board["median_seconds"])
                if board["median_seconds"] is not None
                else Cell(text="-"),
                Cell(text=str(board["failures"]), value=board["failures"], tone=BAD if board["failures"] else None),
                *(Cell(text=str(len(board[key])), value=len(board[key])) for key in ("left", "taken_over")),
            ]
            for board in boards
        ],
        numeric=frozenset(range(2, 9)),
    )
    moved = [
        f"{board['board']}, {said}: {_ids(board[key])}" for board in boards for key, said in MOVED.items() if board[key]
    ]
    if moved:
        yield Notice(tone=NOTE, title="Questions that went from board to board", lines=moved)


def _share(share: Mapping[str, float]) -> Cell:
    text = f"{share['value']:.1%} ({share['low']:.1%} to {share['high']:.1%})"
    return Cell(text=text, value=share["value"])


def _ids(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
    return f"{', '.join(ids[:SHOWN_IDS])}{more}"


def _environment(asked: Asked) -> Iterator[tuple[str, str]]:
    content = asked.content
    server, model, data, plan = content["server"] or {}, content["model"], content["data"], content["plan"]
    yield "Answers", str(server.get("label") or "nobody was reached")
    yield "Server", f"{server.get('kind') or 'not known'}, {server.get('build') or 'build not known'}"
    yield "Model", f"{asked.models}, SHA-256 {model.get('sha256') or 'not known'}"
    yield "Questions", f"{len(data['ids'])} of {data['items']} of {data['name']}, SHA-256 {data['sha256']}"
    yield "Prompt", str(content["prompt"]["name"])
    yield "Longest answer", f"{plan['max_tokens']} tokens; temperature {plan['temperature']:g}"
    parts = [(part["board"], part["server"]) for part in content.get("parts", ())] or [("", server)]
    for board, reached in parts:
        if reached and "link" in reached:
            yield f"Board {board}".rstrip(), f"{reached['board']}, reached by {tell_link(reached['link'])}"
    kind = next((part["kind"] for part in content.get("parts", ()) if part["kind"]), None)
    for key, value in (kind or {}).items():
        words = {True: "yes", False: "no"}.get(value) if isinstance(value, bool) else None
        yield f"Boards: {key}", words or (" ".join(map(str, value)) if isinstance(value, list) else str(value))
