"""Pages as strict readers take them, and the pictures in them."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

__all__ = ["pictures_of", "texts_of"]

VOID = {"meta"}


class _Reader(HTMLParser):
    """Refuses elements that are not closed in their place, and notes ids and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names) and not any({*'<"&'} & {*name} for name in names), (
            attrs
        )
        self.ids += [value or "" for name, value in attrs if name == "id"]
        for name, value in attrs:
            # A picture of dots lies in the page itself.
            if name in ("href", "xlink:href") and not (value or "").startswith("data:image/"):
                self.links.add((value or "").removeprefix("#"))
            self.links.update(re.findall(r"url\(#(.*?)\)", value or ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, f"</{tag}> at {self.getpos()}"


def pictures_of(page: str) -> list[ElementTree.Element]:
    """Return the pictures of a page, or of a part of one, as an XML parser reads them.

    Args:
        page: HTML; it must be sound itself, and all that it refers to in it.
    """
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert not reader.open, reader.open
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.links <= {*reader.ids}
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg xmlns.*?</svg>", page)]


def texts_of(picture: ElementTree.Element) -> list[str]:
    """Return the texts in a picture, names and labels of its axes among them.

    Args:
        picture: What `pictures_of` found.
    """
    return ["".join(one.itertext()) for one in picture.iter() if one.tag.endswith("}text")]
