"""Mininet's interface on a network that was built without Mininet's own commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dcgym

pytestmark = pytest.mark.emulation

# Runs as an emulator would, in namespaces of its own, and prints what Mininet says.
SCRIPT = """
import json, os, sys
from dcgym.native import require
from dcgym.topologies import make_topology

require().unshare_namespaces()
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
require().mount_private()
from dcgym.backends.emulation.emulator.mininet_path import make_importable
make_importable()
from dcgym.backends.emulation.emulator.network import EmulatedNetwork

def processes():
    return sum(name.isdigit() for name in os.listdir("/proc"))

out = {}
net = EmulatedNetwork(make_topology("dumbbell"), sys.argv[1], False).net
out["processes"] = processes()
h1, h2, s1 = net["h1"], net.get("h2"), net["s1"]
out["ip"], out["mac"], out["names"] = h1.IP(), h1.MAC(), [i.name for i in h1.intfList()]
out["mac_inside"] = h1.cmd("cat /sys/class/net/h1-eth0/address").strip()
out["woken"] = processes()
out["ping"] = h1.cmd("ping -n -c1 -W30", h2.IP(), "> /dev/null; echo $?").strip()
out["state"] = h1.cmd("cd /tmp"), h1.cmd("pwd").strip()
out["hostless"] = s1.cmd("cat /sys/class/net/s1-eth1/operstate").strip()
out["popen"] = h2.popen("ip -br address show dev h2-eth0").communicate()[0].decode().split()[2]
out["pexec"] = h2.pexec("ip route show")[0].strip()
out["link"] = str(net.links[0]), net.linksBetween(s1, net["s2"])[0].intf2.node.name
out["lost_percent"] = net.pingAll(timeout="30")
h1.setIP("10.9.9.9/8")
out["set_ip"] = h1.cmd("ip -br address show dev h1-eth0").split()[2]
out["neighbours"] = h2.cmd("ip neigh show").split()
print(json.dumps(out))
"""


@pytest.fixture(scope="module", params=["ebpf", "ovs"])
def said(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What Mininet says of a dumbbell of four hosts."""
    home = str(Path(dcgym.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, request.param],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": home},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]), switch=request.param)


def test_mininet_commands_work_on_the_built_network(said: dict[str, Any]) -> None:
    assert (said["ip"], said["mac"]) == ("10.0.0.1", "02:dc:00:00:00:01")
    assert said["names"] == ["h1-eth0"] and said["mac_inside"] == said["mac"]
    assert said["ping"] == "0"
    # One shell a node, which remembers.
    assert said["state"][1] == "/tmp"
    assert said["hostless"] == "up"
    assert said["popen"] == "10.0.0.2/32"
    assert said["pexec"].startswith("10.0.0.0/8 via 10.255.255.254 dev h2-eth0")
    assert said["link"] == ["h1-eth0<->s1-eth1", "s2"]
    assert said["lost_percent"] == 0
    assert said["set_ip"] == "10.9.9.9/8"
    # After everybody has talked with everybody there is still one entry: the gateway's.
    assert said["neighbours"] == [
        "10.255.255.254",
        "dev",
        "h2-eth0",
        "lladdr",
        "02:dc:00:ff:ff:fe",
        "PERMANENT",
    ]


def test_a_shell_starts_with_the_first_command(said: dict[str, Any]) -> None:
    # Process 1, and who holds the spaces of four hosts: one, and two for each. Open vSwitch has two
    # of its own and a shell for each of its switches.
    if said["switch"] == "ebpf":
        assert said["processes"] == 1 + 1 + 2 * 4
    assert said["woken"] == said["processes"] + 1
