"""Scripts for the board, rendered from ``templates/board``."""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

from core.session import PROJECT
from deploy.board.script import quote

if TYPE_CHECKING:
    import jinja2

FOLDER = PROJECT / "templates" / "board"
_KNOWN = b"ohforge\n"


def render_script(name: str, **values: Any) -> str:
    """The script ``templates/board/<name>.sh.j2``; in it the filter ``q`` quotes a word for the shell."""
    known = {
        "sha256": hashlib.sha256(_KNOWN).hexdigest(),
        "md5": hashlib.md5(_KNOWN, usedforsecurity=False).hexdigest(),
    }
    return _templates().get_template(f"{name}.sh.j2").render(known=known, **values)


@functools.cache
def _templates() -> jinja2.Environment:
    import jinja2

    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - these are shell scripts; the filter q quotes
    )
    templates.filters["q"] = quote
    return templates
