"""YAML that is read and written, with the numbers of JSON and Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from dcgym.errors import ConfigError

if TYPE_CHECKING:
    import yaml

__all__ = ["dump_yaml", "parse_yaml"]

MOST_MERGED = 1_000_000

_MERGE = "tag:yaml.org,2002:merge"
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_INTEGER = r"^[-+]?([0-9][0-9_]*|0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+)$"
_REAL = (
    r"^([-+]?([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?"
    r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$"
)


def dump_yaml(content: object) -> str:
    """Return plain data as YAML that `parse_yaml` reads back.

    Args:
        content: Mappings, lists, texts and numbers of Python.
    """
    import yaml

    text: str = yaml.dump(content, Dumper=_dumper(), sort_keys=False, default_flow_style=None)
    return text


def parse_yaml(text: str, field: str, source: object = None) -> object:
    """Return what YAML text holds.

    Args:
        text: The text.
        field: Name of the field in the error message.
        source: What the error names as the value; the text if None.

    Raises:
        ConfigError: It is no YAML, or a tag in it does not fit its value.
    """
    # Here, as few processes of an emulation read a file.
    import yaml

    try:
        return yaml.load(text, _loader())
    except yaml.YAMLError as error:
        reason = _yaml_reason(error)
    except RecursionError:
        reason = "values are nested too deeply"
    # What the library's own constructors raise: for `!!int nx`, `!!timestamp 1`, `2001-99-99`.
    except (ValueError, TypeError, AttributeError, LookupError, ArithmeticError) as error:
        reason = f"a tag does not fit its value: {error}"
    raise ConfigError(field, text if source is None else source, f"valid YAML ({reason})")


@cache
def _loader() -> type[yaml.SafeLoader]:
    """Return YAML's reader with the numbers of YAML 1.2, which are those of JSON and Python.

    The library speaks YAML 1.1, where 1e3 is a text, 1:30 is 90 and 010 is 8.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """Reads plain data."""

        merged = 0

        def flatten_mapping(self, node: yaml.MappingNode) -> None:
            """Put what ``<<`` refers to into a mapping, unless that is too much.

            Mappings that refer to others so grow tenfold with each line.
            """
            named = [value for key, value in node.value if key.tag == _MERGE]
            parts = [part for one in named for part in _mappings(one)]
            for part in {id(part): part for part in parts}.values():
                self.flatten_mapping(part)
            self.merged += sum(len(part.value) for part in parts)
            if self.merged > MOST_MERGED:
                problem = f"<< may bring at most {MOST_MERGED:,} fields"
                raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
            super().flatten_mapping(node)

    def whole(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
        return _integer(str(loader.construct_scalar(node)))

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag not in (_INT, _FLOAT)]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    _add_numbers(Loader)
    Loader.add_constructor(_INT, whole)
    return Loader


@cache
def _dumper() -> type[yaml.SafeDumper]:
    """Return YAML's writer, which puts texts that either version takes for numbers in quotes."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes plain data."""

    _add_numbers(Dumper)
    return Dumper


def _mappings(node: yaml.Node) -> Iterator[yaml.MappingNode]:
    """Yield the mappings that a value of ``<<`` names; the library refuses what is none."""
    import yaml

    for one in node.value if isinstance(node, yaml.SequenceNode) else [node]:
        if isinstance(one, yaml.MappingNode):
            yield one


def _add_numbers(kind: type[yaml.SafeLoader] | type[yaml.SafeDumper]) -> None:
    for tag, pattern in ((_INT, _INTEGER), (_FLOAT, _REAL)):
        kind.add_implicit_resolver(tag, re.compile(pattern), list("-+0123456789."))


def _integer(text: str) -> int:
    digits = text.replace("_", "")
    is_prefixed = digits.lstrip("+-")[:2] in ("0x", "0o", "0b")
    return int(digits, 0 if is_prefixed else 10)


def _yaml_reason(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "cannot be read"
    return f"{problem}, line {mark.line + 1}" if mark is not None else str(problem)
