"""The environment's side of a running pod whose servers have devices."""

from __future__ import annotations

import mmap
import os

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.devices.agent_costs import AgentCosts
from dcgym.backends.emulation.devices.stations import Stations
from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.pod import BUILD_DEADLINE_S, RunningPod
from dcgym.backends.emulation.session.process import pid_of
from dcgym.backends.emulation.wire.device_messages import (
    AGENT_DTYPE,
    BuildDevicePod,
    DevicePodBuilt,
)
from dcgym.backends.emulation.wire.message import Descriptor
from dcgym.backends.emulation.wire.messages import PodBuilt
from dcgym.errors import BackendError
from dcgym.monitors.balancer.devices import DEVICE_BLOCK, DeviceBlock
from dcgym.native import require

__all__ = ["DevicePod"]


class DevicePod(RunningPod):
    """One emulated pod of stations, of use until its session is closed.

    Args:
        stations: The stations.
        options: How its balancer works.

    Attributes:
        policy: Writes rules, members and weights of devices.
        block: What the balancer knows of the devices.
        costs: What the agents cost; of none without agents.
    """

    def __init__(self, stations: Stations, options: PoolOptions) -> None:
        self._stations = stations
        super().__init__(stations.topology(), stations.scenario(), options)

    def _configured(self) -> npt.NDArray[np.float64]:
        return np.array([group.configured_weight for group in self._stations.pool.servers])

    def _build(self, rows_fd: int) -> PodBuilt:
        stations, agents = self._stations, self._stations.agents()
        shown_fd = os.memfd_create("dcgym-agents", os.MFD_CLOEXEC)
        self.session.own(shown_fd)
        os.ftruncate(shown_fd, len(stations.homes) * AGENT_DTYPE.itemsize)
        self._agent_map = mmap.mmap(shown_fd, 0, prot=mmap.PROT_READ)
        request = BuildDevicePod(
            topology=self._topology.to_dict(),
            scenario=self._scenario.to_dict(),
            server_rows=Descriptor(rows_fd),
            consistency=self._options.consistency,
            hook=self._options.hook,
            program={},
            stations=tuple(server.to_dict() for server in stations.servers()),
            devices=stations.counts,
            agents={} if agents is None else agents.to_dict(),
            agent_rows=Descriptor(shown_fd),
        )
        return self.session.call(request, DevicePodBuilt, BUILD_DEADLINE_S)

    def _attach(self, rows_fd: int, built: PodBuilt) -> None:
        super()._attach(rows_fd, built)
        if not isinstance(built, DevicePodBuilt):
            raise BackendError(f"a pod of devices was answered by {type(built).__name__}")
        self.policy = require().BalancerDevices(built.device_map, 1)
        memory = mmap.mmap(built.device_map, DEVICE_BLOCK.itemsize, prot=mmap.PROT_READ)
        self.block = DeviceBlock(memory)
        self.costs = AgentCosts(self._agent_map, [pid_of(fd) for fd in built.agents])
        for (server, device), pidfd in zip(self._stations.homes, built.agents, strict=False):
            self.session.watch(pidfd, f"agent of device {device} of server {server}")
