"""Environment configurations by name, and the one reader of configurations.

A name stands wherever a configuration does: ``make_env("iroko-dumbbell-10mbit")``,
``dcgym run --config iroko-dumbbell-10mbit``.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path

from dcgym.files import CONFIG, load_mapping
from dcgym.registry import Registry

__all__ = ["PRESETS", "read_config"]

PRESETS: Registry[Mapping[str, object]] = Registry("presets", "config")
"""Configurations by name; ``env`` in one names its environment."""


def read_config(
    source: str | Path | Mapping[str, object], field: str = "config"
) -> dict[str, object]:
    """Return a configuration as a dict of its own: a preset's name, a YAML file, or a mapping.

    Args:
        source: A preset's name, the path of a YAML file, or a mapping.
        field: Name of the field in the error message.

    Raises:
        ConfigError: No such file, not YAML, or not a mapping at the top.
    """
    if isinstance(source, str | Path) and str(source) in PRESETS.names():
        return copy.deepcopy(dict(PRESETS[str(source)]))
    return load_mapping(source, field, (CONFIG,))
