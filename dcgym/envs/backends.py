"""From what a configuration says about a backend to what makes one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

from dcgym.backends.base import Capabilities, is_backend, made_by
from dcgym.backends.registry import Maker, make_backend
from dcgym.errors import ConfigError, DcgymError
from dcgym.registry import Registry
from dcgym.topologies import Topology

__all__ = [
    "draws_ahead",
    "find_object",
    "make_copies",
    "stated_capabilities",
    "topology_of",
]

Subject = TypeVar("Subject")
Made = TypeVar("Made")


def draws_ahead(spec: object, makers: Registry[Any]) -> bool:
    """Tell whether a backend draws an episode's traffic before it begins.

    Args:
        spec: Name of the backend, or what makes one.
        makers: The backends that have names.
    """
    return isinstance(spec, str) and "horizon_ns" in makers.find(spec).options


def stated_capabilities(spec: object, makers: Registry[Any]) -> Capabilities | None:
    """Return what a backend says that it can do before one is made; None where nobody says it.

    Args:
        spec: The argument ``backend``: a name, a backend, a class of backends, or a function,
            which says nothing.
        makers: The backends that have names.

    Raises:
        ConfigError: There is nothing of that name.
    """
    found = _imported(spec)
    if isinstance(found, str):
        found = makers.find(found)
    can = getattr(found, "capabilities", None)
    return can if isinstance(can, Capabilities) else None


def find_object(spec: object) -> object:
    """Return what a text such as "package.module:Name" names; anything else as it is.

    Files and worker processes can so name a backend that nobody has registered. What is named may
    be anything, so that a failure of it is a wrong name; that of a function is its own.

    Args:
        spec: The argument ``backend``.

    Raises:
        ConfigError: There is nothing of that name.
    """
    found = _imported(spec)
    if found is spec or not callable(found):
        return found

    def make(*arguments: object) -> object:
        with _named(spec):
            return found(*arguments)

    return make


def _imported(spec: object) -> object:
    if not isinstance(spec, str) or ":" not in spec:
        return spec
    module, _, name = spec.partition(":")
    with _named(spec):
        found: object = getattr(importlib.import_module(module), name)
    return found


def topology_of(backend: object) -> Topology | None:
    """Return the network of a backend that exists already; None for what makes one.

    Args:
        backend: What `find_object` returned.
    """
    found = getattr(backend, "topology", None) if is_backend(backend) else None
    return found if isinstance(found, Topology) else None


@contextmanager
def _named(spec: object) -> Iterator[None]:
    try:
        yield
    except DcgymError:
        raise
    except Exception as error:
        allowed = f"module:name of what makes one ({type(error).__name__}: {error})"
        raise ConfigError("backend", spec, allowed) from error


def make_copies(
    makers: Registry[Maker[Subject, Made]],
    spec: object,
    subject: Subject,
    n_envs: int,
    wanted: Mapping[str, object] = MappingProxyType({}),
    defaults: Mapping[str, object] = MappingProxyType({}),
) -> Made:
    """Return copies of what a task runs on; nothing is started.

    An option that a named backend does not know is left out where it has its default, and kept
    where somebody asked for another value, which `dcgym.backends.registry.checked_options` judges.

    Args:
        makers: The backends that have names.
        spec: Name of a backend, or a function that makes one of a subject and a number of copies.
        subject: The topology, the scenario, the pool or the data centre.
        n_envs: Number of copies.
        wanted: Options for a backend that is named, by name.
        defaults: What each is where nobody says anything.

    Raises:
        ConfigError: There is no such backend, or it cannot be made so.
    """
    if isinstance(spec, str):
        known = makers.find(spec).options
        options = {
            name: value
            for name, value in wanted.items()
            if name in known or value != defaults.get(name, value)
        }
        return make_backend(makers, spec, subject, n_envs, options)
    kind = f"a backend of a {type(subject).__name__} and a number"
    made: Made = made_by(spec, kind, subject, n_envs)
    return made
