"""The emulated network behind the contract of backends: the environment's side."""

from __future__ import annotations

from dcgym.backends.emulation.network.backend import EmulationNetwork

__all__ = ["EmulationNetwork"]
