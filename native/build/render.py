"""Templates of builds to text: what ohforge adds to a project without touching its files."""

from __future__ import annotations

import shlex
from typing import Any

from core.session import PROJECT


def render_build(template: str, **values: Any) -> str:
    """The text of ``templates/build/<template>`` with `values`; a value that is missing is an error."""
    import jinja2

    from toolchains.render import quote_cmake

    environment = jinja2.Environment(  # noqa: S701 - it is CMake code or a script, not a web page
        loader=jinja2.FileSystemLoader(PROJECT / "templates" / "build"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["cmake"] = quote_cmake
    environment.filters["genex"] = _escape_generator_expression
    environment.filters["sh"] = lambda value: shlex.quote(str(value))
    return environment.get_template(template).render(**values)


def _escape_generator_expression(text: str) -> str:
    """`text` as it must stand in a generator expression that is an item of a list."""
    return text.replace(">", "$<ANGLE-R>").replace(";", "$<SEMICOLON>")
