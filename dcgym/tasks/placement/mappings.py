"""Local and residual mappings of VIPs, as in Rubik (R. Gandhi et al., USENIX ATC 2015).

A rack's switch may hold a local mapping of a VIP: some of the VIP's DIPs in that rack, which serve
all of what the rack sends to it. One switch anywhere, or the muxes, hold the residual mapping: all
other DIPs, for all other sources. A DIP is in one mapping only. Local traffic crosses no link.
"""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int, check_number, check_range, read_numbers
from dcgym.defaults import DefaultNumber
from dcgym.errors import ConfigError
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.traffic.vips import ServiceGraph, VipTable

__all__ = ["DipLimits", "LocalMappings", "Residual"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ROUNDING = 1e-9


@dataclass(frozen=True)
class DipLimits:
    """What DIPs may carry, and where they may be.

    DIPs carry what they carry now, so that headroom times load is 1 or more: of the two, a default
    gives way to what was asked for.

    Attributes:
        headroom: What a DIP can serve over what it serves while all DIPs of its VIP share alike.
        load: Share of that which mappings may use; 0.8 in the source.
        vms_per_server: DIPs that a server may hold; in the source 50,000 servers hold 500,000.
        failure_domains: Racks over which the DIPs of a VIP are spread at least, or as many as now
            if these are fewer.
        moves: Share of all DIPs that may move to other racks; 0.01 in the source.
    """

    headroom: float = DefaultNumber(2.5)
    load: float = DefaultNumber(0.8)
    vms_per_server: int = 10
    failure_domains: int = 2
    moves: float = 0.01

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_range("load", self.load, 0.01, 1.0)
        if check_number("headroom", self.headroom) * self.load < 1 and not self._give_way():
            allowed = f"{1 / self.load:g} or more, so that DIPs carry what they carry now"
            raise ConfigError("headroom", self.headroom, allowed)
        check_int("vms_per_server", self.vms_per_server, 1)
        check_int("failure_domains", self.failure_domains, 1)
        check_range("moves", self.moves, 0.0, 1.0)

    def _give_way(self) -> bool:
        """Put the least value that goes with the other one in the place of a default, if it can."""
        if isinstance(self.headroom, DefaultNumber):
            object.__setattr__(self, "headroom", _least_beside(self.load))
        elif isinstance(self.load, DefaultNumber) and self.headroom >= 1:
            object.__setattr__(self, "load", _least_beside(self.headroom))
        else:
            return False
        return True


def _least_beside(factor: float) -> float:
    """Return the least number whose product with another one is 1 or more, rounded as it is."""
    found = 1 / factor
    return found if found * factor >= 1 else math.nextafter(found, math.inf)


@dataclass(frozen=True)
class Residual:
    """What is left for residual mappings.

    Attributes:
        table: VIPs that have DIPs left, with what no local mapping serves.
        numbers: Their numbers among all VIPs.
        used: Entries of each switch that local mappings hold, (S,).
        local_bps: Traffic of local mappings.
    """

    table: VipTable
    numbers: IntArray
    used: npt.NDArray[np.uint32]
    local_bps: float


class LocalMappings:
    """DIPs of all VIPs, and their local mappings, as decisions change them.

    Args:
        data_centre: Racks, servers, tables.
        services: VIPs, their DIPs at the beginning, and their calls.
        limits: What DIPs may carry, and where they may be.

    Attributes:
        dips: Of each VIP, the DIPs in each rack.
        local: Of each VIP, those of them in a local mapping.
        free_entries: Entries for DIPs that the switch of each rack has left, (R,).
        free_slots: DIPs that each rack can take in addition, (R,).
        moves_left: DIPs that may still move.
        moved: DIPs that have moved.
        dip_bps: What a DIP of each VIP may carry, (V,).

    Raises:
        ConfigError: VIPs are in racks that the data centre does not have.
    """

    def __init__(self, data_centre: DataCentre, services: ServiceGraph, limits: DipLimits) -> None:
        table = services.table
        table.check(data_centre.n_racks)
        self.data_centre, self.services, self.limits = data_centre, services, limits
        starts = table.dip_start.astype(np.int64).tolist()
        racks, counts = table.dip_rack.tolist(), table.dip_count.tolist()
        self.dips: list[dict[int, int]] = [
            dict(zip(racks[first:last], counts[first:last], strict=True))
            for first, last in itertools.pairwise(starts)
        ]
        self.local: list[dict[int, int]] = [{} for _ in range(len(table))]
        self.free_entries: IntArray = np.full(data_centre.n_racks, data_centre.switch_entries)
        slots = data_centre.servers_per_rack * limits.vms_per_server
        held = np.bincount(table.dip_rack, table.dip_count, data_centre.n_racks).astype(np.int64)
        # A rack that holds more than it should takes no more.
        self.free_slots: IntArray = np.maximum(slots - held, 0)
        self.moves_left = math.floor(limits.moves * float(table.dips.sum()) + ROUNDING)
        self.moved = 0
        self.n_dips = table.dips
        # By level: a VIP's DIPs change what VIPs of higher levels get, and nothing else.
        self._served: list[dict[int, FloatArray]] = [{} for _ in services.levels()]
        self.dip_bps: FloatArray = limits.headroom * limits.load * services.bps / self.n_dips

    def __deepcopy__(self, memo: dict[int, object]) -> LocalMappings:
        """Return a second state that goes on from here."""
        made = memo[id(self)] = copy.copy(self)
        made.dips, made.local = [dict(one) for one in self.dips], [dict(one) for one in self.local]
        made._served = [dict(one) for one in self._served]
        made.free_entries, made.free_slots = self.free_entries.copy(), self.free_slots.copy()
        return made

    def demand(self, vip: int) -> FloatArray:
        """Return what each rack sends to a VIP, (R,), with DIPs of its callers where they are now.

        Args:
            vip: Its number.
        """
        services, table = self.services, self.services.table
        made = np.zeros(self.data_centre.n_racks)
        first, last = int(table.source_start[vip]), int(table.source_start[vip + 1])
        made[table.source_rack[first:last]] = table.source_bps[first:last]
        for call in services.calls_of(vip).tolist():
            made += services.call_bps[call] * self.served(int(services.caller[call]))
        return made

    def served(self, vip: int) -> FloatArray:
        """Return which part of a VIP's traffic the DIPs of each rack serve, (R,).

        Args:
            vip: Its number.
        """
        known = self._served[int(self.services.level[vip])]
        if vip not in known:
            known[vip] = self._share(vip)
        return known[vip]

    def residual_dips(self, vip: int) -> dict[int, int]:
        """Return the DIPs in each rack that are in no local mapping, racks with any.

        Args:
            vip: Number of the VIP.
        """
        local = self.local[vip]
        if not local:
            return self.dips[vip]
        left = {rack: count - local.get(rack, 0) for rack, count in self.dips[vip].items()}
        return {rack: count for rack, count in left.items() if count}

    def dips_for(self, vip: int, bps: float) -> int:
        """Return the DIPs of a VIP that carry a rate, 1 or more.

        Args:
            vip: Its number.
            bps: The rate.
        """
        return max(1, math.ceil(bps / float(self.dip_bps[vip]) - ROUNDING))

    def least_racks(self, vip: int) -> int:
        """Return the racks over which the DIPs of a VIP are spread at least.

        Args:
            vip: Its number.
        """
        return min(self.limits.failure_domains, len(self.dips[vip]))

    def set_dips(self, vip: int, dips: dict[int, int], local: dict[int, int]) -> None:
        """Put DIPs of a VIP where they shall be, and its local mappings.

        Args:
            vip: Its number.
            dips: DIPs in each rack, as many as before.
            local: Those of them in the rack's local mapping.
        """
        before, mapped = self.dips[vip], self.local[vip]
        for rack in before.keys() | dips.keys():
            arrived = dips.get(rack, 0) - before.get(rack, 0)
            self.free_slots[rack] -= arrived
            self.moved += max(arrived, 0)
            self.moves_left -= max(arrived, 0)
        for rack in mapped.keys() | local.keys():
            self.free_entries[rack] -= local.get(rack, 0) - mapped.get(rack, 0)
        self.dips[vip] = {rack: count for rack, count in dips.items() if count}
        self.local[vip] = dict(local)
        level = int(self.services.level[vip])
        self._served[level].pop(vip, None)
        for above in self._served[level + 1 :]:
            above.clear()

    def donors(self, vip: int, rack: int, demand: FloatArray) -> dict[int, int] | None:
        """Return DIPs of other racks that a local mapping needs; None where there can be none.

        Racks that send least to the VIP give first, and DIPs stay in as many racks as they must.

        Args:
            vip: Number of the VIP.
            rack: Where the mapping would be.
            demand: What each rack sends, (R,), as `demand` returns it.
        """
        bps = float(demand[rack])
        needed, free = self.dips_for(vip, bps), self.residual_dips(vip)
        arriving = needed - free.get(rack, 0)
        local = self.local[vip]
        left_dips = sum(free.values()) - needed
        if rack in local or bps <= 0 or left_dips < 0 or needed > self.free_entries[rack]:
            return None
        if arriving > min(self.free_slots[rack], self.moves_left):
            return None
        served = float(demand[list(local)].sum()) + bps
        left_bps = max(float(self.services.bps[vip]) - served, 0.0)
        if left_bps > left_dips * self.dip_bps[vip] * (1 + ROUNDING) + ROUNDING:
            return None
        taken, racks = dict[int, int](), self.dips[vip].keys() | {rack}
        n_racks = len(racks)
        for other in sorted(free.keys() - {rack}, key=lambda one: (demand[one], one)):
            give = min(free[other], arriving)
            if give > 0 and give == self.dips[vip][other]:
                give -= n_racks <= self.least_racks(vip)
                n_racks -= give == self.dips[vip][other]
            if give > 0:
                taken[other] = give
                arriving -= give
        return taken if arriving <= 0 else None

    def localise(self, vip: int, rack: int, bps: float, donors: dict[int, int]) -> None:
        """Make a local mapping with DIPs that `donors` found.

        Args:
            vip: Number of the VIP.
            rack: Where.
            bps: What the rack sends.
            donors: DIPs of other racks that move there.
        """
        dips = dict(self.dips[vip])
        for other, count in donors.items():
            dips[other] -= count
            dips[rack] = dips.get(rack, 0) + count
        self.set_dips(vip, dips, {**self.local[vip], rack: self.dips_for(vip, bps)})

    def residual(self) -> Residual:
        """Return what is left for residual mappings."""
        sources: list[dict[int, float]] = []
        dips: list[dict[int, int]] = []
        internet: list[float] = []
        numbers, local_bps = [], 0.0
        for vip in range(len(self.dips)):
            demand = self.demand(vip)
            racks = list(self.local[vip])
            local_bps += float(demand[racks].sum())
            demand[racks] = 0.0
            left = self.residual_dips(vip)
            if not left:
                continue
            numbers.append(vip)
            sending = np.flatnonzero(demand)
            sources.append(dict(zip(sending.tolist(), demand[sending].tolist(), strict=True)))
            dips.append(left)
            internet.append(float(self.services.table.internet_bps[vip]))
        centre = self.data_centre
        used = np.zeros(centre.n_switches, np.uint32)
        used[: centre.n_racks] = centre.switch_entries - self.free_entries
        if not numbers:
            # Everything is local; a table cannot be empty.
            return Residual(VipTable.of([{}], [{0: 1}]), np.zeros(1, np.int64), used, local_bps)
        table = VipTable.of(sources, dips, internet)
        return Residual(table, np.array(numbers, np.int64), used, local_bps)

    def dip_loads(self) -> FloatArray:
        """Return the utilisation of each VIP's most loaded mapping, of what a DIP can serve, (V,).

        The source limits it to `DipLimits.load`.
        """
        made = np.zeros(len(self.dips))
        for vip, local in enumerate(self.local):
            total = float(self.services.bps[vip])
            if total <= 0:
                continue
            demand = self.demand(vip) if local else np.zeros(1)
            loads = [float(demand[rack]) / count for rack, count in local.items()]
            n_residual = sum(self.residual_dips(vip).values())
            if n_residual:
                left = max(total - sum(float(demand[rack]) for rack in local), 0.0)
                loads.append(left / n_residual)
            made[vip] = max(loads) / (self.dip_bps[vip] / self.limits.load)
        return made

    def _share(self, vip: int) -> FloatArray:
        dips = self.dips[vip]
        made, total = np.zeros(self.data_centre.n_racks), float(self.services.bps[vip])
        if not self.local[vip] or total <= 0:
            made[list(dips)] = np.array(list(dips.values())) / self.n_dips[vip]
            return made
        demand, racks = self.demand(vip), list(self.local[vip])
        left = max(total - float(demand[racks].sum()), 0.0)  # rounding
        residual = self.residual_dips(vip)
        n_residual = sum(residual.values())
        if n_residual:
            made[list(residual)] = np.array(list(residual.values())) * (left / n_residual)
        made[racks] += demand[racks]
        return made / total
