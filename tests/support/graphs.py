"""Small topologies that several tests share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dcgym.topologies import Link, Topology

MBIT = 10**6


def a_link(a: str, b: str, **changes: Any) -> Link:
    return replace(Link(a, b, 10 * MBIT, 400_000, 30_000), **changes)


def a_triangle() -> Topology:
    """Three switches in a ring, one host on each."""
    roles = [(f"h{i}", "host") for i in (1, 2, 3)] + [(f"s{i}", "switch") for i in (1, 2, 3)]
    links = [a_link(f"h{i}", f"s{i}") for i in (1, 2, 3)]
    links += [a_link("s1", "s2"), a_link("s2", "s3"), a_link("s3", "s1", mark_bytes=None)]
    return Topology.build("triangle", roles, links)
