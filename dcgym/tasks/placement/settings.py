"""Arguments of the environments that place VIPs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

import numpy as np

from dcgym.config import check_in, check_int, check_keys, read_arguments
from dcgym.errors import ConfigError
from dcgym.tasks.common.rewards import RewardSpec
from dcgym.tasks.common.settings import Duration, TaskSettings
from dcgym.tasks.placement.data_centre import DataCentre, DataCentreSpec, make_data_centre
from dcgym.tasks.placement.mappings import DipLimits
from dcgym.traffic.vips import (
    ServiceGraph,
    SyntheticVips,
    VipTable,
    draw_services,
    read_services,
    read_vips,
)
from dcgym.units import parse_rate

__all__ = [
    "MIGRATION_ACTIONS",
    "DipPlacementSettings",
    "PlacementSettings",
    "Trace",
    "VipMigrationSettings",
    "VipPlacementSettings",
    "VipSpec",
]

MIGRATION_ACTIONS = ("margin", "vips")
EPOCH_S = 600.0

VipSpec: TypeAlias = str | Path | Mapping[str, object] | VipTable | list[VipTable]
"""Fields of `SyntheticVips`, a file, or tables."""

OF_DATA_CENTRE = ("racks", "servers", "most_dips", "total_bps")


@dataclass(frozen=True)
class Trace:
    """Where the VIPs of an episode come from.

    Attributes:
        synthetic: Draws them anew for each seed; None for `tables`.
        tables: Epochs of a trace that is given.
    """

    synthetic: SyntheticVips | None
    tables: tuple[VipTable, ...] = ()

    def draw(self, seed: int, epochs: int = 1) -> list[VipTable]:
        """Return the epochs of an episode.

        Args:
            seed: Seed: of the draw, or of where in a given trace the episode begins.
            epochs: How many; a given trace begins anew where it ends.
        """
        if self.synthetic is not None:
            return self.synthetic.draw(seed, epochs)
        first = seed % len(self.tables)
        return [self.tables[(first + one) % len(self.tables)] for one in range(epochs)]


@dataclass(frozen=True, kw_only=True)
class PlacementSettings(TaskSettings):
    """What tasks on the VIPs of a data centre are told.

    Attributes:
        data_centre: A name in `DATA_CENTRES`, a mapping, or a `DataCentre`.
        vips: Fields of `SyntheticVips` (`total` as a text such as "300Gbit"), a file as
            `read_vips` reads it, or tables.
        backend: Name of a placement backend, or a function that makes one of a data centre and a
            number of copies.
    """

    drawn_fields = ("vips", "data_centre")

    data_centre: DataCentreSpec = "fat-tree-8"
    vips: VipSpec = field(default_factory=lambda: {"vips": 400, "total": "400Gbit"})
    backend: object = "simulation"

    @property
    def has_end(self) -> bool:
        """Whether every episode ends: after the last VIP or epoch."""
        return True

    def make_data_centre(self) -> DataCentre:
        """Return the data centre.

        Raises:
            ConfigError: It is malformed.
        """
        return make_data_centre(self.data_centre)

    def make_trace(self) -> Trace:
        """Return where the VIPs come from.

        Raises:
            ConfigError: A field or a row is not allowed.
        """
        centre, given = self.make_data_centre(), self.vips
        if isinstance(given, Mapping):
            return Trace(_synthetic(centre, given))
        if isinstance(given, str | Path):
            tables = _read(str(given))
        elif isinstance(given, VipTable):
            tables = (given,)
        elif isinstance(given, list | tuple) and given and all(map(_is_table, given)):
            tables = tuple(given)
        else:
            allowed = "a mapping of SyntheticVips's fields, a .csv or .parquet file, or tables"
            raise ConfigError("vips", given, allowed)
        for table in tables:
            table.check(centre.n_racks)
        if len({len(table) for table in tables}) > 1:
            raise ConfigError("vips", [len(table) for table in tables], "as many in each epoch")
        return Trace(None, tables)


@dataclass(frozen=True, kw_only=True)
class VipPlacementSettings(PlacementSettings):
    """What `dcgym/VipPlacement-v0` is told.

    Attributes:
        candidates: Switches among which the agent chooses; None for all of them.
        reward: A term, a list of terms, or a mapping term to weight.
        interval: None: a step is a VIP, and takes no time.
    """

    candidates: int | None = 16
    reward: RewardSpec = field(
        default_factory=lambda: {"placed": 1.0, "mru": 0.1, "infeasible": 0.01}
    )
    interval: Duration | None = None

    def __post_init__(self) -> None:
        """Check what needs no data centre."""
        super().__post_init__()
        if self.candidates is not None:
            check_int("candidates", self.candidates, 1, 4096)
        _check_no_interval(self.interval, "a VIP")

    def mean_interval(self) -> Duration:
        """Return 1 s: suites count a VIP as a second."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class DipPlacementSettings(PlacementSettings):
    """What `dcgym/DipPlacement-v0` is told.

    Attributes:
        candidates: Racks among which the agent chooses, those that send most first.
        dips: Fields of `DipLimits`, such as ``{"moves": 0.1}``.
        reward: A term, a list of terms, or a mapping term to weight.
        interval: None: a step is a decision, and takes no time.
    """

    vips: VipSpec | ServiceGraph = field(  # type: ignore[assignment]
        default_factory=lambda: {"vips": 100, "total": "400Gbit"}
    )
    candidates: int = 8
    dips: Mapping[str, object] = field(default_factory=dict)
    reward: RewardSpec = field(
        default_factory=lambda: {"local": 1.0, "mlu": 0.5, "infeasible": 0.01}
    )
    interval: Duration | None = None

    def __post_init__(self) -> None:
        """Check what needs no data centre."""
        super().__post_init__()
        check_int("candidates", self.candidates, 1, 4096)
        self.make_limits()
        _check_no_interval(self.interval, "a decision")

    def make_limits(self) -> DipLimits:
        """Return what DIPs may carry and where they may be.

        Raises:
            ConfigError: A field is not allowed.
        """
        known = [one.name for one in fields(DipLimits)]
        return DipLimits(**read_arguments(DipLimits, check_keys(self.dips, known, "dips")))

    def make_services(self, seed: int) -> ServiceGraph:
        """Return VIPs and their calls.

        Args:
            seed: Seed of the draw, or of where in a given trace the episode begins.

        Raises:
            ConfigError: A field or a row is not allowed.
        """
        if isinstance(self.vips, ServiceGraph):
            self.vips.table.check(self.make_data_centre().n_racks)
            return self.vips
        if isinstance(self.vips, str | Path):
            made = _read_services(str(self.vips))
            made.table.check(self.make_data_centre().n_racks)
            return made
        trace = self.make_trace()
        table = trace.draw(seed)[0]
        if trace.synthetic is not None:
            return draw_services(table, seed)
        nobody = np.empty(0, np.int64)
        return ServiceGraph(table, nobody, nobody, np.empty(0))

    def mean_interval(self) -> Duration:
        """Return 1 s: suites count a decision as a second."""
        return 1.0


