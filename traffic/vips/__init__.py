"""Traffic of virtual addresses (VIPs) over racks: tables, calls, synthetic traces, files."""

from dcgym.traffic.vips.files import read_vips, write_vips
from dcgym.traffic.vips.services import ServiceGraph, draw_services, read_services
from dcgym.traffic.vips.synthetic import SyntheticVips
from dcgym.traffic.vips.table import INTERNET, VipTable

__all__ = [
    "INTERNET",
    "ServiceGraph",
    "SyntheticVips",
    "VipTable",
    "draw_services",
    "read_services",
    "read_vips",
    "write_vips",
]
