"""Compiled twins of the emulation: the same tasks, without root, much faster than real time."""

from dcgym.backends.simulation.accelerators import AcceleratorTwin
from dcgym.backends.simulation.balancing import BalancingTwin

__all__ = ["AcceleratorTwin", "BalancingTwin"]
