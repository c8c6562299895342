"""Compiled twins of the emulation: the same tasks, without root, much faster than real time."""

from dcgym.simulation.balancing import BalancingTwin

__all__ = ["BalancingTwin"]
