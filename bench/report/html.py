"""A document as one HTML file that asks nothing of anybody: style, script and drawings are in it."""

from __future__ import annotations

import base64
import functools
import hashlib
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.report.document import Block, Chart, Document, readable
from core.session import PROJECT

if TYPE_CHECKING:
    import jinja2

FOLDER = PROJECT / "templates" / "report"
GENERATOR = "ohforge report"
LONGEST = 2000
"""Letters of anything that a page shows; documents shorten names before."""


def render_html(document: Document) -> str:
    """The page. What stands in records is text in it, whatever it looks like."""
    script = (FOLDER / "sort.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _template().render(
        document=document,
        generator=GENERATOR,
        script=script,
        # Nothing but this script is run, so what slipped through as one would not be.
        script_hash=f"sha256-{digest}",
        style=(FOLDER / "page.css").read_text(encoding="utf-8"),
    )


@functools.cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
        finalize=lambda value: readable(value, LONGEST) if type(value) is str else value,
    )
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "groupby_charts": _by_charts,
    }
    return environment.get_template("page.html.j2")


def _by_charts(blocks: Sequence[Block]) -> list[tuple[bool, list[Block]]]:
    """Runs of drawings, which stand beside each other, and of all else."""
    runs = itertools.groupby(blocks, lambda block: isinstance(block, Chart))
    return [(charts, list(some)) for charts, some in runs]
