"""A pod of real servers and balancers behind the contract of pools."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.commands import read_seeds
from dcgym.backends.emulation import capabilities
from dcgym.backends.emulation.options import PoolOptions
from dcgym.backends.emulation.pool.base import EmulatedPod, TimeArray
from dcgym.backends.emulation.pool.checks import check_scenario, read_commands, read_program
from dcgym.backends.emulation.pool.duties import PoolDuties
from dcgym.backends.emulation.pool.events import PoolEvents
from dcgym.backends.emulation.pool.flows import PoolFlows
from dcgym.backends.emulation.pool.messages import PoolMessages
from dcgym.backends.emulation.pool.pod import RunningPod
from dcgym.backends.emulation.pool.servers import PoolServers, ServerPolls
from dcgym.backends.emulation.pool.totals import PoolTotals
from dcgym.backends.needs import HORIZON_NS
from dcgym.backends.records import (
    EVENT_RECORDS,
    FIDELITY,
    FLOWS,
    OPEN_FLOWS,
    SUMMARY,
    Record,
    RecordMakers,
)
from dcgym.config import check_int
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.tasks.balancing.arrivals import draw_arrivals
from dcgym.tasks.balancing.presets import ScenarioSpec, make_scenario
from dcgym.tasks.balancing.protocol import (
    NOTHING,
    PoolCommands,
    PoolState,
    PoolSummary,
    PoolView,
)
from dcgym.tasks.balancing.scenario import Scenario
from dcgym.topologies import pod

__all__ = ["EmulatedPool"]

CLIENTS = 4


_Mask = npt.NDArray[np.bool_] | None


class EmulatedPool(EmulatedPod[RunningPod, PoolFlows]):
    """One pool of a scenario in real time: Linux TCP, BPF balancers, HTTP servers.

    See `dcgym.backends.base.Pool` for the calls; they mean what they mean for `BalancingTwin`.
    What differs: `advance` waits for its time; what balancers know is what crossed them at most
    some ten milliseconds ago; the remaining work in the truth is estimated from the number of
    flows; the rules that know the truth are not offered; a flow over TCP to an address without
    servers is not lost at once: its client repeats the first packet, and a server that comes in
    time serves it. The flows of a seed are those of the twin.

    Of `FLOWS` it is not known when service began (-1), nor which balancer (65535) they crossed.
    `EVENT_RECORDS` have late_us and applied_us. What balancers and servers count of a `SUMMARY`
    (messages, untracked, server_flows, server_completed) begins at most 25 ms after the warm-up's
    end and is up to 10 ms old.

    Args:
        scenario: What `make_scenario` takes, of at most 256 servers.
        n_envs: 1.
        record_limit: Finished flows that are remembered until they are taken.
        warm_up_ns: Flows that start earlier are left out of records and summary.
        horizon_ns: How much traffic an episode has; `advance` beyond it is refused.
        options: What serves, and how the balancers work; the defaults if None.

    Attributes:
        scenario: The pool and its traffic.
        n_envs: 1.
        n_frontends: Number of front ends: each virtual address at each balancer.
        n_servers: Number of servers.
        horizon_ns: How much traffic an episode has.

    Raises:
        ConfigError: An argument is not allowed.
    """

    capabilities = capabilities.POOL

    def __init__(
        self,
        scenario: ScenarioSpec,
        n_envs: int = 1,
        record_limit: int = 0,
        warm_up_ns: int = 0,
        horizon_ns: int = HORIZON_NS,
        options: PoolOptions | None = None,
    ) -> None:
        """Check the arguments; the network is built by the first `reset`."""
        self.scenario: Scenario = make_scenario(scenario)
        check_int("warm_up_ns", warm_up_ns, 0)
        flows = PoolFlows(self.scenario, check_int("record_limit", record_limit, 0), warm_up_ns)
        super().__init__(n_envs, horizon_ns, flows)
        self.n_frontends = self.scenario.n_frontends
        self.n_servers = check_int("scenario.groups", self.scenario.n_servers, 1, SERVERS)
        self._options = PoolOptions() if options is None else options
        check_scenario(self.scenario, self._options)
        self.capabilities = capabilities.pool_with(self._options)
        self._servers = PoolServers(self.scenario, warm_up_ns)
        self._polls = ServerPolls(self.scenario, warm_up_ns)
        self._totals = PoolTotals(warm_up_ns)
        self._events = PoolEvents(self.scenario, self._servers, self._totals)
        self._messages = PoolMessages()
        self._duties = PoolDuties(self._servers, self._polls, self._events, self._totals)
        self._warm_up_ns = warm_up_ns
        self._program = read_program(self._options, self.scenario)

    def reset(self, episodes: int | Sequence[int | None]) -> None:
        """Begin anew in place: empty servers, no flow known, the scenario's pool, equal weights.

        The traffic begins with the first `advance`.

        Args:
            episodes: The seed of the flows, 0 to 2**64 - 1, or a sequence of it; None in there
                leaves everything as it is.
        """
        seeds, begun = read_seeds(episodes, 1)
        if not begun[0]:
            return
        seed = int(seeds[0])
        running = self._build()
        drawn = draw_arrivals(self.scenario, seed, self.horizon_ns)
        if self._program is not None and not self._program.has_requests:
            drawn = drawn[:0]
        self._load(running, drawn, seed)
        self._servers.begin()
        self._polls.begin(seed)
        self._messages.begin()
        self._totals.begin()
        self._events.begin(seed)
        running.begin_pools(self._servers.takes_flows)

    def _made(self) -> RunningPod:
        groups = [group.count for group in self.scenario.pool.groups]
        network = pod(CLIENTS, self.scenario.balancers, groups, queue="4MB")
        return RunningPod(network, self.scenario, self._options, self._program)

    def apply(self, commands: PoolCommands, mask: _Mask = None) -> TimeArray:
        """Do what is decided.

        Args:
            commands: What; the samples of all front ends are always there.
            mask: One boolean.

        Returns:
            The time at which it was in force, shape (1,).

        Raises:
            BackendError: The emulator died.
            ConfigError: A command is not allowed; nothing is done then.
        """
        if commands is NOTHING or (mask is not None and not np.all(mask)):
            return self._now_ns()
        told = read_commands(commands, self.scenario, self._options)
        running = self._alive()
        if told.rules is not None:
            for writer, name in zip(running.writers, told.rules, strict=True):
                writer.set_rule(name)
            self._messages.listen(running)
        if told.eligible is not None:
            self._servers.in_service = told.eligible
            running.set_eligible(self._servers.takes_flows)
        if told.weights is not None:
            for writer, row in zip(running.writers, told.weights, strict=True):
                writer.set_learned(row)
        return self._now_ns()

    def _start(self, running: RunningPod) -> None:
        super()._start(running)
        assert self._results is not None
        self._duties.begin(self._start_ns, self._results)

    def _run_until(self, running: RunningPod, deadline_ns: int) -> int:
        return self._duties.run_until(running, deadline_ns)

    def read(self, mask: _Mask = None) -> PoolState:
        """Return what is known, as of a moment ago; remaining work is estimated.

        Its time is when the oldest of the balancers' counters were collected.
        """
        running = self._alive()
        counted_ns, counted = running.features.read()
        polled = self._polls.answers(self._elapsed_ns(time.monotonic_ns()))
        seen = PoolView(
            **counted | polled,
            eligible=np.tile(self._servers.takes_flows, (self.scenario.balancers, 1))[None],
            balancer_up=np.repeat(self._events.is_up, len(self.scenario.pool.vips))[None],
            weights=np.stack([writer.weights for writer in running.writers])[None],
        )
        rows, ended = running.rows.read(), self._requests.ended()
        truth = self._servers.truth(rows, seen.ongoing[0], ended)
        return PoolState(np.array([self._elapsed_ns(counted_ns)]), seen, truth)

    def server_rows(self) -> npt.NDArray[np.void]:
        """Return what each server shows of itself (`dcgym.traffic.http.SERVER_DTYPE`)."""
        return self._alive().rows.read()

    def _summary(self) -> PoolSummary:
        running = self.running
        assert self._results is not None
        self._requests.poll()
        elapsed_ns = self._elapsed_ns(time.monotonic_ns())
        return PoolSummary(
            duration_s=max(elapsed_ns - self._warm_up_ns, 0) / 1e9,
            events=None,
            **self._requests.figures(elapsed_ns),
            **self._totals.figures(running, self._results.header(), self._polls.count),
            **self._servers.averages(),
        )

    def _happened(self) -> list[Record]:
        return list(self._events.records)

    _RECORDS: ClassVar[RecordMakers] = {
        FLOWS: EmulatedPod._finished,
        OPEN_FLOWS: EmulatedPod._under_way,
        SUMMARY: _summary,
        EVENT_RECORDS: _happened,
        FIDELITY: EmulatedPod._fidelity,
    }

    def execute(self, host: str, *argv: str, timeout_s: float = 10.0) -> str:
        """Run a command in a client's or server's namespaces and return its output.

        Another thread may step the environment meanwhile: neither waits for the other.

        Args:
            host: Name of the host.
            *argv: The command and its arguments.
            timeout_s: How long it may take.

        Raises:
            CommandError: It failed or took too long.
        """
        return self.running.session.execute(host, argv, timeout_s)

    @property
    def targets(self) -> tuple[tuple[str, int], ...]:
        """Address and port of each VIP, in each family; a VIP's lie together.

        Raises:
            BackendError: The emulator is not running.
        """
        return self.running.targets
