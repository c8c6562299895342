"""The two forms of SNDlib's network files, native and XML, as rows of unchecked text.

Formats: https://sndlib.put.poznan.pl/html/docu/io-formats/index.html.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from dcgym.errors import ConfigError, suggest
from dcgym.files import read_text, wrong_file

__all__ = ["EXPECTED", "META", "Form", "Row", "read_form"]

EXPECTED = "a network of SNDlib, native or XML, version 1.0"
META = ("granularity", "time", "unit", "origin")

_HEADER = re.compile(r"\?SNDlib native format;\s*type:\s*network;\s*version:\s*1\.0\s*;?")
_NAMESPACE = "http://sndlib.zib.de/network"

_WORD = r"([^\s()]+)"
_ENDS = rf"\(\s*{_WORD}\s+{_WORD}\s*\)"
_EMPTY = r"(?:\s*\(\s*\))"  # what version 2.0 was to fill
_LINE: Mapping[str, tuple[str, str, Sequence[str]]] = {
    "META": (
        r"([^\s=]+)\s*=\s*(.*)",
        "key = value",
        ("key", "value"),
    ),
    "NODES": (
        rf"{_WORD}(?:\s*{_ENDS})?{_EMPTY}{{0,2}}",
        "id ( x y )",
        ("id", "x", "y"),
    ),
    "LINKS": (
        rf"{_WORD}\s*{_ENDS}\s*{_WORD}\s+{_WORD}\s+{_WORD}\s+{_WORD}\s*\(([^()]*)\){_EMPTY}?",
        "id ( source target ) capacity cost routing_cost setup_cost ( {capacity cost}* )",
        ("id", "source", "target", "capacity", "cost", "routing_cost", "setup_cost", "modules"),
    ),
    "DEMANDS": (
        rf"{_WORD}\s*{_ENDS}\s*{_WORD}\s+{_WORD}\s+{_WORD}{_EMPTY}?",
        "id ( source target ) routing_unit value max_path_length",
        ("id", "source", "target", "routing_unit", "value", "max_path_length"),
    ),
    "ADMISSIBLE_PATHS": (
        rf"{_WORD}\s*\(([^()]+)\)",
        "id ( link+ )",
        ("id", "links"),
    ),
}
_NEEDED = ("NODES", "LINKS", "DEMANDS")

# Elements that may lie in an element, and its attributes.
_CHILDREN: Mapping[str, Sequence[str]] = {
    "": ("network",),
    "network": ("meta", "networkStructure", "demands"),
    "meta": META,
    "networkStructure": ("nodes", "links"),
    "nodes": ("node",),
    "node": ("coordinates",),
    "coordinates": ("x", "y"),
    "links": ("link",),
    "link": (
        *("source", "target", "setupCost", "routingCost"),
        *("preInstalledModule", "additionalModules"),
    ),
    "preInstalledModule": ("capacity", "cost"),
    "additionalModules": ("addModule",),
    "addModule": ("capacity", "cost"),
    "demands": ("demand",),
    "demand": (
        *("source", "target", "demandValue", "routingUnit"),
        *("maxPathLength", "admissiblePaths"),
    ),
    "admissiblePaths": ("admissiblePath",),
    "admissiblePath": ("linkId",),
}
_REPEATED = ("node", "link", "demand", "addModule", "admissiblePath", "linkId")


@dataclass(frozen=True)
class Row:
    """A node, link or demand as the file states it.

    Attributes:
        where: File and line.
        cells: Texts by name; what the file leaves out is absent.
        modules: Capacity and cost of each module of a link.
        paths: Id and links of each admissible path of a demand.
    """

    where: str
    cells: Mapping[str, str]
    modules: Sequence[tuple[str, str]] = ()
    paths: list[tuple[str, Sequence[str]]] = field(default_factory=list)


@dataclass(frozen=True)
class Form:
    """The rows of a file."""

    meta: dict[str, str] = field(default_factory=dict)
    nodes: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)
    demands: list[Row] = field(default_factory=list)


def read_form(path: Path, name: str) -> Form:
    """Read a file in either form.

    Args:
        path: The file.
        name: Names the file in error messages.

    Raises:
        ConfigError: It is no network of SNDlib, or a part of it is unknown, missing or double.
    """
    text = read_text(path, name, EXPECTED)
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    first = next(filter(None, lines), "")
    if _HEADER.fullmatch(first):
        return _read_native(text, path, name)
    if first.startswith("<"):
        return _read_xml(text, path, name)
    raise wrong_file(name, path, EXPECTED)


def _read_native(text: str, path: Path, name: str) -> Form:
    form, section, demand = Form(), None, None
    found: dict[str, str] = {}
    for where, line in _native_lines(text, path):
        if section is None:
            section, is_closed = _open_section(line, where, found)
            section = None if is_closed else section
        elif line == ")":
            section, demand = (section, None) if demand else (None, None)
        elif section == "ADMISSIBLE_PATHS" and demand is None:
            demand = _demand_of_paths(line, where, form)
        else:
            _add_native(form, section, line, where, demand)
    if section is not None:
        raise wrong_file(name, path, f"{EXPECTED}, with a line ) after {section}")
    for missing in _NEEDED:
        if missing not in found:
            raise wrong_file(name, path, f"{EXPECTED}, with a section {missing}")
    return form


def _native_lines(text: str, path: Path) -> Iterator[tuple[str, str]]:
    is_header = True
    for number, line in enumerate(text.split("\n"), 1):
        line = line.partition("#")[0].strip()
        if line and not is_header:
            yield f"{path.name}, line {number}", line
        is_header = is_header and not line


def _open_section(line: str, where: str, found: dict[str, str]) -> tuple[str, bool]:
    match = re.fullmatch(r"(\S+)\s*\(\s*(\))?", line)
    if match is None or match[1] not in _LINE:
        raise ConfigError(where, line, [f"{known} (" for known in _LINE])
    if match[1] in found:
        raise ConfigError(where, line, f"one section {match[1]}; {found[match[1]]} begins another")
    found[match[1]] = where
    return match[1], match[2] is not None


def _demand_of_paths(line: str, where: str, form: Form) -> Row:
    match = re.fullmatch(rf"{_WORD}\s*\(", line)
    if match is None:
        raise ConfigError(where, line, "demand (")
    known = {row.cells["id"]: row for row in form.demands}
    if match[1] not in known:
        raise ConfigError(where, match[1], "a demand of DEMANDS", suggest(match[1], known))
    return known[match[1]]


def _add_native(form: Form, section: str, line: str, where: str, demand: Row | None) -> None:
    pattern, allowed, names = _LINE[section]
    match = re.fullmatch(pattern, line)
    if match is None:
        raise ConfigError(where, line, f"{allowed}, in {section}")
    cells = {n: c for n, c in zip(names, match.groups(), strict=True) if c is not None}
    if demand is not None:
        demand.paths.append((cells["id"], cells["links"].split()))
    elif section == "META":
        _add_meta(form, cells["key"], cells["value"], where)
    else:
        numbers = cells.pop("modules", "").split()
        if len(numbers) % 2:
            raise ConfigError(where, line, "a capacity and a cost for each module")
        modules = list(zip(numbers[::2], numbers[1::2], strict=True))
        if cells.get("max_path_length") == "UNLIMITED":
            del cells["max_path_length"]
        getattr(form, section.lower()).append(Row(where, cells, modules))


def _add_meta(form: Form, key: str, value: str, where: str) -> None:
    if key not in META or key in form.meta:
        raise ConfigError(where, key, f"{', '.join(META)}, each once")
    form.meta[key] = value


@dataclass(frozen=True)
class _Element:
    tag: str
    attributes: Mapping[str, str]
    where: str
    children: list[_Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts).strip()

    def all(self, tag: str) -> list[_Element]:
        return [child for child in self.children if child.tag == tag]

    def find(self, *tags: str) -> _Element:
        """Return the element at the end of a path; without content where the file has none."""
        found = self
        for tag in tags:
            found = next(iter(found.all(tag)), _Element(tag, {}, found.where))
        return found

    def leaves(self, **names: str) -> dict[str, str]:
        """Return texts of children by the names given: ``leaves(value="demandValue")``."""
        return {name: one.text for name, tag in names.items() for one in self.all(tag)}


class _Builder:
    """Makes elements of expat's events, and refuses what SNDlib's schema does not know.

    No other element means no deep nesting; no document type means no entities.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path, name
        self._stack = [_Element("", {}, path.name)]
        self._parser = parser = expat.ParserCreate("utf-8", " ")
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._data
        parser.StartDoctypeDeclHandler = self._doctype

    def build(self, text: str) -> _Element:
        self._parser.Parse(text.encode(), True)
        return self._stack[0].children[0]

    def _where(self) -> str:
        return f"{self._path.name}, line {self._parser.CurrentLineNumber}"

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        parent, tag = self._stack[-1], name.removeprefix(f"{_NAMESPACE} ")
        allowed = _CHILDREN.get(parent.tag, ())
        if tag not in allowed and not parent.tag:
            raise wrong_file(self._name, self._path, EXPECTED)
        if tag not in allowed:
            known = ", ".join(f"<{one}>" for one in allowed) or "no element"
            shown = f"<{name.rpartition(' ')[2]}>"
            raise ConfigError(self._where(), shown, f"{known} in <{parent.tag}>")
        if tag not in _REPEATED and parent.all(tag):
            raise ConfigError(self._where(), f"<{tag}>", f"once in <{parent.tag}>")
        element = _Element(tag, attributes, self._where())
        parent.children.append(element)
        self._stack.append(element)

    def _end(self, name: str) -> None:
        element = self._stack.pop()
        if element.tag in _CHILDREN and element.text:
            raise ConfigError(element.where, element.text, f"no text in <{element.tag}>")

    def _data(self, text: str) -> None:
        self._stack[-1].texts.append(text)

    def _doctype(self, name: str, *_: object) -> None:
        raise wrong_file(self._name, self._path, f"{EXPECTED}, without a document type")


