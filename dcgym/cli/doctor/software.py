"""Programs, native parts and Python packages."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

from dcgym import native
from dcgym.cli.doctor.check import Check
from dcgym.tasks.network.controls import CONGESTION_CONTROLS
from dcgym.traffic.generators.tools import find_tool

__all__ = ["check_native_parts", "check_packages", "check_tools"]

MININET_FOLDER = Path("/usr/lib/python3/dist-packages/mininet")
# Name, how its version is asked for, whether emulation needs it, what it costs, Debian's package.
TOOLS = (
    ("ip", ["ip", "-V"], True, "no emulation", "iproute2"),
    ("tc", ["tc", "-V"], True, "no emulation", "iproute2"),
    ("unshare", ["unshare", "--version"], True, "no emulation", "util-linux"),
    ("mnexec", None, True, "no Mininet hosts", "mininet"),
    ("ethtool", ["ethtool", "--version"], True, "no control of offloads", "ethtool"),
    (
        "ovs-vswitchd",
        ["ovs-vswitchd", "--version"],
        False,
        "no OVSSwitch",
        "openvswitch-switch",
    ),
    ("clang", ["clang", "--version"], False, "BPF objects cannot be built", "clang llvm"),
    ("g++", ["g++", "--version"], False, "native parts cannot be built", "g++"),
    ("bpftool", ["bpftool", "version"], False, "no look into BPF objects", "bpftool"),
    ("ping", None, False, "no ping matrix in tests", "iputils-ping"),
    ("curl", ["curl", "--version"], False, "no curl test of the HTTP servers", "curl"),
    ("wrk", None, False, "no wrk test of the HTTP servers", "wrk"),
    (
        "iperf3",
        ["iperf3", "--version"],
        False,
        "no iperf3 generator",
        "iperf3",
    ),
)


def check_tools() -> list[Check]:
    """Look for the programs that emulation, builds and tests call."""
    checks = [_mininet()]
    for name, command, required, cost, package in TOOLS:
        path = _which(name)
        found = "not found" if path is None else _version(command, path)
        remedy = f"apt-get install {package}"
        checks.append(Check("tools", name, path is not None, found, required, cost, remedy))
    goben = "found" if _which("goben") else "not found"
    is_found, remedy = goben == "found", find_tool("goben").hint
    cost = "no goben generator"
    checks.append(Check("tools", "goben", is_found, goben, False, cost, remedy))
    return checks


def _which(name: str) -> str | None:
    folders = os.environ.get("PATH", os.defpath) + os.pathsep + "/usr/sbin:/sbin"
    return shutil.which(name, path=folders)


def _version(command: list[str] | None, path: str) -> str:
    if command is None:
        return "found"
    try:
        done = subprocess.run(
            [path, *command[1:]],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=5,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    match = re.search(r"\d+(\.\d+)+\S*", done.stdout + done.stderr)
    return match.group(0).rstrip(",)") if match else "found"


def _mininet() -> Check:
    ok = MININET_FOLDER.exists() or importlib.util.find_spec("mininet") is not None
    found = "found" if ok else "not found"
    return Check(
        "tools", "mininet (Python)", ok, found, True, "no emulation", "apt-get install mininet"
    )


def _cost_of_controls() -> dict[str, str]:
    """Return what is missing without the program of each congestion control, by its object."""
    return {
        one.program: f"no policy {name!r} "
        + ("where the kernel has no module" if one.is_in_linux else "on real TCP")
        for name, one in CONGESTION_CONTROLS.items()
        if one.program
    }


def check_native_parts() -> list[Check]:
    """Look for what setup builds."""
    missing = native.missing_parts()
    names = (*native.MODULES, *native.BPF_OBJECTS, *native.PROGRAMS)
    costs = {
        "_simulation": "no simulated load balancing",
        "_workload": "no emulated servers, no bounds of balancing",
        "_packets": "no simulated networks",
        "_placement": "no simulated placement of VIPs",
        "_measure": "no tasks on networks",
        **_cost_of_controls(),
        "dcgym_agent": "no FlowControl on real TCP",
        "delay": "no emulated links with a delay",
        "dcgym-relay": "no emulated links with a delay",
    }
    return [
        Check(
            "native parts",
            name,
            name not in missing,
            "not built" if name in missing else "built",
            name not in costs,
            costs.get(name, "no emulation"),
            native.hint(name),
        )
        for name in names
    ]


def check_packages() -> list[Check]:
    """Look for the Python packages of the extras."""
    rows = [
        ("ray", "no policy 'ppo'", "rllib"),
        ("torch", "no learned policies", "rllib"),
        ("stable-baselines3", "no policy 'ddpg'", "sb3"),
        ("matplotlib", "no report.html, no drawing of topologies", "report"),
    ]
    checks = []
    for name, cost, extra in rows:
        version = _package_version(name)
        remedy = f"pip install 'dcgym[{extra}]'"
        ok = version is not None
        checks.append(Check("packages", name, ok, version or "not found", False, cost, remedy))
    return checks


def _package_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
