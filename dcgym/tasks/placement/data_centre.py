"""Data centres of containers: switches that can hold VIPs, their links and tables.

Each rack's switch has a link to every aggregation switch of its container. Aggregation switch a of
every container has one to each core switch of group a. With as many racks as aggregation switches
in a container, and so on, that is a fat-tree (Al-Fares et al., SIGCOMM 2008).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, check_keys, check_range, read_arguments, read_numbers
from dcgym.errors import ConfigError
from dcgym.registry import Registry
from dcgym.units import parse_rate

__all__ = ["DATA_CENTRES", "DataCentre", "DataCentreSpec", "fat_tree", "make_data_centre"]

MOST_SWITCHES = 20_000
RATES = ("rack_rate", "core_rate", "mux_rate")


@dataclass(frozen=True)
class DataCentre:
    """Switches, links, tables and muxes.

    Switches are numbered racks first, then aggregation switches by container, then core switches
    by group. Links have a direction and are numbered in four blocks: rack to aggregation, back,
    aggregation to core, back.

    Attributes:
        containers: Number of containers C.
        racks_per_container: Racks, each with one switch.
        aggs: Aggregation switches of a container A.
        cores_per_agg: Core switches that each of them reaches G; there are A x G.
        rack_bps: Rate of a link between a rack and an aggregation switch.
        core_bps: Rate of a link between an aggregation switch and a core switch.
        servers_per_rack: Servers of a rack.
        ecmp_entries: Entries of a switch's ECMP table, one for a DIP.
        tunnel_entries: Entries of its tunnelling table, one for a DIP.
        host_entries: Entries of a switch's host table: VIPs on switches, of the data centre, as
            the route of each is in every switch.
        reserve: Share of each link that VIPs leave free, for failures and migrations.
        mux_bps: What a software mux forwards at most.
    """

    containers: int
    racks_per_container: int
    aggs: int
    cores_per_agg: int
    rack_bps: int = 10_000_000_000
    core_bps: int = 10_000_000_000
    servers_per_rack: int = 31
    ecmp_entries: int = 4096
    tunnel_entries: int = 512
    host_entries: int = 16_384
    reserve: float = 0.2
    mux_bps: int = 3_600_000_000

    def __post_init__(self) -> None:
        """Check the numbers."""
        read_numbers(self)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "reserve":
                check_range("data_centre.reserve", value, 0.0, 0.99)
            else:
                check_int(f"data_centre.{field.name}", value, 1)
        if self.n_switches > MOST_SWITCHES:
            raise ConfigError("data_centre", f"{self.n_switches} switches", f"{MOST_SWITCHES}")

    @property
    def n_racks(self) -> int:
        """Number of racks R."""
        return self.containers * self.racks_per_container

    @property
    def n_switches(self) -> int:
        """Number of switches S."""
        return self.n_racks + self.containers * self.aggs + self.aggs * self.cores_per_agg

    @property
    def n_links(self) -> int:
        """Number of links in both directions L."""
        return 2 * self.aggs * (self.n_racks + self.containers * self.cores_per_agg)

    @property
    def n_servers(self) -> int:
        """Number of servers."""
        return self.n_racks * self.servers_per_rack

    @property
    def switch_entries(self) -> int:
        """DIPs that one switch can hold: the least of its two tables."""
        return min(self.ecmp_entries, self.tunnel_entries)

    @property
    def is_core_link(self) -> npt.NDArray[np.bool_]:
        """Which links lead to a core switch or from one, (L,)."""
        return np.arange(self.n_links) >= 2 * self.aggs * self.n_racks

    @property
    def link_bps(self) -> npt.NDArray[np.float64]:
        """Rate of each link, (L,)."""
        rates: npt.NDArray[np.float64] = np.where(
            self.is_core_link, float(self.core_bps), float(self.rack_bps)
        )
        return rates

    @property
    def link_ends(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The lower and the upper switch of each link, (L,) each."""
        racks, aggs, cores = self.n_racks, self.aggs, self.cores_per_agg
        rack, index = np.divmod(np.arange(racks * aggs), aggs)
        above = racks + rack // self.racks_per_container * aggs + index
        agg, core = np.divmod(np.arange(self.containers * aggs * cores), cores)
        top = racks + self.containers * aggs + agg % aggs * cores + core
        lower = np.concatenate([rack, rack, agg + racks, agg + racks])
        return lower, np.concatenate([above, above, top, top])

    def container_switches(self, container: int) -> npt.NDArray[np.int64]:
        """Return the switches of a container: its racks and aggregation switches.

        Args:
            container: Its number.
        """
        container = check_int("container", container, 0, self.containers - 1)
        racks = np.arange(self.racks_per_container) + container * self.racks_per_container
        aggs = np.arange(self.aggs) + self.n_racks + container * self.aggs
        return np.concatenate([racks, aggs])

    def name_of(self, switch: int) -> str:
        """Return the name of a switch: "rack3", "agg1.0" or "core5".

        Args:
            switch: Its number.
        """
        switch = check_int("switch", switch, 0, self.n_switches - 1)
        if switch < self.n_racks:
            return f"rack{switch}"
        above = switch - self.n_racks
        if above < self.containers * self.aggs:
            return f"agg{above // self.aggs}.{above % self.aggs}"
        return f"core{above - self.containers * self.aggs}"


