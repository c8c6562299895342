"""Which server, and which device in it, gets the next request: servers with accelerators."""

from dcgym.tasks.accelerators.agents import Agents
from dcgym.tasks.accelerators.connections import ConnectionTable
from dcgym.tasks.accelerators.devices import Device
from dcgym.tasks.accelerators.events import DeviceEvent
from dcgym.tasks.accelerators.pool import AcceleratorPool, DeviceApplication, DeviceGroup
from dcgym.tasks.accelerators.presets import POOL_PRESETS, PoolSpec, make_pool_of_devices
from dcgym.tasks.accelerators.rules import DEVICE_RULES, SERVER_RULES, DeviceRule

__all__ = [
    "DEVICE_RULES",
    "POOL_PRESETS",
    "SERVER_RULES",
    "AcceleratorPool",
    "Agents",
    "ConnectionTable",
    "Device",
    "DeviceApplication",
    "DeviceEvent",
    "DeviceGroup",
    "DeviceRule",
    "PoolSpec",
    "make_pool_of_devices",
]