@dataclass(frozen=True, kw_only=True)
class VipMigrationSettings(PlacementSettings):
    """What `dcgym/VipMigration-v0` is told.

    Attributes:
        epochs: Epochs of ten minutes that an episode has after the first assignment.
        action: "margin": how much the MRU must fall for a VIP to move; "vips": who moves.
        candidates: VIPs that are shown, and among which "vips" chooses.
        reward: A term, a list of terms, or a mapping term to weight.
        interval: None: a step is an epoch.
    """

    epochs: int = 17
    action: str = "margin"
    candidates: int = 16
    reward: RewardSpec = field(
        default_factory=lambda: {"switches": 1.0, "moved": 0.2, "infeasible": 0.01}
    )
    interval: Duration | None = None

    def __post_init__(self) -> None:
        """Check what needs no data centre."""
        super().__post_init__()
        check_int("epochs", self.epochs, 1)
        check_in("action", self.action, MIGRATION_ACTIONS)
        check_int("candidates", self.candidates, 1, 4096)
        _check_no_interval(self.interval, "an epoch of ten minutes")

    def mean_interval(self) -> Duration:
        """Return 600 s: an epoch."""
        return EPOCH_S


def _is_table(given: object) -> bool:
    return isinstance(given, VipTable)


def _check_no_interval(interval: Duration | None, step: str) -> None:
    if interval is not None:
        raise ConfigError("interval", interval, f"None: a step is {step}")


def _synthetic(centre: DataCentre, given: Mapping[str, object]) -> SyntheticVips:
    """Return the traces of a mapping; what it leaves out is the data centre's."""
    known = [one.name for one in fields(SyntheticVips) if one.name not in OF_DATA_CENTRE]
    own = dict(check_keys(given, [*known, "total"], "vips"))
    # As Duet's data centre moves 10 Tbit/s over links of 64 Tbit/s between racks and containers.
    total_bps = centre.n_racks * centre.aggs * centre.rack_bps * 10 / 64
    if "total" in own:
        total_bps = parse_rate(own.pop("total"), "vips.total")
    return SyntheticVips(
        racks=centre.n_racks,
        servers=centre.n_servers,
        most_dips=max(2, centre.switch_entries),
        total_bps=float(total_bps),
        **read_arguments(SyntheticVips, own),
    )


@lru_cache(maxsize=4)
def _read(path: str) -> tuple[VipTable, ...]:
    return tuple(read_vips(path))


@lru_cache(maxsize=4)
def _read_services(path: str) -> ServiceGraph:
    return read_services(path)
