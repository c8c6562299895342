"""The environment's side of an emulated pod: its process, and the memory shared with it."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.audit.machine_load import pid_of
from dcgym.backends.emulation.pool.features import PoolFeatures, PoolWriter
from dcgym.backends.emulation.process import EmulatorProcess, has_ended
from dcgym.errors import BackendError
from dcgym.native import require
from dcgym.tasks.balancing import Scenario
from dcgym.topologies import Topology
from dcgym.traffic.generators.generator import GeneratorView
from dcgym.traffic.http import REQUEST_DTYPE, RequestKind, RequestPlan, RequestResults, ServerRows

__all__ = ["PodProcess"]

BUILD_DEADLINE_S = 120.0


class PodProcess:
    """One emulated pod: a process tree that ends with this object.

    Args:
        topology: Made by `dcgym.topologies.builders.pod` for the scenario.
        scenario: What runs in it.

    Attributes:
        writers: The pool of each balancer.
        features: What the balancers measured.
        rows: The true states of the servers.

    Raises:
        FeatureNotSupported: Not root, or something is not installed.
        BackendError: The build failed.
    """

    def __init__(self, topology: Topology, scenario: Scenario) -> None:
        self._fds: list[int] = []
        self._topology, self._scenario = topology, scenario
        self.process: EmulatorProcess | None = EmulatorProcess()
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        n_servers, n_balancers = self._scenario.n_servers, self._scenario.balancers
        # Not any memory: the servers' BPF programs read it too.
        rows_fd = require().create_load_map(n_servers)
        self._fds.append(rows_fd)
        answer, fds = self.call(
            "build_pod",
            deadline_s=BUILD_DEADLINE_S,
            fds=(rows_fd,),
            topology=self._topology.to_dict(),
            scenario=self._scenario.to_dict(),
        )
        self._fds += fds
        self.target = (str(answer["address"]), int(answer["port"]))
        generator_fd, self._generator_pidfd, *map_fds = fds
        region_fds, counter_fds = map_fds[:n_balancers], map_fds[n_balancers:]
        groups = self._scenario.server_groups
        configured = np.array([group.configured_weight for group in groups])
        self.writers = [PoolWriter(fd, configured) for fd in region_fds]
        self.features = PoolFeatures(self._scenario, region_fds, counter_fds)
        self.rows = ServerRows(rows_fd, n_servers)
        self.generator = GeneratorView(generator_fd)
        self.generator_pid = pid_of(self._generator_pidfd)
        self._lives = select.poll()
        for fd in (self.process.pidfd, self._generator_pidfd):  # type: ignore[union-attr]
            self._lives.register(fd, select.POLLIN)

    def load(self, drawn: npt.NDArray[Any], seed: int) -> RequestResults:
        """End the traffic, make everything as new, and load the flows of an episode.

        Args:
            drawn: The flows (`draw_arrivals`); the clients take turns.
            seed: The seed that they were drawn with.

        Returns:
            The memory that shows what becomes of them; the caller closes it.
        """
        clients = [node.name for node in self._topology.hosts if node.role == "client"]
        plan = _request_plan(self._scenario, drawn, seed, clients, self.target)
        results = RequestResults(plan, [host.name for host in self._topology.hosts])
        try:
            self.call("begin_pod", fds=(results.fd,), request=results.request)
        except BaseException:
            results.close()
            raise
        return results

    def set_eligible(self, eligible: npt.NDArray[np.bool_]) -> None:
        """Say which servers take new flows, to all balancers."""
        for writer in self.writers:
            writer.set_eligible(eligible)

    def call(
        self, command: str, deadline_s: float = 10.0, fds: Sequence[int] = (), **arguments: Any
    ) -> tuple[dict[str, Any], list[int]]:
        """Send a command to the emulator and wait for its answer.

        Raises:
            BackendError: No answer in time, a dead emulator, or a command that failed there.
        """
        if self.process is None:
            raise BackendError("the emulator is not running; call reset first")
        return self.process.call(command, deadline_s, fds, **arguments)

    def death(self) -> str:
        """Say what of the emulator has died, if anything."""
        if self.process is None:
            return "the emulator is closed"
        if not self._lives.poll(0):
            return ""
        if not self.process.alive():
            return "the emulator died"
        return "the emulator's traffic generator died" if has_ended(self._generator_pidfd) else ""

    def close(self) -> None:
        """End the emulator and release every descriptor; a second call does nothing."""
        process, self.process = self.process, None
        if process is None:
            return
        try:
            for owner in ("features", "rows", "generator"):
                if hasattr(self, owner):
                    getattr(self, owner).close()
            # The mappings go with the objects, before the descriptors they came from.
            self.writers = []
        finally:
            for fd in self._fds:
                os.close(fd)
            self._fds = []
            process.close()

    def __del__(self) -> None:
        self.close()


def _request_plan(
    scenario: Scenario,
    drawn: npt.NDArray[Any],
    seed: int,
    clients: Sequence[str],
    target: tuple[str, int],
) -> RequestPlan:
    applications = scenario.applications
    sizes = np.array([app.response_bytes for app in applications])
    requests = np.zeros(len(drawn), REQUEST_DTYPE)
    requests["start_ns"] = drawn["arrival_ns"]
    requests["client"] = np.arange(len(drawn)) % len(clients)
    requests["application"] = drawn["application"]
    requests["bytes"] = sizes[drawn["application"]]
    kinds = [RequestKind(app.name, tuple(s.resource for s in app.stages)) for app in applications]
    # The seeds of plans have 63 bits, those of the twin 64.
    return RequestPlan(
        scenario.name, seed >> 1, clients, [target], kinds, requests, drawn["demand_ns"], 0
    )
