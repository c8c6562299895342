"""Emulation: real Linux hosts and TCP in the private namespaces of one process tree."""

from __future__ import annotations

from dcgym.backends.emulation.network import EmulationBackend

__all__ = ["EmulationBackend"]
