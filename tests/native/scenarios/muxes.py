"""Make switches muxes from JSON on stdin, run packets through, print what came out as JSON."""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

from network import quiet, veths

from dcgym.backends.emulation.emulator.muxes.controller import MuxController
from dcgym.backends.emulation.emulator.muxes.tables import Budgets
from dcgym.native import bpf_object, require

N_HOSTS, N_SWITCHES = 8, 2
SOFTWARE_MUX, FIRST_SWITCH, FIRST_VIP = N_HOSTS + 1, N_HOSTS + 2, 100


class Recorder:
    """Takes the place of software muxes."""

    def __init__(self) -> None:
        self.slots: dict[int, list[int]] = {}

    def set_slots(self, vip: int, slots: tuple[int, ...]) -> None:
        """Note a block."""
        self.slots[vip] = list(slots)


def make_fabric(request: dict[str, Any], budgets: Budgets, indexes: dict[str, int]) -> Any:
    """Return two switches that send everything by one port."""
    native, mtu = require(), request.get("mtu", 0)
    size = native.HmuxSize(
        n_vips=len(request["blocks"]),
        first_vip=FIRST_VIP,
        software_mux=SOFTWARE_MUX,
        ecmp_entries=budgets.ecmp_entries,
        tunnel_entries=budgets.tunnel_entries,
        seed=request["seed"],
    )
    fabric = native.Fabric(
        str(bpf_object("fabric")),
        n_switches=N_SWITCHES,
        n_hosts=N_HOSTS + 1 + N_SWITCHES,
        n_ports=len(indexes),
        n_groups=1,
        least_mtu=mtu,
        hmux=size,
    )
    for number, (name, index) in enumerate(indexes.items()):
        # Beyond in0 and in1 are switches; beyond own0, a host of the first switch.
        switch, to_host = int(name in ("in1", "out")), name == "own0"
        fabric.add_port(index, switch, number, mtu=mtu, to_host=to_host)
    fabric.set_group(0, 1, [indexes["out"]], [1.0])
    for switch in range(N_SWITCHES):
        for host in range(1, N_HOSTS + 2 + N_SWITCHES):
            fabric.set_route(switch, host, 0)
    return fabric


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    quiet()
    names = ["in0", "in1", "out", "own0"]
    veths({name: f"{name}-peer" for name in names})
    indexes = {name: socket.if_nametoindex(name) for name in names}
    budgets = Budgets(**request.get("budgets", {}))
    fabric = make_fabric(request, budgets, indexes)
    software = Recorder()
    controller = MuxController(
        fabric.hmux,
        software,
        [FIRST_SWITCH, FIRST_SWITCH + 1],
        {0: {0: 0, 1: 1}, 1: {0: 1, 1: 0}},
        [tuple(block) for block in request["blocks"]],
        budgets,
    )
    out: list[Any] = []
    for step, *arguments in request["steps"]:
        if step == "forward":
            packet, port = arguments
            verdict, left = fabric.test_mux(bytes.fromhex(packet), indexes[port])
            out.append([verdict, left.hex()])
        elif step == "select":
            packets, port = arguments
            out.append([fabric.select_dip(bytes.fromhex(p), indexes[port]) for p in packets])
        elif step == "assign":
            controller.assign({int(vip): place for vip, place in arguments[0].items()})
        elif step == "localise":
            vip, racks = arguments
            controller.localise(vip, {int(switch): dips for switch, dips in racks.items()})
        else:
            controller.remove_dip(*arguments)
    used = {i: [t.ecmp_used, t.tunnels_used] for i, t in controller.tables.items()}
    result = {"out": out, "places": controller.places, "used": used, "slots": software.slots}
    result |= {"local": controller.local, "entries": [*map(controller.host_entries, used)]}
    json.dump(result | {"drops": fabric.drop_counters()}, sys.stdout)


main()