DataCentreSpec: TypeAlias = str | Mapping[str, object] | DataCentre
"""What `make_data_centre` takes."""


def fat_tree(k: int) -> DataCentre:
    """Return a k-ary fat-tree: k containers of k/2 racks and k/2 aggregation switches.

    Args:
        k: Ports of a switch, even.

    Raises:
        ConfigError: The number is not allowed.
    """
    k = check_int("k", k, 2, 64)
    if k % 2:
        raise ConfigError("k", k, "an even number")
    return DataCentre(k, k // 2, k // 2, k // 2)


DATA_CENTRES: Registry[DataCentre] = Registry("data centres", "data_centre")
"""Data centres by name."""

DATA_CENTRES.add(
    "duet",
    DataCentre(40, 40, 4, 10, core_bps=40_000_000_000),
    "Duet's: 40 containers of 40 racks, 1800 switches, 50,000 servers",
)
DATA_CENTRES.add(
    "duet-10",
    DataCentre(2, 2, 2, 1, servers_per_rack=15),
    "Duet's testbed: 2 containers, 10 switches, 60 servers",
)
DATA_CENTRES.add(
    "rubik-20",
    replace(fat_tree(4), servers_per_rack=2),
    "Rubik's testbed: a fat-tree with k = 4, 20 switches",
)
DATA_CENTRES.add("fat-tree-8", fat_tree(8), "a fat-tree with k = 8: 32 racks, 80 switches")
DATA_CENTRES.add("fat-tree-16", fat_tree(16), "a fat-tree with k = 16: 128 racks, 320 switches")


def make_data_centre(spec: DataCentreSpec) -> DataCentre:
    """Build a data centre from whatever a configuration holds.

    Args:
        spec: A name; a mapping of ``preset`` and fields that differ, with ``rack_rate``,
            ``core_rate`` and ``mux_rate`` as texts such as "10Gbit"; or a data centre.

    Raises:
        ConfigError: Unknown name or field, or a value that is not allowed.
    """
    if isinstance(spec, DataCentre):
        return spec
    if isinstance(spec, str):
        return DATA_CENTRES.find(spec)
    known = [field.name for field in fields(DataCentre)]
    given = dict(check_keys(spec, ["preset", *known, *RATES], "data_centre"))
    base = DATA_CENTRES.find(given.pop("preset", "fat-tree-8"), "data_centre.preset")
    for name in RATES:
        if name in given:
            rate_bps = parse_rate(given.pop(name), f"data_centre.{name}")
            given[f"{name.removesuffix('_rate')}_bps"] = rate_bps
    return replace(base, **read_arguments(DataCentre, given))
