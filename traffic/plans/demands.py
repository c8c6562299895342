"""Traffic of demand matrices over time, as SNDlib publishes them: one file an interval."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dcgym.config import check_in, check_positive
from dcgym.errors import ConfigError
from dcgym.reading import reading
from dcgym.sndlib import SndlibDemand, SndlibNetwork, read_sndlib, to_bps
from dcgym.traffic.plans.options import (
    DEFAULT_DURATION,
    MOST_FLOWS,
    Spec,
    make_records,
    read_time,
)
from dcgym.traffic.plans.records import TRANSPORTS, Records
from dcgym.traffic.sizes.draws import Draws
from dcgym.units import NS_PER_S, parse_duration

if TYPE_CHECKING:
    from dcgym.topologies import Topology

__all__ = ["OPTIONS", "demand_matrices"]

OPTIONS = ("file", "scale", "interval", "transport", "start")
"""What a spec of demand matrices may hold besides its name."""

LEAST_BPS = 8
"""A demand below a byte a second makes no flow: the kernel paces in whole bytes a second, and takes
0 for no limit."""

_SUFFIXES = (".txt", ".xml")
_TIME = "%Y%m%d-%H%M"

Matrix = tuple[Path, SndlibNetwork]


def demand_matrices(spec: Spec, topology: Topology, draws: Draws) -> Records:
    """Compile the demands of a file, or of a folder of files, each for its interval.

    Each demand is a flow at its rate from the host of one node to that of the other, for the whole
    interval. Paths and hop limits of a file restrict what a planner may choose; the network routes
    as it does.

    Args:
        spec: ``file`` (a network file of SNDlib, or a folder of them), ``scale`` (a factor on the
            rates), ``interval`` (how long a matrix lasts in the plan: the granularity of the file
            if not given, 60 s if there is none); further any of `OPTIONS`.
        topology: The network. Where the nodes of the file are names of hosts, they are those;
            otherwise the first node is the first host, and so on.
        draws: Random numbers, of which none is used.

    Returns:
        The flows, in the order of time and of the files. Times that no file is of are silent.

    Raises:
        ConfigError: A file cannot be read, the files do not fit together, or the nodes do not fit
            the network.
    """
    matrices = _read(spec.get("file"))
    scale = check_positive("traffic.scale", spec.get("scale", 1.0))
    transport = str(check_in("traffic.transport", spec.get("transport", "tcp"), TRANSPORTS))
    slots, interval_ns = _slots(matrices), _interval_ns(spec, matrices[0])
    hosts = _hosts(matrices[0], topology)
    pairs, rates_bps, starts = [], [], []
    for (_, matrix), slot in zip(matrices, slots, strict=True):
        unit_bps = matrix.unit_bps
        for demand in matrix.demands:
            rate_bps = to_bps(demand.value, unit_bps * demand.routing_unit, scale)
            if rate_bps >= LEAST_BPS:
                pairs.append(_pair(demand, hosts))
                rates_bps.append(rate_bps)
                starts.append(slot)
        if len(pairs) > MOST_FLOWS:
            allowed = f"a plan of at most {MOST_FLOWS} flows, so fewer files"
            raise ConfigError("traffic.file", str(spec["file"]), allowed)
    records = make_records(np.array(pairs, np.int64).reshape(-1, 2))
    records["transport"] = TRANSPORTS.index(transport)
    records["rate_bps"], records["duration_ns"] = rates_bps, interval_ns
    slot_starts_ns = np.array(starts, np.int64) * interval_ns
    records["start_ns"] = read_time(spec, "start") + slot_starts_ns
    return records


def _read(file: object) -> list[Matrix]:
    """Return the matrices in the order of their times."""
    if not isinstance(file, str | Path):
        allowed = "the path of a network file of SNDlib, or of a folder of them"
        raise ConfigError("traffic.file", file, allowed)
    path = Path(file)
    paths = _paths_in(path) if path.is_dir() else [path]
    matrices = [(one, read_sndlib(one, "traffic.file")) for one in paths]
    if len(matrices) > 1:
        matrices.sort(key=_time_s)
        _check_alike(matrices)
    return matrices


def _paths_in(folder: Path) -> list[Path]:
    with reading(folder, "traffic.file", "a folder"):
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    for name in names:
        check_in(f"suffix of {name}", Path(name).suffix, _SUFFIXES)
    if not names:
        raise ConfigError("traffic.file", str(folder), "a folder with network files of SNDlib")
    return [folder / name for name in names]


def _check_alike(matrices: Sequence[Matrix]) -> None:
    path, first = matrices[0]
    names = [node.name for node in first.nodes]
    for other, matrix in matrices[1:]:
        for field in ("unit", "granularity"):
            value, asked = getattr(matrix, field), getattr(first, field)
            if value != asked:
                raise ConfigError(f"{other.name}, {field}", value, f"{asked}, as in {path.name}")
        if [node.name for node in matrix.nodes] != names:
            raise ConfigError(f"{other.name}, nodes", len(matrix.nodes), f"those of {path.name}")


def _time_s(matrix: Matrix) -> int:
    path, network = matrix
    try:
        # The files name no zone; in this one every day has 24 hours.
        moment = datetime.strptime(network.time or "", _TIME).replace(tzinfo=timezone.utc)
    except ValueError:
        allowed = "a time YYYYMMDD-HHMM, by which the files of a folder are in order"
        raise ConfigError(f"{path.name}, time", network.time, allowed) from None
    return int(moment.timestamp())


def _slots(matrices: Sequence[Matrix]) -> list[int]:
    """Return the interval of each matrix, counted from that of the first one."""
    if len(matrices) == 1:
        return [0]
    first = matrices[0][1]
    granularity_ns = _granularity_ns(matrices[0])
    began_s, slots = _time_s(matrices[0]), []
    for number, (other, matrix) in enumerate(matrices):
        passed_ns = (_time_s((other, matrix)) - began_s) * NS_PER_S
        if passed_ns % granularity_ns:
            allowed = f"a multiple of {first.granularity} after {first.time}"
            raise ConfigError(f"{other.name}, time", matrix.time, allowed)
        slots.append(passed_ns // granularity_ns)
        if number and slots[-1] == slots[-2]:
            allowed = f"another time than {matrices[number - 1][0].name}"
            raise ConfigError(f"{other.name}, time", matrix.time, allowed)
    return slots


def _interval_ns(spec: Spec, matrix: Matrix) -> int:
    if "interval" in spec or matrix[1].granularity is None:
        return read_time(spec, "interval", DEFAULT_DURATION, positive=True)
    return _granularity_ns(matrix)


def _granularity_ns(matrix: Matrix) -> int:
    path, network = matrix
    field = f"{path.name}, granularity"
    granularity_ns = parse_duration(network.granularity, field)
    if granularity_ns == 0:
        raise ConfigError(field, network.granularity, "a duration above 0")
    return granularity_ns


def _hosts(matrix: Matrix, topology: Topology) -> dict[str, int]:
    """Return the number of the host of each node."""
    path, network = matrix
    names = [node.name for node in network.nodes]
    known = {host.name: host.index for host in topology.hosts}
    if all(name in known for name in names):
        return {name: known[name] for name in names}
    if len(names) > len(known):
        allowed = f"at most {len(known)}, the hosts of {topology.name}"
        raise ConfigError(f"{path.name}, nodes", len(names), allowed)
    return dict(zip(names, known.values(), strict=False))


def _pair(demand: SndlibDemand, hosts: dict[str, int]) -> tuple[int, int]:
    if demand.source == demand.target:
        raise ConfigError(f"{demand.where}, target", demand.target, "a node other than the source")
    return hosts[demand.source], hosts[demand.target]
