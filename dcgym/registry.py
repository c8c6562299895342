"""Names: one registry for everything that a configuration calls by name.

A package that adds its own imports the registry of the kind and calls `add`. Where nobody imports
it, an entry point of the group ``dcgym.plugins`` names the module; it is imported the first time
that a name is not found, or that names are listed::

    [project.entry-points."dcgym.plugins"]
    my_package = "my_package.register"
"""

from __future__ import annotations

import functools
import importlib.metadata
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from dcgym.config import check_name
from dcgym.errors import ConfigError, suggest

__all__ = ["PLUGIN_GROUP", "REGISTRIES", "Registry", "find_plugins", "load_plugins"]

PLUGIN_GROUP = "dcgym.plugins"

_NAME = re.compile(r"[a-z0-9]+([-+._][a-z0-9]+)*")
_Thing = TypeVar("_Thing")


class Registry(Mapping[str, _Thing], Generic[_Thing]):
    """Things of one kind by name, in the order in which they were added.

    Reading it as a mapping never raises `ConfigError`; `find` does, with the nearest name.

    Args:
        kind: What the things are, in the plural: "topologies".
        field: Field of a configuration that names one: "topology".
        pattern: What a name looks like; lower-case words joined by "-" if None.
    """

    def __init__(self, kind: str, field: str, pattern: re.Pattern[str] | None = None) -> None:
        self.kind, self.field = kind, field
        self._pattern = pattern or _NAME
        self._things: dict[str, _Thing] = {}
        self._descriptions: dict[str, str] = {}
        self._followers: list[tuple[Callable[[str, _Thing], object], Callable[[str], object]]] = []
        REGISTRIES[kind] = self

    def add(self, name: str, thing: _Thing, description: str = "") -> _Thing:
        """Make a thing available by name, and return it.

        Args:
            name: Lower-case words joined by "-".
            thing: The thing.
            description: One line for listings; the first line of its documentation if empty.

        Raises:
            ConfigError: The name is malformed or taken.
        """
        if not isinstance(name, str) or not self._pattern.fullmatch(name):
            raise ConfigError(self.field, name, 'lower-case words joined by "-"')
        for part in name.split("/"):
            check_name(self.field, part)
        if name in self._things:
            raise ConfigError(self.field, name, "a name that is not registered yet")
        # First: what a follower refuses is not added.
        for added, _ in self._followers:
            added(name, thing)
        self._things[name] = thing
        self._descriptions[name] = description or _first_line(thing)
        return thing

    def follow(
        self, added: Callable[[str, _Thing], object], removed: Callable[[str], object]
    ) -> None:
        """Call a function with each thing at hand, and with each other before it is added.

        Args:
            added: The function, of a name and its thing. What it raises refuses the thing.
            removed: Called with the name of a thing that is forgotten.
        """
        self._followers.append((added, removed))
        for name, thing in self._things.items():
            added(name, thing)

    def add_all(self, things: Mapping[str, _Thing]) -> None:
        """Make several things available by name.

        Args:
            things: The things by name.

        Raises:
            ConfigError: A name is malformed or taken.
        """
        for name, thing in things.items():
            self.add(name, thing)

    def remove(self, name: str) -> None:
        """Forget a thing.

        Raises:
            ConfigError: There is no such name.
        """
        self.find(name)
        del self._things[name], self._descriptions[name]
        for _, removed in self._followers:
            removed(name)

    def find(self, name: object, field: str | None = None) -> _Thing:
        """Return the thing of a name.

        Args:
            name: The name, as a configuration holds it.
            field: Field named in the error; the registry's own if None.

        Raises:
            ConfigError: There is no such name; the error suggests the nearest one.
        """
        if not isinstance(name, str) or name not in self._things:
            load_plugins()
        if isinstance(name, str) and name in self._things:
            return self._things[name]
        hint = suggest(name, self._things)
        raise ConfigError(field or self.field, name, list(self._things), hint)

    def names(self) -> list[str]:
        """List all names, those of installed plug-ins included."""
        load_plugins()
        return list(self._things)

    def describe(self, name: str) -> str:
        """Return the line that describes a thing.

        Raises:
            ConfigError: There is no such name.
        """
        self.find(name)
        return self._descriptions[name]

    def __getitem__(self, name: str) -> _Thing:
        return self._things[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._things)

    def __len__(self) -> int:
        return len(self._things)


# The kinds hold different things, and nobody reads more than names here.
REGISTRIES: dict[str, Registry[Any]] = {}
"""The registries that have been imported, by kind."""

_loaded: set[str] = set()
_scanned: list[tuple[str, ...]] = []


def load_plugins() -> None:
    """Import the plug-ins that have not been imported yet; each registers what it adds.

    A plug-in imports any part of dcgym: while a module of dcgym is being imported, names are looked
    up among those at hand.

    Raises:
        ConfigError: A plug-in cannot be imported.
    """
    places = tuple(sys.path)
    if _scanned == [places]:
        return
    if _is_importing():
        return
    _scanned[:] = [places]
    for point in find_plugins(places):
        if point.value in _loaded:
            continue
        # Before the import: a plug-in may look up names itself.
        _loaded.add(point.value)
        try:
            point.load()
        except Exception as error:
            reason = f"a module that can be imported ({type(error).__name__}: {error})"
            raise ConfigError(f"plug-in {point.name}", point.value, reason) from error


@functools.cache
def find_plugins(places: tuple[str, ...]) -> tuple[importlib.metadata.EntryPoint, ...]:
    """Return what installed packages name as plug-ins; nothing of theirs is imported.

    It reads the metadata of every package, which takes tens of milliseconds.

    Args:
        places: Where packages are looked for, as `sys.path` has them.
    """
    return tuple(importlib.metadata.entry_points(group=PLUGIN_GROUP))


def _is_importing() -> bool:
    """Tell whether a module of dcgym has begun to be imported, and has not ended."""
    ours = (module for name, module in list(sys.modules.items()) if name.startswith("dcgym"))
    specs = (getattr(module, "__spec__", None) for module in ours)
    # importlib's own mark, by which it tells of circular imports; there is no public one.
    return any(getattr(spec, "_initializing", False) for spec in specs)


def _first_line(thing: object) -> str:
    # An instance has its class's documentation, which says nothing about this one thing.
    has_own = isinstance(thing, type) or callable(thing)
    text = (thing.__doc__ or "") if has_own else ""
    return text.strip().split("\n", 1)[0]
