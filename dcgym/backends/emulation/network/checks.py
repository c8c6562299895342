"""What an emulated network refuses before it is built."""

from __future__ import annotations

from typing import NamedTuple

from dcgym.backends.emulation.capabilities import network_with
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.emulation.wire.delays import check_delays
from dcgym.backends.emulation.wire.mtus import check_mtus
from dcgym.backends.needs import NetworkNeeds
from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.topologies import Topology
from dcgym.traffic.generators.tools import NATIVE
from dcgym.traffic.plans.applications import APPS

__all__ = ["Controls", "check_needs", "read_controls"]

# About a gigabyte of kernel memory.
MOST_FLOWS = 1 << 23


def check_needs(needs: NetworkNeeds, options: NetworkOptions) -> None:
    """Refuse what a network with such switches and such a generator cannot do.

    Args:
        needs: The network, and what a task needs of it.
        options: What was chosen about it.

    Raises:
        ConfigError: A link has a delay, jitter, loss or MTU that cannot be made; or a rule of
            paths, a flow table, applications or probes are needed that there are not.
    """
    can = network_with(options)
    check_delays(needs.topology, options.switch)
    check_mtus(needs.topology, options.switch)
    check_int("flow_table", needs.paths.flow_entries, 0, MOST_FLOWS)
    if needs.paths.name not in can.path_rules:
        raise ConfigError("path_rule", needs.paths.name, f"ecmp with the switch {options.switch}")
    if needs.applications and not can.applications:
        raise ConfigError("generator", options.generator, f"{NATIVE}, beside apps")
    if needs.probes and (needs.applications or not can.probes):
        kind = APPS if needs.applications else options.generator
        probes = [list(pair) for pair in needs.probes]
        raise ConfigError("probes", probes, f"none with the generator {kind}")


class Controls(NamedTuple):
    """Congestion controls of an episode, as an emulator is told of them (`Prepare`)."""

    of_hosts: dict[str, str]
    rows: dict[str, tuple[str, str, bool]]


def read_controls(topology: Topology, episode: NetworkEpisode) -> Controls:
    """Return the congestion controls of an episode, those of other packages compiled.

    Args:
        topology: The network.
        episode: The episode; hosts that it does not name run cubic.

    Raises:
        ConfigError: There is no such congestion control, or its header cannot be compiled.
        FeatureNotSupported: There is no compiler for its header.
    """
    names = (host.name for host in topology.hosts)
    of_hosts = dict.fromkeys(names, "cubic") | dict(episode.congestion_control)
    rows = {}
    for name in set(of_hosts.values()):
        control = CONGESTION_CONTROLS.find(name)
        if control.is_header:
            control.object_path()
        rows[name] = control.kernel_name, control.program, control.is_in_linux
    return Controls(of_hosts, rows)
