"""Congestion control by name: the kernel's module where there is one, else our BPF program."""

from __future__ import annotations

from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

from dcgym.errors import FeatureNotSupported
from dcgym.native import require
from dcgym.tasks.network.controls import AGENT_CONTROL, CongestionControl
from dcgym.topologies import Topology, base_rtt_ns, slowest_frame_ns

if TYPE_CHECKING:
    from dcgym.native import _native

__all__ = ["AGENT_MAPS", "CongestionControls"]

AGENT_MAPS = ("flows", "commands", "controls", "free_slots")
"""Maps of dcgym_agent.bpf.c that agents work with, in the order of `Prepared.agent_maps`."""


# Linux' own calls PLB (tcp_plb.c), of which no switch here hears.
RELABELLING_CONTROL = "dctcp"
# TCP_CA_NAME_MAX without the 0 at its end.
LONGEST_NAME = 15
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


class CongestionControls:
    """Names of algorithms as this emulator's kernel knows them.

    A BPF algorithm is registered for the whole machine, under a name that holds the run's id, and
    vanishes with the link that this object keeps.
    """

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._loaded: dict[str, _native.CongestionControl] = {}
        self._has_told_maps = False

    def kernel_name(
        self,
        name: str,
        control: CongestionControl,
        topology: Topology,
        relabelling: str = "",
        label_map_fd: int = -1,
    ) -> str:
        """Return the name to give the kernel, loading the BPF program if need be.

        Args:
            name: Its name.
            control: The congestion control.
            topology: The network, whose times the program is told.
            relabelling: How senders of dctcp avoid congested paths, "plb" or "flowbender".
            label_map_fd: Where they tell the switches.

        Raises:
            ConfigError: Another package's header cannot be compiled.
            FeatureNotSupported: The kernel has neither the module nor what the program needs.
        """
        if name != RELABELLING_CONTROL:
            relabelling, label_map_fd = "", -1
        # A program of ours may be called as one of Linux' modules is.
        is_module = control.is_in_linux and control.kernel_name in _AVAILABLE.read_text().split()
        if is_module and not relabelling:
            return control.kernel_name
        if not control.program:
            module = f"a kernel with the module tcp_{control.kernel_name}"
            raise FeatureNotSupported(f"TCP {name}", module)
        if name not in self._loaded:
            load = require().load_congestion_control
            self._loaded[name] = load(
                str(control.object_path()),
                self._own_name(control.kernel_name),
                base_rtt_us=base_rtt_ns(topology) // 1000,
                packet_ns=slowest_frame_ns(topology),
                relabelling=relabelling,
                label_map_fd=label_map_fd,
            )
        return self._loaded[name].name

    def _own_name(self, kernel_name: str) -> str:
        """Return a name of at most 15 characters that no other of this machine has."""
        taken = {control.name for control in self._loaded.values()}
        longest = LONGEST_NAME - len(self._run_id) - 1
        endings = chain(("",), map(str, count(2)))
        stems = (kernel_name[: longest - len(ending)] + ending for ending in endings)
        return next(name for stem in stems if (name := f"{stem}_{self._run_id}") not in taken)

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
