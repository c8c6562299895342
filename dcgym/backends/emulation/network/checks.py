"""What an emulated network refuses before it is built."""

from __future__ import annotations

from dcgym.backends.emulation.capabilities import network_with
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.backends.emulation.wire.delays import check_delays
from dcgym.backends.emulation.wire.mtus import check_mtus
from dcgym.backends.needs import NetworkNeeds
from dcgym.config import check_int
from dcgym.errors import ConfigError
from dcgym.traffic.generators.tools import NATIVE
from dcgym.traffic.plans.applications import APPS

__all__ = ["check_needs"]

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
