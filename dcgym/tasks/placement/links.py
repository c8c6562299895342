"""Data centres and VIPs in their native form, and the least that links must carry."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dcgym.native import require
from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.traffic.vips import VipTable

__all__ = ["ideal_link_bps", "native_fabric", "native_vips"]


def ideal_link_bps(
    data_centre: DataCentre, table: VipTable, is_closest: bool
) -> npt.NDArray[np.float64]:
    """Return the load of each link, (L,), where no byte makes a detour (Rubik's bounds).

    Args:
        data_centre: The data centre.
        table: The VIPs of an epoch.
        is_closest: Whether each source is served by the closest DIPs; else by all alike.

    Raises:
        FeatureNotSupported: The native module was not built.
    """
    table.check(data_centre.n_racks)
    loads: npt.NDArray[np.float64] = require("_placement").ideal(
        native_fabric(data_centre), native_vips(table), is_closest
    )
    return loads


def native_fabric(centre: DataCentre) -> object:
    """Return the native form of a data centre."""
    return require("_placement").Fabric(
        centre.containers,
        centre.racks_per_container,
        centre.aggs,
        centre.cores_per_agg,
        centre.rack_bps,
        centre.core_bps,
    )


def native_vips(table: VipTable) -> object:
    """Return the native form of a table of VIPs."""
    return require("_placement").Vips(
        table.source_start,
        table.source_rack,
        table.source_bps,
        table.internet_bps,
        table.dip_start,
        table.dip_rack,
        table.dip_count,
    )
