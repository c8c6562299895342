"""Emulation: real Linux hosts and TCP in the private namespaces of one process tree."""

from __future__ import annotations

from dcgym.emulation.backend import EmulationBackend

__all__ = ["EmulationBackend"]
