"""A DCTCP flow whose receiver falls silent, under PLB: print how often its label has changed."""

from __future__ import annotations

import json
import struct
import sys
import time
from typing import Any

from network import run
from transport import build, connect, pump

from dcgym.native import bpf_object, require
from tests.support.bpf_maps import OwnMap


def main() -> None:
    request: dict[str, Any] = json.load(sys.stdin)
    _, hosts = build(request)
    control = require().load_congestion_control(
        str(bpf_object("dctcp")), request["name"], relabelling="plb"
    )
    sender, _ = connect(request, hosts, control.name.encode())
    labels, moves = OwnMap("labels"), 0
    pump(sender, time.monotonic() + 0.1)
    run("ip link set s1-eth2 down")
    deadline = time.monotonic() + request["at_most_s"]
    while moves < request["moves"] and time.monotonic() < deadline:
        time.sleep(0.01)
        # struct dcgym_label of plb.h.
        moves = max((struct.unpack("=II", each)[1] for _, each in labels.items()), default=0)
    json.dump({"moves": moves}, sys.stdout)


if __name__ == "__main__":
    main()
