"""Congestion control of the hosts' routes, for tools that cannot choose it for a socket."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence

from dcgym.traffic.generators.host_spaces import children_in, host_words

__all__ = ["CongestionRoutes"]

DEADLINE_S = 5.0
_CONGCTL = re.compile(r" congctl (lock )?\S+")


class CongestionRoutes:
    """Names an algorithm in every route of a host (ip-route(8), ``congctl``).

    Not in the namespace's default, which the kernel lets only be an unrestricted one.
    """

    def __init__(self, namespaces: Sequence[str]) -> None:
        """Begin with routes that name none."""
        self._namespaces = namespaces
        self._chosen = [""] * len(namespaces)

    def choose(self, names: Sequence[str]) -> None:
        """Set the algorithm of each host; an empty name leaves the host as it is.

        Args:
            names: Congestion control of each host; empty for the default.

        Raises:
            ValueError: The kernel refused one.
        """
        for index, name in enumerate(names):
            if name and self._chosen[index] != name:
                namespace = self._namespaces[index]
                for route in _run(namespace, "ip", "-4", "route", "show").splitlines():
                    words = _CONGCTL.sub("", route).split()
                    _run(namespace, "ip", "route", "change", *words, "congctl", name)
                self._chosen[index] = name


def _run(namespace: str, *argv: str) -> str:
    command = [*host_words(namespace), *argv]
    with children_in(namespace):
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    if done.returncode:
        raise ValueError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout
