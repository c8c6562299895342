"""Mininet's command line over the description that an emulator leaves in its namespaces."""

from __future__ import annotations

import json
import os
import resource
import sys

from mininet.log import lg, setLogLevel
from mininet.net import Mininet
from mininet.node import Switch

from dcgym.backends.emulation.emulator.mininet_commands import NetworkCli
from dcgym.backends.emulation.emulator.nodes import (
    DESCRIPTION_PATH,
    Description,
    LazyShell,
    make_mininet,
)
from dcgym.errors import BackendError
from dcgym.traffic.generators.host_access import choose_access

__all__ = ["run_cli"]

SHOWN_NODES = 8
EXIT_CODE = "DCGYM_EXIT_CODE"


class ShownSwitch(LazyShell, Switch):
    """A switch to run commands at."""


class OneCommand(NetworkCli):
    """Mininet's command line without its loop."""

    def run(self) -> None:
        """Wait for a command."""


def run_cli(command: str | None) -> int:
    """Run the prompt, or one command.

    Args:
        command: Such as ``h1 ping -c1 h2``; None for the prompt.

    Returns:
        The exit code of the command; that of the prompt is 0.

    Raises:
        BackendError: The network is not built, or there is no such command.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    net = _make_network()
    try:
        if command is not None:
            return _run_once(net, command)
        NetworkCli(net)
        return 0
    finally:
        for node in net.values():
            node.terminate()


def _make_network() -> Mininet:
    description = _describe()
    choose_access(description.host_access)
    setLogLevel("output")
    # Mininet takes what its nodes say for log lines, and those for errors.
    lg.ch.setStream(sys.stdout)
    # Mininet would look for the number in the name.
    numbered = enumerate(description.switches, start=1)
    switches = {name: {"cls": ShownSwitch, "dpid": f"{i:016x}"} for i, name in numbered}
    return make_mininet(description, switches)


def _describe() -> Description:
    """Read the network's description."""
    try:
        fields = json.loads(DESCRIPTION_PATH.read_text())
    except FileNotFoundError:
        raise BackendError("the emulator's network is not built yet") from None
    return Description(**fields)


def _run_once(net: Mininet, command: str) -> int:
    first = command.split()[0] if command.split() else ""
    # Mininet's commands are methods.
    if first not in net and not callable(getattr(OneCommand, f"do_{first}", None)):
        names = ", ".join(list(net)[:SHOWN_NODES]) + (", ..." if len(net) > SHOWN_NODES else "")
        raise BackendError(f"{first!r} is neither a node ({names}) nor a command of Mininet")
    # Mininet hands what it reads to the running command; a closed input would keep it reading.
    read_end, _write_end = os.pipe()
    cli = OneCommand(net, stdin=os.fdopen(read_end))
    if first not in net or command.rstrip().endswith("&"):
        cli.onecmd(command)
        return cli.code
    # Mininet does not tell how a command ended, but the node's shell can remember it. A shell of
    # its own lets the command exit.
    words = command.strip().partition(" ")[2]
    if not words.strip():
        raise BackendError(f"{first}: a command is missing, such as {first} ip addr")
    cli.onecmd(f"{first} ( {words} ) ; {EXIT_CODE}=$?")
    return int(net[first].cmd(f"echo ${EXIT_CODE}").split()[-1])
