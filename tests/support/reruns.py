"""A test is tried once more only where it says why it may fail, and every second try is told."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def demand_reasons(items: Iterable[pytest.Item]) -> None:
    """Every ``flaky`` mark has a reason. Raises pytest.UsageError."""
    for item in items:
        for mark in item.iter_markers("flaky"):
            if not mark.kwargs.get("reason"):
                raise pytest.UsageError(f"{item.nodeid} is marked as flaky without a reason")


def told(reports: Iterable[pytest.TestReport]) -> list[str]:
    """A line for each second try: the test, and the last line of what it said when it failed."""
    lines = []
    for report in reports:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else report.longreprtext
        lines.append(f"{report.nodeid}: {(text.strip().splitlines() or ['it said nothing'])[-1].strip()}")
    return lines
