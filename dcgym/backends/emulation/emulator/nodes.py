"""Mininet's nodes and links over what the emulator has built already by netlink.

Mininet starts a shell per node and a process per link operation, 17 ms a host. Here the namespaces,
pairs and addresses exist before its objects do, and a shell starts with the first command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Node

from dcgym.traffic.generators.host_spaces import children_in, host_words

__all__ = [
    "DESCRIPTION_PATH",
    "BuiltIntf",
    "BuiltLink",
    "Description",
    "EmulatedHost",
    "LazyShell",
    "make_mininet",
    "write_description",
]

DESCRIPTION_PATH = Path("/run/dcgym-network.json")


@dataclass(frozen=True)
class Description:
    """A built network, as much of it as Mininet's objects need to know.

    Attributes:
        hosts: Name, file of the network namespace, address.
        switches: Names.
        links: Nodes, port numbers and MAC addresses of both ends.
        host_access: What the hosts' processes may do.
    """

    hosts: list[tuple[str, str, str]]
    switches: list[str]
    links: list[tuple[str, str, int, int, str, str]]
    host_access: str


def write_description(description: Description) -> None:
    """Leave a description where whoever enters the emulator's namespaces finds it.

    Args:
        description: The network.
    """
    partial = DESCRIPTION_PATH.with_suffix(".tmp")
    partial.write_text(json.dumps(asdict(description)))
    partial.replace(DESCRIPTION_PATH)


def make_mininet(description: Description, switches: Mapping[str, Mapping[str, object]]) -> Mininet:
    """Return Mininet's objects for a built network; nothing is made or changed.

    Args:
        description: The network.
        switches: Class and arguments of each switch, by name.
    """
    # Mininet's own initialisation raises limits of the whole machine (fs.file-max and others).
    Mininet.inited = True
    net = Mininet(host=EmulatedHost, controller=None, build=False)
    for name, namespace, ip in description.hosts:
        net.addHost(name, namespace=namespace, ip=ip)
    for name in description.switches:
        net.addSwitch(name, **switches[name])
    for a, b, port_a, port_b, mac_a, mac_b in description.links:
        net.addLink(a, b, port1=port_a, port2=port_b, addr1=mac_a, addr2=mac_b, cls=BuiltLink)
    net.build()
    return net


class LazyShell(Node):
    """Mixin for a Mininet node: the shell starts when it is first needed."""

    name: str
    shell: object = None
    _pid: int | None = None
    _is_constructed = False

    def __init__(self, name: str, **params: object) -> None:
        super().__init__(name, **params)
        self._is_constructed = True

    def startShell(self, mnopts: str | None = None) -> None:
        """Leave it until `wake`."""

    def wake(self) -> None:
        """Start the shell unless it runs."""
        if self.shell is None:
            super().startShell("-cd")

    @property
    def pid(self) -> int | None:
        """Process number of the shell, as `mnexec -a` wants it; starts the shell."""
        if self._is_constructed:
            self.wake()
        return self._pid

    @pid.setter
    def pid(self, value: int | None) -> None:
        self._pid = value

    def cmd(self, *args: object, **kwargs: object) -> object:
        """Run a command in the shell and return its output."""
        # Mininet's constructors only want interfaces up that are up.
        if not self._is_constructed:
            return ""
        self.wake()
        return super().cmd(*args, **kwargs)

    def sendCmd(self, *args: object, **kwargs: object) -> object:
        """Start a command in the shell."""
        self.wake()
        return super().sendCmd(*args, **kwargs)

    def __repr__(self) -> str:
        """Name what the node is, without starting its shell for the process number."""
        interfaces = ",".join(f"{i.name}:{i.IP()}" for i in self.intfList())
        return f"<{type(self).__name__} {self.name}: {interfaces} pid={self._pid}> "


class EmulatedHost(LazyShell, Host):
    """A Mininet host in a namespace that exists.

    Args:
        name: Node name.
        namespace: File of its network namespace.
    """

    def __init__(self, name: str, *, namespace: str, **params: object) -> None:
        self._namespace = namespace
        super().__init__(name, **params)

    def _popen(self, cmd: list[str], **params: object) -> object:
        if self.shell is None:
            # The shell itself. Its mnexec would make a namespace (-n), where there is one to enter.
            cmd = ["mnexec", "-c", *cmd[2:]]
        elif cmd[:2] == ["mnexec", "-da"]:
            # Mininet's `popen` joins the shell's network, but neither its processes nor its limits.
            cmd = cmd[3:]
        with children_in(self._namespace):
            return super()._popen([*host_words(self._namespace), *cmd], **params)

    def config(self, ip: str | None = None, **_params: object) -> dict[str, object]:
        """Note the address, which the interface has."""
        interface = self.defaultIntf()
        if interface is not None and ip is not None:
            interface.ip, interface.prefixLen = ip.split("/")
        return {}


class BuiltIntf(Intf):
    """An interface that needs no configuration when Mininet hears of it."""

    def config(self, **_params: object) -> dict[str, object]:
        """Do nothing: it has its MAC and comes up with the network."""
        return {}


class BuiltLink(Link):
    """A veth pair that exists."""

    def __init__(self, node1: Node, node2: Node, **params: object) -> None:
        super().__init__(node1, node2, **(params | {"intf": BuiltIntf}))

    @classmethod
    def makeIntfPair(cls, *_args: object, **_params: object) -> None:
        """Do nothing: the network has made it."""
