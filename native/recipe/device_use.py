"""Which device really computed a ``.ms`` model: what was asked for, what was listed, and what the traces say.

MindSpore Lite answers success when it falls back from NNRt to the CPU, so only lines of its log can tell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from core.data_file import read_data
from core.errors import InvalidData
from native.programs import PROGRAMS

EVIDENCE_FILE = PROGRAMS / "mslite" / "evidence.yaml"
ASKED = re.compile(r"^device asked for: (\S+)\r?$", re.MULTILINE)
LISTED = re.compile(r"^nnrt device: (\S+) \(", re.MULTILINE)
UNKNOWN = "unknown"
LOG_TAGS = ("MSLiteFwk", "MS_LITE", "NNRt")
"""Tags of the board's log under which the traces stand: MindSpore Lite of 3.2, of 4.1 and later, NNRt."""


@dataclass(frozen=True, kw_only=True)
class DeviceUse:
    """What is known of the device of one run."""

    asked: str
    """``cpu``, ``nnrt`` or ``nnrt:NAME``."""
    listed: tuple[str, ...]
    """NNRt devices that the program found; empty when it did not ask."""
    used: str
    """``cpu``, ``nnrt``, ``mixed`` (a part of the model on each) or ``unknown``."""
    evidence: tuple[str, ...]
    """The lines that say so."""

    @property
    def fell_back(self) -> bool:
        """Whether the CPU computed at least a part of what was meant for NNRt."""
        return self.asked not in ("", "cpu") and self.used in ("cpu", "mixed")

    def as_json(self) -> dict[str, Any]:
        """For the run record."""
        how = list(self.evidence) or ["no trace in the output or in the board's log"]
        return {"asked": self.asked, "listed": list(self.listed), "used": self.used, "how": how}


def asked_device(output: str) -> str:
    """The device that mslite says it was asked for; empty when `output` is of another program."""
    found = ASKED.search(output)
    return found[1] if found else ""


def infer_device(output: str, log: str = "") -> DeviceUse:
    """What `output` of mslite and the board's `log` of the same time say about the device.

    No trace at all means ``unknown``, never NNRt. Raises InvalidData when the table of traces has another form.
    """
    wanted = asked_device(output)
    listed = tuple(LISTED.findall(output))
    if wanted == "cpu":
        return DeviceUse(asked=wanted, listed=listed, used="cpu", evidence=("nothing but the CPU was asked for",))
    found: dict[str, str] = {}
    for line in f"{output}\n{log}".splitlines():
        for pattern, means in _load_evidence():
            if pattern.search(line):
                found.setdefault(line.strip(), means)
    meanings = set(found.values())
    used = meanings.pop() if len(meanings) == 1 else "mixed" if meanings else UNKNOWN
    return DeviceUse(asked=wanted, listed=listed, used=used, evidence=tuple(found))


@cache
def _load_evidence() -> tuple[tuple[re.Pattern[str], str], ...]:
    rows = read_data(EVIDENCE_FILE)
    try:
        evidence = tuple((re.compile(row["pattern"]), str(row["means"])) for row in rows)
    except (KeyError, TypeError, re.error) as error:
        raise InvalidData(f"{EVIDENCE_FILE} is not a table of traces: {error!r}") from error
    if wrong := {means for _, means in evidence} - {"cpu", "nnrt"}:
        raise InvalidData(f"{EVIDENCE_FILE} has the meanings {', '.join(sorted(wrong))}; only cpu and nnrt are known.")
    return evidence
