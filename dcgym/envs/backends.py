"""From what a configuration says about a backend to what makes one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from dcgym.backends.base import Capabilities, is_backend, made_by
from dcgym.backends.options import Values
from dcgym.backends.registry import Maker, make_backend, own_options
from dcgym.config import check_text
from dcgym.errors import ConfigError, DcgymError
from dcgym.registry import Registry
from dcgym.topologies import Topology

__all__ = [
    "Named",
    "make_copies",
    "read_backend",
    "resolved_backend",
    "stated_capabilities",
    "topology_of",
    "with_options",
]

Needs = TypeVar("Needs")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Named:
    """A backend that has a name, and what was chosen about it.

    Attributes:
        name: Its name in a registry.
        options: Values of options by name, its own or of others that ask for nothing.
    """

    name: str
    options: Values = field(default_factory=dict)


def stated_capabilities(spec: object, makers: Registry[Maker[Needs, Made]]) -> Capabilities | None:
    """Return what a backend says that it can do before one is made; None where nobody says it.

    Args:
        spec: The argument ``backend``: a name, a mapping with one, a backend, a class of backends,
            or a function, which says nothing.
        makers: The backends that have names.

    Raises:
        ConfigError: There is nothing of that name.
    """
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    found = _imported(name)
    if isinstance(found, str):
        found = makers.find(found)
    can = getattr(found, "capabilities", None)
    return can if isinstance(can, Capabilities) else None


def read_backend(spec: object) -> object:
    """Return what the argument ``backend`` says: a `Named`, a backend, or what makes one.

    "package.module:name" names what nobody has registered; files and worker processes can write it
    too. What is so named may be anything, so that a failure of it is a wrong name; that of a
    function is its own.

    Args:
        spec: A name; a mapping of ``name`` and options; a backend; or what makes one.

    Raises:
        ConfigError: There is nothing of that name.
    """
    name, options = spec, dict[str, object]()
    if isinstance(spec, Mapping):
        options = {str(key): value for key, value in spec.items()}
        name = check_text("backend.name", options.pop("name", None))
    if not isinstance(name, str):
        return spec
    if ":" not in name:
        return Named(name, options)
    found = _imported(name)
    if not callable(found):
        if options:
            raise ConfigError("backend", name, "what makes one, beside options")
        return found

    def make(*arguments: object) -> object:
        with _refused_as(name):
            return found(*arguments, **options)

    return make


def _imported(spec: object) -> object:
    if not isinstance(spec, str) or ":" not in spec:
        return spec
    module, _, name = spec.partition(":")
    with _refused_as(spec):
        return getattr(importlib.import_module(module), name)


def topology_of(backend: object) -> Topology | None:
    """Return the network of a backend that exists already; None for what makes one.

    Args:
        backend: What `read_backend` returned.
    """
    found = getattr(backend, "topology", None) if is_backend(backend) else None
    return found if isinstance(found, Topology) else None


@contextmanager
def _refused_as(spec: object) -> Iterator[None]:
    try:
        yield
    except DcgymError:
        raise
    except Exception as error:
        allowed = f"module:name of what makes one ({type(error).__name__}: {error})"
        raise ConfigError("backend", spec, allowed) from error


def make_copies(
    makers: Registry[Maker[Needs, Made]],
    spec: object,
    needs: Needs,
    n_envs: int,
    subject: object = None,
) -> Made:
    """Return copies of what a task runs on; nothing is started.

    Args:
        makers: The backends that have names.
        spec: What `read_backend` returned, or a name.
        needs: What the task needs of a backend that has a name.
        n_envs: Number of copies.
        subject: What a function makes them of, with the number; ``needs`` if None.

    Raises:
        ConfigError: There is no such backend, or it cannot be made so.
    """
    named = Named(spec) if isinstance(spec, str) else spec
    if isinstance(named, Named):
        return make_backend(makers, named.name, needs, n_envs, named.options)
    subject = needs if subject is None else subject
    kind = f"a backend of a {type(subject).__name__} and a number"
    made: Made = made_by(spec, kind, subject, n_envs)
    return made


def with_options(spec: object, options: Values, makers: Registry[Maker[Needs, Made]]) -> object:
    """Return the argument ``backend`` with options that stand beside it.

    Args:
        spec: The argument.
        options: Values by name.
        makers: The backends that have names.

    Raises:
        ConfigError: An option is said twice, or asks for something of a backend without a name.
    """
    named = {"name": spec} if isinstance(spec, str) else spec
    if not isinstance(named, Mapping) or ":" in str(named.get("name")):
        own_options(makers, None, options)
        return spec
    for name in options:
        if name in named:
            raise ConfigError(name, options[name], f"once: the backend says {named[name]!r}")
    return {**named, **options}


def resolved_backend(spec: object, options: Values, makers: Registry[Maker[Needs, Made]]) -> object:
    """Return the argument ``backend`` with all options of a backend that has a name.

    Args:
        spec: The argument.
        options: Values that stand beside it, by name.
        makers: The backends that have names.

    Raises:
        ConfigError: An option is not allowed.
    """
    named = with_options(spec, options, makers)
    name = named.get("name") if isinstance(named, Mapping) else None
    if not isinstance(named, Mapping) or not isinstance(name, str) or name not in makers:
        return spec
    given = {key: value for key, value in named.items() if key != "name"}
    found = makers[name].options.read(own_options(makers, name, given))
    return {"name": name, **{key: getattr(found, key) for key in found.names()}}
