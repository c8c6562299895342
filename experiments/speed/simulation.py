"""Speed of the balancing twin, side by side with a plain model of the same, and with devices.

The twin and a plain SimPy model simulate the same pool under the same rule, on one core, in its CPU
time. They count events differently, the twin those that only make features too. Pools of servers
with devices are measured in a twin of their own.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console

from dcgym.backends.records import SUMMARY
from dcgym.backends.simulation import AcceleratorTwin
from dcgym.backends.simulation.balancing import BalancingTwin
from dcgym.errors import MissingDependency
from dcgym.tasks.accelerators.protocol import DeviceCommands, DeviceEpisode
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.units import NS_PER_S
from experiments.speed.simpy_model import SimPyModel

__all__ = ["DEVICES_PER_S", "LOAD", "measure_balancing_twin", "measure_device_twin"]

TWIN_S = {"hlb-128": 600, "yao-sim-8": 20_000}
SIMPY_S = {"hlb-128": 20, "yao-sim-8": 600}
LOAD = 0.9
# Of 256 servers with two accelerators each, which report 100 times a second: beyond what their
# processors serve.
DEVICES_PER_S, DEVICES_S = 7000, 30
DEVICE_RULES = (
    *(("ecmp", rule) for rule in ("server-only", "wrr", "dynamic-wrr", "lur", "prt")),
    *((rule, "wrr") for rule in ("lsq", "sed")),
)


def twin_figures(preset: str, rule: str, seconds: int) -> dict[str, Any]:
    """Measure the twin, one environment on one core."""
    twin = BalancingTwin(make_scenario(preset, load=LOAD))
    twin.reset(1)
    twin.apply(PoolCommands(rules=rule))
    begun = time.process_time()
    twin.advance(seconds * NS_PER_S)
    cpu_s = time.process_time() - begun
    summary = twin.records(SUMMARY)
    flow = next(iter(summary.applications.values()))
    return _figures("twin", preset, rule, seconds / cpu_s, summary.events / cpu_s) | {
        "flows/s": summary.completed / cpu_s,
        "mean FCT, s": flow.mean_us / 1e6,
    }


def simpy_figures(preset: str, rule: str, seconds: int) -> dict[str, Any]:
    """Measure the SimPy model of the same."""
    model = SimPyModel(make_scenario(preset, load=LOAD), rule, seed=1)
    begun = time.process_time()
    model.run(seconds)
    cpu_s = time.process_time() - begun
    return _figures("simpy", preset, rule, seconds / cpu_s, model.events / cpu_s) | {
        "flows/s": len(model.completion_s) / cpu_s,
        "mean FCT, s": float(np.mean(model.completion_s)),
    }


def _figures(model: str, preset: str, rule: str, real: float, events: float) -> dict[str, Any]:
    return {
        "pool": preset,
        "rule": rule,
        "model": model,
        "times real time": real,
        "events/s": events,
    }


def measure_balancing_twin() -> list[dict[str, Any]]:
    """Measure each pool of `TWIN_S` under two rules, in the twin and in the SimPy model."""
    rows = []
    for preset in TWIN_S:
        for rule in ("lsq", "sed"):
            rows.append(twin_figures(preset, rule, TWIN_S[preset]))
            try:
                rows.append(simpy_figures(preset, rule, SIMPY_S[preset]))
            except MissingDependency as error:
                Console(stderr=True).print(f"no comparison with SimPy: {error}")
    return rows


def measure_device_twin() -> list[dict[str, Any]]:
    """Measure the largest pool of servers with accelerators under pairs of rules, on one core."""
    rows = []
    for server_rule, device_rule in DEVICE_RULES:
        twin = AcceleratorTwin("p4wise-256")
        twin.reset([DeviceEpisode(1, DEVICES_PER_S)])
        twin.apply(DeviceCommands(device_rule, server_rule, (6, 1, 1)))
        begun = time.process_time()
        twin.advance(DEVICES_S * NS_PER_S)
        cpu_s = time.process_time() - begun
        rows.append(
            {
                "server rule": server_rule,
                "device rule": device_rule,
                "times real time": DEVICES_S / cpu_s,
                "requests/s": twin.read().arrivals[0] / cpu_s,
            }
        )
    return rows
