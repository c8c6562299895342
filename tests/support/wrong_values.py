"""Values of wrong types, of wrong sizes, and such as no type has, for whatever reads a value."""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import enum
import itertools
import types
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

import networkx
import numpy as np

__all__ = ["NAMES", "ODD_KEYS", "SNIPPETS", "WRONG", "deep"]


def deep(levels: int, kind: str = "list") -> object:
    """Return a value that is nested so many levels."""
    value: object = 1
    for _ in range(levels):
        value = [value] if kind == "list" else {"name": value}
    return value


def _endless() -> object:
    """Return a list that holds itself."""
    value: list[object] = []
    value.append(value)
    return value


def _fail(*_: object, **__: object) -> NoReturn:
    raise ArithmeticError("asked")


class _Refusing:
    """An object that answers no question."""

    __eq__ = __bool__ = __len__ = __contains__ = __getitem__ = _fail  # type: ignore[assignment]
    __repr__ = __str__ = __float__ = __int__ = __index__ = __fspath__ = _fail  # type: ignore[assignment]
    __lt__ = __le__ = __gt__ = __ge__ = __hash__ = __call__ = __round__ = _fail  # type: ignore[assignment]


class _Text(str):
    """A text of a type of its own."""

    __slots__ = ()


class _Everything:
    """An object that has every attribute."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_: object, **__: object) -> object:
        return self


class _Kind(enum.IntEnum):
    ONE = 1


class _Word(str, enum.Enum):
    SED = "sed"


_PLAIN: tuple[object, ...] = (
    *(None, True, False, 0, 1, 2, -1, 0.5, -0.5, 1.5, 1e308, 5e-324, 1e-9, 64, 1000),
    *(2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 10**12, 10**400, -(10**400), 10**5000),
    *(float("nan"), float("inf"), float("-inf"), -1e308, -0.0, 1e19, 1j),
    *("", " ", "x", "0", "-1", "1e400", "nan", "10Mbit", "1ns", "1h", "400KB", "a\0b", "\ud800"),
    *("1e308", "1e99h", "1e99Tbit", "1e-99ns", "9" * 5000, "x" * 5000, "x" * 300, "\n", "é" * 200),
    *("h1", "s1", "sed", "all", "web-search", "/dev/null", "nowhere/x.yaml", ".json", "a.b:c", ":"),
    *("/", ".", "..", "~", "../x", "os:system", "os.path:join", "dcgym:nothing", "dcgym/X-v0"),
    *([], {}, (), [[]], [None], [1, 2], ["h1", "h1"], [0.0], [{}], {"name": None}, {"name": []}),
    *({"name": {}}, {1: 2}, {"name": "x", "": 1}, {"preset": 5}, {"at": "x"}, {None: None}),
    *({"self": 1}, {"name": "x", "self": 1}, {"kind": "constant", "self": 1}, {"\ud800": 1}),
    *({("a", 1): 2}, {"a\nb": 1}, {"x" * 5000: 1}, [1, [2, [3]]], [[1, 2], [3]], ["a\0b"]),
    *(datetime.date(2001, 9, 9), datetime.datetime(2001, 9, 9), datetime.timedelta(1)),
    *(b"x", bytearray(b"x"), memoryview(b"x"), frozenset({1}), set(), {"h1"}, ...),
    *(deep(40), deep(3000), deep(3000, "dict"), _endless()),
)

_PYTHON: tuple[object, ...] = (
    *(Fraction(1, 3), Fraction(10**400), Fraction(1, 10**400), -Fraction(10**400)),
    *(decimal.Decimal("0.5"), decimal.Decimal("1e400"), decimal.Decimal("sNaN")),
    *(range(3), range(10**12), itertools.count(), iter([1]), (one for one in "ab")),
    *(collections.deque([1]), collections.OrderedDict(name="x"), collections.Counter("ab")),
    *(collections.ChainMap({"name": "x"}), collections.UserDict(name="x"), collections.UserList()),
    *(types.MappingProxyType({"name": "x"}), types.SimpleNamespace(name="x"), array.array("d")),
    *({"a": 1}.keys(), {"a": 1}.items(), slice(3), zip(), map(str, "ab"), NotImplemented),
    *(len, int, object, object(), type, types, Path("x"), Path("/"), Path("a\0b"), Path("x" * 300)),
    *(lambda: 1, lambda *_: None, ValueError("x"), ValueError, _Kind.ONE, _Kind, _Word.SED, _Word),
    *(_Refusing(), _Text("sed"), _Everything(), networkx.Graph(), networkx.DiGraph([(1, 2)])),
)

_NUMPY: tuple[object, ...] = (
    *(np.int64(3), np.int8(-1), np.uint64(2**64 - 1), np.float32(0.5), np.float64("nan")),
    *(
        np.longdouble("1e4000"),
        np.longdouble("-inf"),
        np.complex64(1),
        np.bool_(True),
        np.str_("x"),
    ),
    *(np.bytes_(b"x"), np.datetime64("NaT"), np.datetime64("2001-09-09"), np.timedelta64(1, "s")),
    *(np.void(b"abc"), np.zeros(1, "i4,f8")[0], np.zeros(2, "i4,f8"), np.zeros(2, "V3")),
    *(np.zeros(0), np.zeros(3), np.zeros(()), np.zeros((2, 2)), np.zeros((2, 0, 3)), np.ones(1)),
    *(np.array([1, 2]), np.array(["h1", "h2"]), np.array([None]), np.array([{}]), np.array({})),
    *(
        np.array([object()]),
        np.array([np.nan, np.inf]),
        np.array([2**63], np.uint64),
        np.array([1j]),
    ),
    *(np.broadcast_to(0.0, 10**13), np.ma.masked, np.ma.array([1, 2], mask=[0, 1]), np.matrix([1])),
    *(np.rec.array([(1, 2)]), np.dtype("f8"), np.float64, np.random.default_rng(0), np.nditer([1])),
)

WRONG: tuple[object, ...] = (*_PLAIN, *_PYTHON, *_NUMPY)
"""Values of other types, of other sizes, and such as no type has."""

NAMES = (
    *("x", "rate", "mix", "name", "kind", "seed", "preset", "topology", "scenario", "file"),
    *("self", "cls", "env", "env_id", "config", "args", "kwargs", "arguments", "overrides"),
    *(
        "settings",
        "num_envs",
        "make",
        "params",
        "spec",
        "policy",
        "family",
        "content",
        "base",
        "value",
        "field",
        "path",
        "make_policy",
        "backend",
    ),
    *("__class__", "__init__", "__dict__", "_x", "", " ", "a.b", "a\nb", "\ud800", "x" * 300),
)
"""Keys that mean nothing where they stand; Python's own names and those of our functions too."""

ODD_KEYS = (5, None, True, 0.5, ("a", 1), b"x", frozenset({1}), float("nan"), _Kind.ONE)
"""Keys that are no text."""

SNIPPETS = (
    *(
        "!!timestamp 1",
        "2001-99-99",
        "!!int nx",
        "!!float x",
        "!!binary x",
        "!!bool 5",
        "!!set [1]",
    ),
    *("!!python/object/apply:os.system [false]", "!x 1", "*a", "&a [*a]", "<<: 1", "? [1]", "%x"),
    *("{", "[" * 600, "- " * 600, "{a: " * 600, "0x", "1_0", "0b2", "1:99:99", ".inf", "~", "\t"),
    *(
        "9" * 5000,
        "\x00",
        "\x7f",
        "'",
        "|",
        "!!omap [1]",
        "!!pairs [1]",
        "=",
        "2001-01-01T25:61:61Z",
    ),
    *("{a: 1, a: 2}", "!!null x", "!!str", "--- 1\n--- 2", "? {[1]: 2}\n: 3", "{{}: 1}"),
)
"""Pieces of YAML, right and wrong."""
