"""What may send the traffic of an emulation, by name."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from dcgym.errors import ConfigError, FeatureNotSupported
from dcgym.registry import Registry
from dcgym.traffic.generators.goben import GOBEN
from dcgym.traffic.generators.iperf3 import IPERF3
from dcgym.traffic.generators.tool import Tool

__all__ = ["GENERATORS", "NATIVE", "Native", "find_tool", "require_generator"]


@dataclass(frozen=True)
class Native:
    """The generator of dcgym itself, one process for all hosts, which needs no tool."""


NATIVE = "native"
"""Name of dcgym's own generator."""

GENERATORS: Registry[Tool | Native] = Registry("generators", "generator")
"""What may send the traffic of an emulation, by name.

Tools run in a process of their own (`adapter`): one that another package adds is found there
through an entry point of the package.
"""

GENERATORS.add(NATIVE, Native(), "dcgym's own, one process for all hosts")
GENERATORS.add("iperf3", IPERF3, "two iperf3 processes a flow")
GENERATORS.add("goben", GOBEN, "two goben processes a flow")


def find_tool(name: str) -> Tool:
    """Return the tool that is a generator.

    Args:
        name: Its name in `GENERATORS`.

    Raises:
        ConfigError: No tool has this name.
    """
    tool = GENERATORS.find(name)
    if not isinstance(tool, Tool):
        tools = [known for known, one in GENERATORS.items() if isinstance(one, Tool)]
        raise ConfigError("generator", name, tools)
    return tool


def require_generator(name: str) -> None:
    """Check that a generator exists and is installed.

    Args:
        name: Its name in `GENERATORS`.

    Raises:
        ConfigError: No generator has this name.
        FeatureNotSupported: Its program is not on the PATH.
    """
    tool = GENERATORS.find(name)
    if isinstance(tool, Tool) and shutil.which(tool.program) is None:
        raise FeatureNotSupported(f"the traffic generator {name!r}", tool.hint)
