"""An empty congestion control at work, for the difference to those that do something."""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.emulation.options import NetworkOptions
from dcgym.errors import CommandError
from dcgym.native import bpf_object, require
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology
from dcgym.traffic import Plan

__all__ = ["EMPTY_PROGRAM", "empty_flows"]

EMPTY_PROGRAM = "empty_cong_cont"
"""What the kernel calls the program that sees each ACK."""

SOURCE = Path(__file__).with_name("empty_control.bpf.c")
LISTENS_S = 5.0


@contextlib.contextmanager
def empty_flows(link: dict[str, Any], seconds: float) -> Iterator[Callable[[], bool]]:
    """Let iperf3 send two flows under the empty control over a dumbbell.

    Args:
        link: Configuration of a dumbbell of at least four hosts.
        seconds: How long they send.

    Yields:
        Whether they still do.
    """
    network = OneNetwork(EmulationNetwork(make_topology(link), NetworkOptions(preflight=False)))
    with contextlib.ExitStack() as stack:
        stack.callback(network.close)
        name = f"empty_{os.getpid()}"
        with tempfile.TemporaryDirectory() as folder:
            control = require().load_congestion_control(str(_compile(Path(folder))), name)
        stack.callback(control.close)
        network.reset(NetworkEpisode(Plan("none", 0, ())))
        network.lab.execute("h3", "iperf3", "--server", "--one-off", "--daemon")
        client = ("iperf3", "--client", network.topology.ip("h3"), "--parallel", "2")
        command = (*client, "--congestion", name, "--time", f"{seconds:.0f}")
        pool = stack.enter_context(ThreadPoolExecutor(1))
        sending = pool.submit(_send, network, command, seconds)
        yield lambda: not sending.done()
        sending.result()


def _send(network: OneNetwork, command: tuple[str, ...], seconds: float) -> None:
    deadline = time.monotonic() + LISTENS_S
    while True:
        try:
            network.lab.execute("h1", *command, timeout_s=seconds + LISTENS_S)
            return
        except CommandError:
            # The server forks to the background before it listens.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _compile(folder: Path) -> Path:
    """Compile the program as setup.py does; returns the object."""
    native, target = bpf_object("dctcp").parents[1], folder / "empty_control.bpf.o"
    includes = (f"/usr/include/{platform.machine()}-linux-gnu", native / "include", native / "bpf")
    command = ["clang", "-target", "bpf", "-O2", "-g", "-Wall", "-mcpu=v3"]
    command += [f"-I{include}" for include in includes]
    subprocess.run([*command, "-c", str(SOURCE), "-o", str(target)], check=True)
    return target
