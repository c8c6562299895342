"""What a placement backend is told, and what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dcgym.config import check_in, check_int, check_number, read_numbers
from dcgym.errors import ConfigError
from dcgym.tasks.placement.data_centre import DataCentre

__all__ = [
    "CHOICES",
    "COLUMNS",
    "ON_MUXES",
    "AssignmentRule",
    "Candidates",
    "Evaluation",
    "Failures",
    "Places",
    "Transition",
    "Usage",
]

FloatArray: TypeAlias = npt.NDArray[np.float64]
Places: TypeAlias = npt.NDArray[np.int32]
"""Switch of each VIP, (V,)."""

ON_MUXES = -1
"""The place of a VIP that is on no switch."""

COLUMNS = (
    "link",
    "memory",
    "hops",
    "mru",
    "own_sources",
    "own_dips",
    "nearby_sources",
    "nearby_dips",
    "tier",
    "scan",
)
"""What is said of each candidate, in this order."""

CHOICES = ("least-mru", "first-feasible", "none")


@dataclass(frozen=True)
class Candidates:
    """Switches among which to choose for one VIP; N candidates.

    Attributes:
        switches: Their numbers, (N,).
        feasible: Whether links and tables allow the VIP, (N,).
        rows: `COLUMNS` of each, (N, 10): largest utilisation of the links that the VIP would use,
            and of the switch's entries, of capacities less the reserve; mean links that its bytes
            cross; largest utilisation of anything in the data centre (Duet's MRU); share of its
            sources and DIPs in the same rack, and in the same container; tier, 0 to 2; place in a
            random order of all switches, 0 to 1.
    """

    switches: npt.NDArray[np.int32]
    feasible: npt.NDArray[np.bool_]
    rows: FloatArray


@dataclass(frozen=True)
class AssignmentRule:
    """How all VIPs are placed at once, the largest first.

    Attributes:
        choice: "least-mru": the switch after which the largest utilisation is least, equals in a
            random order; "first-feasible": the first that fits in a random order; "none": VIPs
            stay where they were if they fit, and no other is placed.
        stops: Whether the first VIP that fits nowhere ends it, as published; else it is left out.
        margin: A VIP stays where it was unless the MRU falls by more than this.
        seed: Seed of random orders.
    """

    choice: str = "least-mru"
    stops: bool = True
    margin: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the fields."""
        read_numbers(self)
        check_in("choice", self.choice, CHOICES)
        if check_number("margin", self.margin) < 0:
            raise ConfigError("margin", self.margin, "0 or more")
        check_int("seed", self.seed, 0)


@dataclass(frozen=True)
class Usage:
    """How full links and tables are, of capacities less the reserve.

    Attributes:
        link_max: Largest utilisation of a link by VIPs on switches.
        link_mean: Mean over all links.
        memory_max: Largest utilisation of a switch's entries.
        placed: VIPs on switches.
        placed_bps: Their traffic.
    """

    link_max: float
    link_mean: float
    memory_max: float
    placed: int
    placed_bps: float


@dataclass(frozen=True)
class Transition:
    """How VIPs moved to other switches: in two waves, over the muxes.

    First every VIP that moves leaves its switch, then each is announced by the next one. No table
    and no link ever holds both, so that their utilisation is at no time above what it is before or
    after (Duet, SIGCOMM 2014, section 4.2).

    Attributes:
        withdrawn: VIPs that left a switch, in order.
        announced: VIPs that a switch then got, in order.
        refused: VIPs that their new switch could not hold, or that is dead: they stay on the muxes.
        link_max: Largest utilisation of a link by VIPs on switches, before, between the waves, and
            the most while VIPs were announced, of what the reserve leaves.
        memory_max: The same of switches' entries.
    """

    withdrawn: tuple[int, ...]
    announced: tuple[int, ...]
    refused: tuple[int, ...]
    link_max: tuple[float, float, float]
    memory_max: tuple[float, float, float]


@dataclass(frozen=True)
class Failures:
    """What is down. VIPs of switches that are down are served by the muxes.

    Attributes:
        switches: Numbers of switches; a rack's takes its servers with it.
        links: Numbers of links, of one direction each.
        mux_racks: Racks whose muxes are down; all racks have as many muxes.
    """

    switches: tuple[int, ...] = ()
    links: tuple[int, ...] = ()
    mux_racks: tuple[int, ...] = ()

    @classmethod
    def container(cls, data_centre: DataCentre, number: int) -> Failures:
        """Return the failure of a whole container.

        Args:
            data_centre: The data centre.
            number: Number of the container.
        """
        return cls(switches=tuple(data_centre.container_switches(number).tolist()))

    @classmethod
    def some_switches(
        cls, data_centre: DataCentre, count: int, generator: np.random.Generator
    ) -> Failures:
        """Return the failure of random switches.

        Args:
            data_centre: The data centre.
            count: How many; Duet's evaluation has three.
            generator: Source of chance.
        """
        count = check_int("count", count, 1, data_centre.n_switches)
        drawn = generator.choice(data_centre.n_switches, count, replace=False)
        return cls(switches=tuple(sorted(drawn.tolist())))

    def check(self, data_centre: DataCentre) -> None:
        """Refuse numbers that the data centre does not have.

        Args:
            data_centre: The data centre.

        Raises:
            ConfigError: There is no such switch, link or rack.
        """
        for name, numbers, limit in (
            ("switches", self.switches, data_centre.n_switches),
            ("links", self.links, data_centre.n_links),
            ("mux_racks", self.mux_racks, data_centre.n_racks),
        ):
            for number in numbers:
                check_int(f"failures.{name}", number, 0, limit - 1)


@dataclass(frozen=True)
class Evaluation:
    """What a whole placement leads to. Utilisations are of line rates.

    Attributes:
        total_bps: Traffic of sources that are there.
        switch_bps: Handled by switches.
        mux_bps: Handled by muxes.
        lost_bps: Of sources that are gone.
        dark_bps: Of VIPs without a DIP or mux that is left.
        unreachable_bps: Without a path.
        link_max: Largest utilisation of a link, muxes' traffic included: the MLU.
        core_bps: Sum over all links to and from core switches.
        container_bps: Sum over all other links.
        hops: Mean links that a byte crosses from source to DIP.
        direct_hops: The same on direct paths.
        direct_core_bps: Sum over core links on direct paths.
        direct_container_bps: Sum over the others on direct paths.
        link_bps: Of each link, (L,).
        by_switch_bps: Handled by each switch, (S,).
    """

    total_bps: float
    switch_bps: float
    mux_bps: float
    lost_bps: float
    dark_bps: float
    unreachable_bps: float
    link_max: float
    core_bps: float
    container_bps: float
    hops: float
    direct_hops: float
    direct_core_bps: float
    direct_container_bps: float
    link_bps: FloatArray = field(repr=False)
    by_switch_bps: FloatArray = field(repr=False)

    @property
    def switch_share(self) -> float:
        """Share of the traffic that switches handle."""
        return self.switch_bps / self.total_bps if self.total_bps > 0 else 0.0

    @property
    def core_detour(self) -> float:
        """Traffic on core links beyond that of direct paths, as a share of the latter."""
        return _beyond(self.core_bps, self.direct_core_bps)

    @property
    def container_detour(self) -> float:
        """Traffic on the other links beyond that of direct paths, as a share of the latter."""
        return _beyond(self.container_bps, self.direct_container_bps)


def _beyond(found: float, direct: float) -> float:
    return found / direct - 1 if direct > 0 else 0.0
