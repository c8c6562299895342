"""A network that is not in real time, and needs no native part."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dcgym.testing import FakeBackend

__all__ = ["SimulatedNetwork", "simulated"]


class SimulatedNetwork(FakeBackend):
    """The fake network, which is as fast as its caller anyway."""

    capabilities = replace(FakeBackend.capabilities, real_time=False, copies=8)


def simulated(
    env: str = "CongestionControl-v2", backend: Any = SimulatedNetwork, **more: Any
) -> dict[str, Any]:
    """Return the configuration of a short environment on it."""
    topology = "dumbbell" if env == "CongestionControl-v2" else "leaf-spine"
    return {"env": env, "topology": topology, "backend": backend, "max_steps": 50, **more}
