"""Congestion control by name: the kernel's module where there is one, else our BPF program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dcgym.errors import FeatureNotSupported
from dcgym.native import bpf_object, require
from dcgym.tasks.network.controls import AGENT_CONTROL, CONGESTION_CONTROLS
from dcgym.topologies import Topology, base_rtt_ns, slowest_frame_ns

if TYPE_CHECKING:
    from dcgym.native._native import CongestionControl

__all__ = ["AGENT_MAPS", "CongestionControls"]

AGENT_MAPS = ("flows", "commands", "controls", "free_slots")
"""Maps of dcgym_agent.bpf.c that agents work with, in the order of `Prepared.agent_maps`."""


# Linux' own calls PLB (tcp_plb.c), of which no switch here hears.
RELABELLING_CONTROL = "dctcp"
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


class CongestionControls:
    """Names of algorithms as this emulator's kernel knows them.

    A BPF algorithm is registered for the whole machine, under a name that holds the run's id, and
    vanishes with the link that this object keeps.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._loaded: dict[str, CongestionControl] = {}
        self._has_told_maps = False

    def kernel_name(
        self, name: str, topology: Topology, relabelling: str = "", label_map_fd: int = -1
    ) -> str:
        """Return the name to give the kernel, loading the BPF program if need be.

        Args:
            name: One of `CONGESTION_CONTROLS`.
            topology: The network, whose times the program is told.
            relabelling: How senders of dctcp avoid congested paths, "plb" or "flowbender".
            label_map_fd: Where they tell the switches.

        Raises:
            ConfigError: Unknown algorithm.
            FeatureNotSupported: The kernel has neither the module nor what the program needs.
        """
        algorithm = CONGESTION_CONTROLS.find(name)
        if name != RELABELLING_CONTROL:
            relabelling, label_map_fd = "", -1
        if not relabelling and algorithm.kernel_name in _AVAILABLE.read_text().split():
            return algorithm.kernel_name
        if algorithm.bpf_object is None:
            module = f"a kernel with the module tcp_{algorithm.kernel_name}"
            raise FeatureNotSupported(f"TCP {name}", module)
        own_name = f"{algorithm.kernel_name}_{self._run_id}"
        if name not in self._loaded:
            load = require().load_congestion_control
            path = str(bpf_object(algorithm.bpf_object))
            self._loaded[name] = load(
                path,
                own_name,
                base_rtt_us=base_rtt_ns(topology) // 1000,
                packet_ns=slowest_frame_ns(topology),
                relabelling=relabelling,
                label_map_fd=label_map_fd,
            )
        return own_name

    def agent_maps(self) -> tuple[int, ...]:
        """Return descriptors of the maps of dcgym_agent, which stay this object's.

        None where it is not loaded, or where they were told before.
        """
        if self._has_told_maps or AGENT_CONTROL not in self._loaded:
            return ()
        self._has_told_maps = True
        control = self._loaded[AGENT_CONTROL]
        return tuple(control.map_fd(name) for name in AGENT_MAPS)

    def implementations(self, names: dict[str, str]) -> dict[str, str]:
        """Say for each algorithm in use whether it is the kernel's or ours."""
        return {name: "bpf" if name in self._loaded else "kernel" for name in set(names.values())}
