"""Plans by name, from a mapping, or from a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dcgym.config import as_name, check_int, check_keys, check_list, check_text
from dcgym.errors import ConfigError
from dcgym.traffic.arrivals import closed_loop, open_loop, recorded
from dcgym.traffic.http import APPLICATIONS
from dcgym.traffic.http.requests import HOURLY
from dcgym.traffic.plans import bulk, demands
from dcgym.traffic.plans.applications import read_apps
from dcgym.traffic.plans.files import is_plan_path
from dcgym.traffic.plans.library import (
    KINDS,
    PLANS,
    TrafficKind,
    expand,
    find_pattern,
    load_unknown,
)
from dcgym.traffic.plans.options import SENDING, Spec, set_sending
from dcgym.traffic.plans.plan import Plan
from dcgym.traffic.plans.records import NONE, Records
from dcgym.traffic.sizes.draws import Draws

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["make_plan"]

KINDS.add("poisson", TrafficKind(open_loop.open_loop, open_loop.OPTIONS))
KINDS.add("closed-loop", TrafficKind(closed_loop.closed_loop, closed_loop.OPTIONS))
KINDS.add("incast-bursts", TrafficKind(open_loop.incast_bursts, open_loop.BURST_OPTIONS))
KINDS.add("recorded", TrafficKind(recorded.recorded, recorded.OPTIONS))
KINDS.add("demand-matrices", TrafficKind(demands.demand_matrices, demands.OPTIONS))


def make_plan(spec: str | Path | Spec | Plan, topology: Topology, seed: int = 0) -> Plan:
    """Make a plan and check it against a topology.

    Args:
        spec: One of
            a name of `PLANS` or `PATTERNS`, or of one of the `FAMILIES`;
            a mapping with that ``name`` and options, which win over those the name stands for
            (``bulk.OPTIONS`` for patterns such as "pairs", the options of its kind for a name of
            `KINDS`, such as "poisson");
            a mapping with ``mix``, a list of specs whose flows are put together;
            a mapping with ``apps``, commands that hosts run instead (see `read_apps`);
            a mapping with ``flows``, as `Plan.to_dict` writes it;
            a mapping with ``file`` and any of ``transport``, ``rate``, or just the path of a
            .csv, .json, .parquet, .cm or .txt file, or of one without a suffix if there is a / in
            it;
            a plan.
        topology: The network whose hosts send.
        seed: Seed of everything random in the plan.

    Returns:
        The plan; the same arguments give the same plan, on every machine.

    Raises:
        ConfigError: The spec is unknown, or does not fit the topology.
    """
    if isinstance(spec, Plan):
        return spec.check(topology)
    seed = check_int("seed", seed, 0)
    if isinstance(spec, Path) or (isinstance(spec, str) and is_plan_path(spec)):
        spec = {"file": spec}
    if isinstance(spec, str):
        spec = {"name": spec}
    if not isinstance(spec, Mapping):
        raise ConfigError("traffic", spec, "a name, a mapping, a Plan or a file")
    return _of_mapping(spec, topology, seed)


def _of_mapping(spec: Spec, topology: Topology, seed: int) -> Plan:
    """Make a plan of a mapping, by the key that says what it is."""
    if "apps" in spec:
        return read_apps(spec, topology, seed)
    if "flows" in spec:
        return Plan.from_dict(spec).check(topology)
    if "file" in spec and "name" not in spec:
        check_keys(spec, ("file", *SENDING), "traffic")
        return _from_file(spec, topology, seed)
    if "mix" in spec:
        return _mix(spec, topology, seed)
    name = check_text("traffic.name", spec.get("name"))
    load_unknown(name)
    if spec.keys() == {"name"} and "mix" in PLANS.get(name, {}):
        return _mix({**PLANS[name], **spec}, topology, seed)
    records = _compile(name, spec, topology, Draws(seed))
    hosts = [host.name for host in topology.hosts]
    return Plan.from_records(name, seed, hosts, records).check(topology)


def _compile(name: str, spec: Spec, topology: Topology, draws: Draws) -> Records:
    """Compile a mapping with a name."""
    load_unknown(name)
    if name in (HOURLY, *APPLICATIONS):
        allowed = (
            "traffic of flows; requests of an application belong to a pool whose scenario names "
            "the application, or to dcgym.traffic.http.make_requests in Python"
        )
        raise ConfigError("traffic", name, allowed)
    written = expand(name)
    full = {**written, **spec, "name": written["name"]}
    # What the user chooses displaces the alternative that the name stands for.
    for chosen, displaced in (("flows_per_s", "load"), ("load", "flows_per_s")):
        if chosen in spec and displaced not in spec:
            full.pop(displaced, None)
    kind = check_text("traffic", written["name"])
    if kind in KINDS:
        check_keys(full, ("name", *KINDS[kind].options), "traffic")
        return KINDS[kind].compile(full, topology, draws)
    pattern = find_pattern(kind)
    if pattern is None:
        raise ConfigError("traffic", name, "a plan whose mapping names a kind or a pattern")
    check_keys(spec, ("name", *bulk.OPTIONS), "traffic")
    return bulk.bulk(pattern, full, topology, draws)


def _mix(spec: Spec, topology: Topology, seed: int) -> Plan:
    """Put the flows of several specs together; each part has streams of its own."""
    check_keys(spec, ("mix", "name"), "traffic")
    parts = check_list("traffic.mix", spec["mix"], "a list of names or mappings")
    if not parts:
        raise ConfigError("traffic.mix", parts, "a list of names or mappings")
    joined: list[Records] = []
    names = []
    first = first_group = 0
    for number, part in enumerate(parts):
        part = {"name": part} if isinstance(part, str) else part
        where = f"traffic.mix[{number}]"
        if not isinstance(part, Mapping) or "name" not in part:
            raise ConfigError(where, part, "a name, or a mapping with a name")
        names.append(check_text(f"{where}.name", part["name"]))
        try:
            records = _compile(names[-1], part, topology, Draws(seed, number))
        except ConfigError as error:
            field = re.sub("^traffic", where, error.field)
            raise ConfigError(field, error.value, error.allowed, error.hint) from error
        records["after"][records["after"] != NONE] += first
        records["group"][records["group"] != 0] += first_group
        first += len(records)
        first_group = int(records["group"].max(initial=first_group))
        joined.append(records)
    hosts = [host.name for host in topology.hosts]
    name = check_text("traffic.name", spec.get("name", as_name("+".join(names))))
    return Plan.from_records(name, seed, hosts, np.concatenate(joined)).check(topology)


def _from_file(spec: Spec, topology: Topology, seed: int) -> Plan:
    file = spec["file"]
    if not isinstance(file, str | Path):
        raise ConfigError("traffic.file", file, "the path of a file with a plan")
    fastest_bps = max(port.rate_bps for port in topology.host_ports)
    plan, where = Plan.read(Path(file), seed, fastest_bps)
    names = _resolve_addresses(plan, topology)
    hosts = [names.get(host, host) for host in plan.hosts]
    records = plan.records
    checked = Plan.from_records(plan.name, plan.seed, hosts, records, where).check(topology, where)
    if "transport" not in spec and "rate" not in spec:
        return checked
    own = [host.name for host in topology.hosts]
    records = checked.to_records(own)
    records["port"] = checked.records["port"]
    _change_sending(records, spec, topology)
    return Plan.from_records(plan.name, plan.seed, own, records, where).check(topology)


def _change_sending(records: Records, spec: Spec, topology: Topology) -> None:
    """Set transport and rate of a file's flows; a rate of the file's own stays without one."""
    own_rates_bps = records["rate_bps"].copy()
    set_sending(records, spec, topology)
    if "rate" not in spec:
        kept = own_rates_bps != NONE
        records["rate_bps"][kept] = own_rates_bps[kept]


def _resolve_addresses(plan: Plan, topology: Topology) -> dict[str, str]:
    """Map the IPv4 addresses that a file uses for hosts to names.

    Iroko's files hold the addresses of its own numbering, which sort in the order of the hosts.
    """
    names = [host.name for host in topology.hosts]
    ours = {topology.ip(name): name for name in names}
    foreign = sorted(filter(_is_address, set(plan.hosts) - ours.keys()), key=IPv4Address)
    if not foreign:
        return ours
    if len(foreign) == len(names):
        return dict(zip(foreign, names, strict=True))
    # A matrix of some hosts only tells by its numbering which of them they are.
    numbered = _iroko_names(topology)
    if unknown := [address for address in foreign if address not in numbered]:
        allowed = (
            f"host names, the addresses of all {len(names)} hosts of {topology.name}, "
            "or Iroko's own: 10.G.0.I is host I of the G-th switch with hosts"
        )
        raise ConfigError("flow.src", unknown[0], allowed)
    return {**ours, **numbered}


def _iroko_names(topology: Topology) -> dict[str, str]:
    """Return the host of each address that Iroko would number a network's hosts with."""
    places: dict[str, list[str]] = {}
    for port in topology.host_ports:
        places.setdefault(port.peer, []).append(port.node)
    return {
        f"10.{group}.0.{number}": name
        for group, names in enumerate(places.values(), 1)
        for number, name in enumerate(names, 1)
    }


def _is_address(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True
