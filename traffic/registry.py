"""Plans by name, from a mapping, or from a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dcgym.config import check_in, check_int, check_keys
from dcgym.errors import ConfigError, suggest
from dcgym.traffic import patterns
from dcgym.traffic.plan import TRANSPORTS, Flow, Plan
from dcgym.units import parse_duration, parse_rate, parse_size

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["PLANS", "make_plan"]

PLANS: dict[str, patterns.Pattern] = {
    "pairs": patterns.pairs,
    "pairs-udp": patterns.pairs,
    "incast": patterns.incast,
    "stride-1": patterns.stride(1),
    "all-to-all": patterns.all_to_all,
    "random-bijection": patterns.random_bijection,
    "idle": patterns.idle,
}
"""Traffic by name. ``stride-N`` is known for every N, not only for the one listed."""

FILE_SUFFIXES = (".csv", ".json")

_STRIDE = re.compile(r"stride-([1-9][0-9]{0,8})")
_OPTIONS = ("transport", "rate", "size", "duration", "start", "repetitions", "gap")


def make_plan(
    spec: str | Path | Mapping[str, Any] | Plan, topology: Topology, seed: int = 0
) -> Plan:
    """Make a plan and check it against a topology.

    Args:
        spec: One of
            a name from `PLANS`, or ``stride-N``: endless bulk TCP from time 0;
            a mapping with that ``name`` and any of ``transport``, ``rate``, ``size``,
            ``duration``, ``start``, ``repetitions``, ``gap`` for all flows;
            a mapping with ``flows``, as `Plan.to_dict` writes it;
            a mapping with ``file`` and any of ``transport``, ``rate``, or just the path of a
            .csv or .json file;
            a plan.
        topology: The network whose hosts send.
        seed: Seed of everything random in the plan.

    Returns:
        The plan; the same arguments give the same plan.

    Raises:
        ConfigError: The spec is unknown, or does not fit the topology.
    """
    if isinstance(spec, Plan):
        return spec.check(topology)
    check_int("seed", seed, 0)
    if isinstance(spec, Path) or (isinstance(spec, str) and spec.endswith(FILE_SUFFIXES)):
        return _from_file({"file": spec}, topology, seed)
    if isinstance(spec, str):
        return _from_pattern({"name": spec}, topology, seed)
    if not isinstance(spec, Mapping):
        raise ConfigError("traffic", spec, "a name, a mapping, a Plan or a file")
    return _from_mapping(spec, topology, seed)


def _from_mapping(spec: Mapping[str, Any], topology: Topology, seed: int) -> Plan:
    if "flows" in spec:
        return Plan.from_dict(spec).check(topology)
    if "file" in spec:
        check_keys(spec, ("file", "transport", "rate"), "traffic")
        return _from_file(spec, topology, seed)
    check_keys(spec, ("name", *_OPTIONS), "traffic")
    return _from_pattern(spec, topology, seed)


def _from_file(spec: Mapping[str, Any], topology: Topology, seed: int) -> Plan:
    if not isinstance(spec["file"], str | Path):
        raise ConfigError("traffic.file", spec["file"], "the path of a .csv or .json file")
    plan = Plan.load(spec["file"], seed)
    hosts = _resolve_addresses(plan, topology)
    changes = _options(spec) if "transport" in spec or "rate" in spec else {}
    line_rate_bps = _line_rates_bps(topology)
    flows = []
    for flow in plan.flows:
        src, dst = hosts.get(flow.src, flow.src), hosts.get(flow.dst, flow.dst)
        changed: dict[str, Any] = dict(changes)
        if changes.get("transport") == "udp" and flow.rate_bps is None:
            changed.setdefault("rate_bps", line_rate_bps.get(src))
        flows.append(replace(flow, src=src, dst=dst, **changed))
    return Plan(plan.name, plan.seed, flows).check(topology)


def _resolve_addresses(plan: Plan, topology: Topology) -> dict[str, str]:
    """Map the IPv4 addresses that a file uses for hosts to names.

    Iroko's files hold the addresses of its own numbering, which sort in the order of the hosts.
    """
    names = [host.name for host in topology.hosts]
    ours = {topology.ip(name): name for name in names}
    used = {end for flow in plan.flows for end in (flow.src, flow.dst)}
    foreign = sorted(filter(_is_address, used - ours.keys()), key=IPv4Address)
    if not foreign:
        return ours
    if len(foreign) != len(names):
        allowed = f"host names, or the addresses of all {len(names)} hosts of {topology.name}"
        raise ConfigError("flow.src", foreign[0], allowed)
    return dict(zip(foreign, names, strict=True))


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def _line_rates_bps(topology: Topology) -> dict[str, int]:
    return {port.node: port.rate_bps for port in topology.host_ports}


def _from_pattern(spec: Mapping[str, Any], topology: Topology, seed: int) -> Plan:
    pattern = _pattern(spec.get("name"))
    options = _options(spec)
    hosts = [host.name for host in topology.hosts]
    line_rate_bps = _line_rates_bps(topology)
    flows = []
    for src, dst in pattern(hosts, np.random.default_rng(seed)):
        rate_bps = options.get("rate_bps")
        if options["transport"] == "udp" and rate_bps is None:
            rate_bps = line_rate_bps[src]
        flows.append(Flow(src, dst, **{**options, "rate_bps": rate_bps}))
    return Plan(str(spec["name"]), seed, tuple(flows)).check(topology)


def _pattern(name: object) -> patterns.Pattern:
    if isinstance(name, str):
        if name in PLANS:
            return PLANS[name]
        match = _STRIDE.fullmatch(name)
        if match is not None:
            return patterns.stride(int(match[1]))
    allowed = [
        *(known for known in PLANS if known != "stride-1"),
        "stride-N",
        "a .csv or .json file",
    ]
    raise ConfigError("traffic", name, allowed, suggest(name, PLANS))


def _options(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Translate what a user writes into fields of Flow; absent ones keep Flow's defaults."""
    by_name = "udp" if spec.get("name") == "pairs-udp" else "tcp"
    options: dict[str, Any] = {
        "transport": check_in("traffic.transport", spec.get("transport", by_name), TRANSPORTS)
    }
    readers = (
        ("rate", "rate_bps", parse_rate),
        ("size", "size_bytes", parse_size),
        ("duration", "duration_ns", parse_duration),
        ("start", "start_ns", parse_duration),
        ("gap", "gap_ns", parse_duration),
    )
    for name, field, parse in readers:
        if spec.get(name) is not None:
            options[field] = parse(spec[name], f"traffic.{name}")
    if "repetitions" in spec:
        options["repetitions"] = check_int("traffic.repetitions", spec["repetitions"], 0)
    return options
