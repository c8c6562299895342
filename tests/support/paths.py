"""Path rules in tests, by the arguments of the environments."""

from __future__ import annotations

from typing import Any

from dcgym.tasks.network.path_rules import read_path_rule

__all__ = ["with_path_choice"]

ARGUMENTS = ("path_rule", "flow_table", "flowlet_gap")


def with_path_choice(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked for with one choice of paths in the place of these arguments."""
    own = {name: value for name, value in asked.items() if name in ARGUMENTS}
    rest = {name: value for name, value in asked.items() if name not in ARGUMENTS}
    return {**rest, "paths": read_path_rule(**{"path_rule": "ecmp", **own})} if own else rest
