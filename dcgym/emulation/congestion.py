"""Congestion control by name: the kernel's module where there is one, else our BPF program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcgym.errors import ConfigError, FeatureNotSupported, suggest
from dcgym.native import bpf_object, require

__all__ = ["BPF_ALGORITHMS", "NAMES", "CongestionControls"]

BPF_ALGORITHMS = ("dctcp",)
NAMES = ("cubic", "reno", "bbr", "dctcp")
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


class CongestionControls:
    """Names of algorithms as this emulator's kernel knows them.

    A BPF algorithm is registered for the whole machine, under a name that holds the run's id, and
    vanishes with the link that this object keeps.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._loaded: dict[str, Any] = {}

    def kernel_name(self, name: str) -> str:
        """Return the name to give the kernel, loading the BPF program if need be.

        Raises:
            ConfigError: Unknown algorithm.
            FeatureNotSupported: The kernel has neither the module nor what the program needs.
        """
        if name not in NAMES:
            raise ConfigError("congestion_control", name, NAMES, suggest(name, NAMES))
        if name in _AVAILABLE.read_text().split():
            return name
        if name not in BPF_ALGORITHMS:
            raise FeatureNotSupported(f"TCP {name}", f"a kernel with the module tcp_{name}")
        own_name = f"{name}_{self._run_id}"
        if name not in self._loaded:
            load = require().load_congestion_control
            self._loaded[name] = load(str(bpf_object(name)), own_name)
        return own_name

    def implementations(self, names: dict[str, str]) -> dict[str, str]:
        """Say for each algorithm in use whether it is the kernel's or ours."""
        return {name: "bpf" if name in self._loaded else "kernel" for name in set(names.values())}
