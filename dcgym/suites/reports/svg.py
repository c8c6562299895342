"""Figures as SVG in a page: well formed, without what the page says once, ids of their own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

__all__ = ["slim"]

SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
# Places of the picture; all other numbers, such as opacities and scales, stay as they are.
PLACES = frozenset({"d", "x", "y", "width", "height"})
# Of a style: the page has one for all letters.
LETTERS = "font-family:"
NOT_TURNED = "rotate(-0 "

_REFERENCE = re.compile(r"#([\w.-]+)")


def slim(svg: str, prefix: str) -> str:
    """Return a picture for a page that scales it.

    Args:
        svg: The picture, as a file.
        prefix: What its ids begin with; no other picture of the page has the same.
    """
    # Names of others would be ns0 and ns1, in every element.
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    root = ElementTree.fromstring(svg)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    # The metadata names the library's address; a page that loads nothing need not mention any.
    for metadata in root.findall(f"{{{SVG}}}metadata"):
        root.remove(metadata)
    values = [value for element in root.iter() for value in element.attrib.values()]
    # A colour looks like a reference.
    wanted = {name for value in values for name in _REFERENCE.findall(value)}
    named = [element.attrib["id"] for element in root.iter() if element.get("id") in wanted]
    ids = {name: f"{prefix}-{number}" for number, name in enumerate(named)}
    for element in root.iter():
        _slim(element, ids)
    return ElementTree.tostring(root, encoding="unicode")


def _slim(element: ElementTree.Element, ids: Mapping[str, str]) -> None:
    """Shorten an element, and give what is referred to the ids that it has in the page."""
    if not (element.text or "").strip():
        element.text = None
    if not (element.tail or "").strip():
        element.tail = None
    for name, value in list(element.attrib.items()):
        if (name == "id" and value not in ids) or value.startswith(NOT_TURNED):
            del element.attrib[name]
        elif name == "id":
            element.set(name, ids[value])
        elif name in PLACES:
            element.set(name, " ".join(map(_rounded, value.split())))
        else:
            parts = [part for part in value.split("; ") if not part.startswith(LETTERS)]
            element.set(
                name, _REFERENCE.sub(lambda at: f"#{ids.get(at[1], at[1])}", "; ".join(parts))
            )


def _rounded(word: str) -> str:
    """Return a number to a tenth of a point, less than anybody sees; what is none as it is."""
    try:
        return f"{float(word):.1f}".removesuffix(".0")
    except ValueError:
        return word
