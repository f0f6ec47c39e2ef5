"""Drawings by matplotlib as SVG that lives inside a page: it takes its colours and its font, and fetches nothing."""

from __future__ import annotations

import io
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from core.session import Session

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
INCH = 72
WIDTH = 370
"""Points: a drawing is read on a telephone without being made smaller, and two stand side by side on a screen."""
LETTERS = 11.5
INK, MUTED, GRID, PAPER, ALARM = "#16191d", "#57606b", "#d6dbe1", "#fdfdfe", "#b3261f"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b07800", "#56b4e9")
"""Colours of Okabe and Ito, which are told apart with any kind of colour vision; the yellow ones are darker here."""
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 2)), (0, (8, 2)))
"""Colour is never all that tells two lines apart."""
VARIABLES: Mapping[str, str] = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    ALARM: "--alarm",
    **{colour: f"--c{place}" for place, colour in enumerate(SERIES, 1)},
}
"""Which variable of the page's style stands for which colour of a drawing."""
_URL = re.compile(r"(url\()#([\w.-]+)")
REFERENCES: Mapping[str, re.Pattern[str]] = {
    f"{{{XLINK}}}href": re.compile(r"^()#(.*)"),
    "clip-path": _URL,
    "style": _URL,
}
"""Attributes in which a part of a drawing names another."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "ohforge",
    "text.parse_math": False,
    "font.size": LETTERS,
    "axes.titlesize": LETTERS,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": LETTERS,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": LETTERS - 0.5,
    "legend.labelcolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": LETTERS - 0.5,
    "ytick.labelsize": LETTERS - 0.5,
}


@contextmanager
def drawing(session: Session) -> Iterator[None]:
    """In it matplotlib draws in our style, and keeps what it has found out of fonts in our cache."""
    os.environ.setdefault("MPLCONFIGDIR", str(session.settings.cache / "matplotlib"))
    import matplotlib

    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # The page's font draws the letters, not matplotlib's, which lacks many.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(height: float, rows: int = 1, ratios: tuple[float, ...] = ()) -> tuple[Figure, list[Axes]]:
    """An empty drawing of `height` points, with `rows` axes that share what goes to the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH / INCH, height / INCH), layout="constrained")
    places = figure.subplots(rows, 1, sharex=True, squeeze=False, height_ratios=ratios or None)
    return figure, [axes for (axes,) in places]


def stamp(figure: Figure, words: str) -> None:
    """Writes over the whole drawing what every number in it is."""
    figure.text(
        *(0.5, 0.55, words),
        ha="center",
        va="center",
        rotation=18,
        fontsize=38,
        fontweight="bold",
        color=ALARM,
        alpha=0.2,
        zorder=9,
    )


def to_svg(figure: Figure, name: str, title: str, told: str) -> str:
    """The drawing as an element of HTML; `name` is one that no other drawing of the page has."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    buffer = io.StringIO()
    # `Figure.savefig` would lay out and draw all twice.
    FigureCanvasSVG(figure).print_svg(  # type: ignore[no-untyped-call]
        buffer, metadata=dict.fromkeys(("Creator", "Date", "Format", "Type"))
    )
    root = ElementTree.fromstring(buffer.getvalue().encode())  # noqa: S314 - made by matplotlib just now
    for element in root.findall(f"{{{SVG}}}metadata"):
        root.remove(element)
    for element in root.iter(f"{{{SVG}}}style"):
        element.text = ""
    _name_parts(root, name)
    _take_page_style(root)
    _describe(root, name, title, told)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return re.sub(r" ?\n", " ", ElementTree.tostring(root, encoding="unicode"))


def _name_parts(root: Any, name: str) -> None:
    """Keeps the names that something refers to, and makes them such as no other drawing has."""
    used: set[str] = set()

    def renamed(found: re.Match[str]) -> str:
        used.add(found[2])
        return f"{found[1]}#{name}-{found[2]}"

    for element in root.iter():
        for attribute, pattern in REFERENCES.items():
            if (value := element.get(attribute)) is not None:
                element.set(attribute, pattern.sub(renamed, value))
    for element in root.iter():
        if (own := element.get("id")) is not None:
            if own in used:
                element.set("id", f"{name}-{own}")
            else:
                del element.attrib["id"]


def _take_page_style(root: Any) -> None:
    pattern = re.compile("|".join(VARIABLES))
    for element in root.iter():
        if (style := element.get("style")) is not None:
            style = re.sub(r" font-family: [^;]*;|font-family: [^;]*$", "", style)
            element.set("style", pattern.sub(lambda found: f"var({VARIABLES[found[0]]})", style))


def _describe(root: Any, name: str, title: str, told: str) -> None:
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-told")
    for place, (tag, text) in enumerate((("title", title), ("desc", told))):
        element = ElementTree.Element(f"{{{SVG}}}{tag}", {"id": f"{name}-{'title' if tag == 'title' else 'told'}"})
        element.text = text
        root.insert(place, element)
