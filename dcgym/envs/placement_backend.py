"""What both tasks on VIPs make their models with."""

from __future__ import annotations

from dcgym.backends.base import made_by
from dcgym.backends.placement import Placement
from dcgym.backends.registry import make_placement
from dcgym.tasks.placement.data_centre import DataCentre

__all__ = ["make_copies"]


def make_copies(spec: object, data_centre: DataCentre, n_envs: int) -> Placement:
    """Return copies of a model; nothing is started.

    Args:
        spec: Name of a backend, or a function that makes a `Placement` of a data centre and a
            number of copies.
        data_centre: The data centre.
        n_envs: Number of copies.

    Raises:
        ConfigError: There is no such backend.
    """
    if isinstance(spec, str):
        return make_placement(spec, data_centre, n_envs)
    made: Placement = made_by(
        spec, "a Placement of a data centre and a number", data_centre, n_envs
    )
    return made
