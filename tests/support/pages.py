"""A page as a program sees it that knows nothing of how it was made: Python's own parser of HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input"}


class Element:
    def __init__(self, tag: str, attributes: dict[str, str], parent: Element | None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.content: list[Element | str] = []

    @property
    def text(self) -> str:
        parts = [part if isinstance(part, str) else part.text for part in self.content]
        return re.sub(r"\s+", " ", "".join(parts)).strip()

    def all(self, *tags: str) -> Iterator[Element]:
        """All elements below it of these tags, or of any; in the order of the page."""
        for part in self.content:
            if isinstance(part, Element):
                if not tags or part.tag in tags:
                    yield part
                yield from part.all(*tags)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.place = Element("page", {}, None)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self.place)
        self.place.content.append(element)
        if tag not in VOID:
            self.place = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.place.content.append(Element(tag, {name: value or "" for name, value in attrs}, self.place))

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.place.tag, f"</{tag}> ends <{self.place.tag}>"
        assert self.place.parent is not None
        self.place = self.place.parent

    def handle_data(self, data: str) -> None:
        self.place.content.append(data)


def read_page(text: str) -> Element:
    """The page; every element must be ended by its own tag."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert parser.place is parser.root, f"<{parser.place.tag}> is never ended"
    return parser.root


def rows_of(page: Element, caption: str) -> list[list[str]]:
    """The cells of the table that is called so, headings first."""
    (table,) = (table for table in page.all("table") if table.attributes["aria-label"].startswith(caption))
    return [[cell.text for cell in row.all("th", "td")] for row in table.all("tr")]