def _read_xml(text: str, path: Path, name: str) -> Form:
    try:
        root = _Builder(path, name).build(text)
    except expat.ExpatError as error:
        raise wrong_file(name, path, f"{EXPECTED} ({error})") from None
    if root.attributes.get("version", "1.0") != "1.0":
        raise ConfigError(f"{root.where}, version", root.attributes["version"], "1.0")
    structure = root.find("networkStructure")
    for part, tag in ((structure, "nodes"), (structure, "links"), (root, "demands")):
        if not part.all(tag):
            raise wrong_file(name, path, f"{EXPECTED}, with <{tag}>")
    return Form(
        root.find("meta").leaves(**{key: key for key in META}),
        [_xml_node(one) for one in structure.find("nodes").children],
        [_xml_link(one) for one in structure.find("links").children],
        [_xml_demand(one) for one in root.find("demands").children],
    )


def _xml_node(element: _Element) -> Row:
    cells = _id(element) | element.find("coordinates").leaves(x="x", y="y")
    return Row(element.where, cells)


def _xml_link(element: _Element) -> Row:
    cells = _id(element) | element.leaves(
        source="source", target="target", routing_cost="routingCost", setup_cost="setupCost"
    )
    for installed in element.all("preInstalledModule"):
        cells["capacity"], cells["cost"] = _module(installed)
    modules = [_module(one) for one in element.find("additionalModules").children]
    return Row(element.where, cells, modules)


def _xml_demand(element: _Element) -> Row:
    cells = _id(element) | element.leaves(
        source="source",
        target="target",
        value="demandValue",
        routing_unit="routingUnit",
        max_path_length="maxPathLength",
    )
    paths = [
        (_id(one)["id"], [link.text for link in one.children])
        for one in element.find("admissiblePaths").children
    ]
    return Row(element.where, cells, paths=list(paths))


def _module(element: _Element) -> tuple[str, str]:
    cells = element.leaves(capacity="capacity", cost="cost")
    if len(cells) < 2:
        raise ConfigError(element.where, f"<{element.tag}>", "<capacity> and <cost> in it")
    return cells["capacity"], cells["cost"]


def _id(element: _Element) -> dict[str, str]:
    if "id" not in element.attributes:
        raise ConfigError(element.where, f"<{element.tag}>", "an attribute id")
    return {"id": element.attributes["id"]}
