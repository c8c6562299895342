"""Pools of servers with accelerators by name, with the measured capacities of their source.

Tajbakhsh, "Programmable and intelligent accelerator-aware load balancers in data centers" (2023),
measured requests a second of a host (Xeon Silver 4210R, 10 cores) and of a SmartNIC (BlueField, 16
Armv8 A72 cores). It gives rates and some latencies without load, but neither workers nor service
times: workers here are those that fit both, and a NIC is a fifth of a host where nothing is said
(91.0 against 17.6 GFLOP/s).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from dcgym.config import check_in, check_int, check_keys, check_range
from dcgym.defaults import DefaultCount
from dcgym.errors import ConfigError, suggest
from dcgym.files import SCENARIO, load_mapping
from dcgym.registry import Registry
from dcgym.tasks.accelerators.agents import Agents
from dcgym.tasks.accelerators.devices import Device
from dcgym.tasks.accelerators.events import DeviceEvent
from dcgym.tasks.accelerators.pool import AcceleratorPool, DeviceApplication, DeviceGroup
from dcgym.tasks.balancing.fields import Plain, build
from dcgym.units import NS_PER_S, parse_duration

__all__ = [
    "APPLICATIONS",
    "HOST_GFLOP_PER_S",
    "NIC_GFLOP_PER_S",
    "POOL_PRESETS",
    "MeasuredApplication",
    "PoolSpec",
    "accelerator_pool",
    "make_pool_of_devices",
    "micro_benchmark",
]

PoolSpec: TypeAlias = str | Path | Plain | AcceleratorPool
"""What `make_pool_of_devices` takes."""

HOST_CORES, HOST_GFLOP_PER_S = 10, 9.1
NIC_CORES, NIC_GFLOP_PER_S = 16, 1.1
MOST_ACCELERATORS = 7
QUEUE_LIMIT = 1000
VARIANTS = (
    *("agents", "events", "gaps", "rate_per_s", "requests", "latency_ns"),
    *("prt_threshold", "ring_slots", "connection_table"),
)
"""Fields of a pool that every preset takes beside its own parameters."""


@dataclass(frozen=True)
class MeasuredApplication:
    """What was measured of an application on a host and on its SmartNIC.

    Attributes:
        host_workers: Requests that the host serves at once.
        host_per_s: Requests a second of the host.
        nic_workers: Requests that the NIC serves at once.
        nic_per_s: Requests a second of the NIC.
        threshold: Processing time above which P4Mite's agent calls a device busy.
        max_per_s: Requests a second of both, as published; None where nothing is.
    """

    host_workers: int
    host_per_s: float
    nic_workers: int
    nic_per_s: float
    threshold: str
    max_per_s: float | None = None


APPLICATIONS: Mapping[str, MeasuredApplication] = {
    # Of one core each; 80 % of 2750 fail on the host alone.
    "dns": MeasuredApplication(1, 2200.0, 1, 550.0, "100ms", 2750.0),
    # Without load 80 ms on the host and 120 ms on the NIC; 80 % of 70 fail on the host alone.
    "vgg16": MeasuredApplication(4, 56.0, 2, 14.0, "150ms", 70.0),
    # 75 % of 24 fail on the host alone, and P4Wise turns at 60 % of this rate.
    "knn": MeasuredApplication(1, 18.2, 1, 3.64, "300ms", 24.0),
    # The same rates, ten times as long a request: the service times that fit Table 5.4.
    "knn-pooled": MeasuredApplication(5, 18.2, 5, 4.0, "600ms", 24.0),
    # Of one core each; the host alone bends at 1100.
    "anomaly-detection": MeasuredApplication(1, 1100.0, 1, 220.0, "10ms"),
    # The host alone is linear up to 55.
    "text-retrieval": MeasuredApplication(4, 60.0, 4, 12.0, "150ms"),
}
"""Measured applications by name."""


# Long because its docstring lists eight parameters.
def accelerator_pool(
    servers: int = 1,
    accelerators: int = DefaultCount(1),
    application: str = "knn",
    demand: str = "constant",
    accelerator_weight: float = 1.0,
    processor_weight: float = 5.0,
    later: int = 0,
    later_at: str | float = 0,
    name: str = "accelerator-pool",
) -> AcceleratorPool:
    """Return servers that are alike, each with processors and SmartNICs.

    Args:
        servers: Number of servers.
        accelerators: SmartNICs of each; where nobody says, as many as come later if these are more.
        application: A name in `APPLICATIONS`.
        demand: How the work of a request varies: a kind of distribution.
        accelerator_weight: Weight of a SmartNIC.
        processor_weight: Weight of the processors.
        later: So many of the SmartNICs come only `later_at`.
        later_at: When they come; with 0, never.
        name: Name of the pool.
    """
    accelerators = check_int("accelerators", accelerators, 0, MOST_ACCELERATORS)
    if isinstance(accelerators, DefaultCount):
        accelerators = max(accelerators, check_int("later", later, 0, MOST_ACCELERATORS))
    later = check_int("later", later, 0, accelerators)
    measured = APPLICATIONS[check_in("application", application, APPLICATIONS)]
    host = _device("cpu", measured.host_workers, measured.host_per_s, application, processor_weight)
    nics = tuple(
        _device(
            "smartnic",
            measured.nic_workers,
            measured.nic_per_s,
            application,
            accelerator_weight,
            number < accelerators - later,
        )
        for number in range(accelerators)
    )
    at_ns = parse_duration(later_at, "later_at")
    events = tuple(
        DeviceEvent(at_ns, "add-device", device=accelerators - later + 1 + number)
        for number in range(later if at_ns else 0)
    )
    row = DeviceApplication.from_dict({"name": application, "demand": demand})
    return AcceleratorPool(
        name,
        (DeviceGroup("server", servers, (host, *nics)),),
        (row,),
        Agents(window_ns=NS_PER_S),
        rate_per_s=0.6 * servers * measured.host_per_s,
        events=events,
    )


def micro_benchmark(
    gflop: float = 2.0, threshold: str | float = "300ms", accelerators: int = 1
) -> AcceleratorPool:
    """Return P4Mite's synthetic benchmark: floating-point work on one server with a SmartNIC.

    A request is served by one core, of 9.1 GFLOP/s on the host and of 1.1 GFLOP/s on the NIC: 2
    GFLOP take 220 ms on the host, where 45 requests a second are its capacity.

    Args:
        gflop: Work of a request.
        threshold: Processing time above which the agents call a device busy.
        accelerators: SmartNICs.
    """
    accelerators = check_int("accelerators", accelerators, 0, MOST_ACCELERATORS)
    host = Device("cpu", HOST_CORES, QUEUE_LIMIT, 5.0, gflop_per_s=HOST_GFLOP_PER_S)
    nic = Device("smartnic", NIC_CORES, QUEUE_LIMIT, 1.0, gflop_per_s=NIC_GFLOP_PER_S)
    agents = Agents("event", threshold_ns=parse_duration(threshold, "threshold"))
    group = DeviceGroup("server", 1, (host, *[nic] * accelerators))
    row = DeviceApplication("micro", gflop=check_range("gflop", gflop, 0.001, 1e6))
    return AcceleratorPool("p4mite-micro", (group,), (row,), agents, rate_per_s=5.0)


def _device(
    kind: str,
    workers: int,
    rate_per_s: float,
    application: str,
    weight: float,
    present: bool = True,
) -> Device:
    service_ns = {application: round(workers / rate_per_s * NS_PER_S)}
    return Device(kind, workers, QUEUE_LIMIT, weight, present, service_ns)


POOL_PRESETS: Registry[Callable[..., AcceleratorPool]] = Registry("accelerator-pools", "scenario")
"""The functions that build a pool, by name."""

POOL_PRESETS.add("accelerator-pool", accelerator_pool, "any number of servers and SmartNICs")
POOL_PRESETS.add("p4mite-micro", micro_benchmark, "one server, requests of so many GFLOP")


def _add(name: str, description: str, **fixed: Any) -> None:
    POOL_PRESETS.add(name, partial(accelerator_pool, name=name, **fixed), description)


_add("p4hauler-1", "one server with a SmartNIC, KNN")
_add("p4hauler-2", "two servers with a SmartNIC each, KNN", servers=2)
for _servers in (64, 128, 256):
    _add(
        f"p4wise-{_servers}",
        f"{_servers} servers with two SmartNICs each, KNN, weights of 6 and 0",
        servers=_servers,
        accelerators=2,
        processor_weight=6.0,
        accelerator_weight=0.0,
    )


def make_pool_of_devices(spec: PoolSpec, **params: object) -> AcceleratorPool:
    """Build a pool from whatever a configuration holds.

    Args:
        spec: A preset's name, a mapping of ``preset``, its parameters and `VARIANTS`, a mapping as
            `AcceleratorPool.from_dict` takes it, the path of a YAML or JSON file that holds
            either, or a pool.
        **params: Parameters of the preset; they win over those of the mapping.

    Raises:
        ConfigError: Unknown name, or a field or parameter that is not allowed.
    """
    if isinstance(spec, str) and not spec.endswith((".yaml", ".yml", ".json")):
        known = POOL_PRESETS.names()
        if spec not in known:
            allowed = f"{', '.join(known)}, or a .yaml or .json file"
            raise ConfigError("scenario", spec, allowed, suggest(spec, known))
        return _from_preset({"preset": spec, **params})
    if isinstance(spec, str | Path):
        spec = load_mapping(spec, "scenario", (SCENARIO,))
    if isinstance(spec, Mapping) and "preset" in spec:
        return _from_preset({**spec, **params})
    if params:
        allowed = "no parameters, because this pool is already complete"
        raise ConfigError("scenario parameters", sorted(params), allowed)
    if isinstance(spec, AcceleratorPool):
        return spec
    if not isinstance(spec, Mapping):
        raise ConfigError("scenario", spec, "a name, a mapping, a file or an AcceleratorPool")
    return AcceleratorPool.from_dict(spec)


def _from_preset(spec: Plain) -> AcceleratorPool:
    params = dict(spec)
    name = params.pop("preset")
    preset = POOL_PRESETS.find(name, "scenario.preset")
    own = [one for one in inspect.signature(preset).parameters if one != "name"]
    check_keys(params, [*own, *VARIANTS], f"preset {name}")
    variants = {key: params.pop(key) for key in VARIANTS if key in params}
    made = build(preset, params)
    if not variants:
        return made
    plain = made.to_dict()
    agents = variants.pop("agents", None)
    if isinstance(agents, Agents):
        agents = agents.to_dict()
    if agents is not None:
        if not isinstance(agents, Mapping):
            raise ConfigError("scenario.agents", agents, "a mapping")
        # Another kind of agent begins with what that kind has by itself.
        base = (
            {}
            if agents.get("kind", made.agents.kind) != made.agents.kind
            else made.agents.to_dict()
        )
        plain["agents"] = {**base, **agents}
    return AcceleratorPool.from_dict({**plain, **variants})
