"""A pod of real servers and balancers behind the calls of `BalancingTwin`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dcgym.backends.emulation.audit.fidelity import FidelityAudit
from dcgym.backends.emulation.audit.links import LinkAudit
from dcgym.backends.emulation.audit.machine_load import MachineLoad
from dcgym.backends.emulation.pool.events import PoolEvents
from dcgym.backends.emulation.pool.flows import PoolFlows
from dcgym.backends.emulation.pool.process import PodProcess
from dcgym.backends.emulation.pool.servers import PoolServers, ServerPolls
from dcgym.backends.simulation import draw_arrivals
from dcgym.config import check_in, check_int
from dcgym.errors import BackendError, ConfigError
from dcgym.monitors.balancer.layout import SERVERS
from dcgym.native import require
from dcgym.tasks.balancing import Scenario, make_scenario
from dcgym.tasks.balancing.actions import check_weights
from dcgym.tasks.balancing.rules import kernel_rules
from dcgym.topologies import pod
from dcgym.traffic.http import RequestResults
from dcgym.traffic.http.applications import RESOURCES

__all__ = ["EmulatedPool"]

CLIENTS = 4
# The generator gets ready for the first requests meanwhile.
START_DELAY_NS = 10_000_000
SAMPLE_INTERVAL_NS = 25_000_000
DEFAULT_HORIZON_NS = 600 * 10**9
TIMES = ("action_latency_us", "observation_age_us", "deadline_overrun_us")
STALE_NS = 2_000_000_000
# An action that arrives later than this part of its interval begins an interval of its own:
# learners pause for seconds to train, and that time belongs to no action.
LATE_FRACTION = 0.2

_Result = TypeVar("_Result")
_Mask = npt.NDArray[np.bool_] | None


class EmulatedPool:
    """One pool of a scenario in real time: Linux TCP, BPF balancers, HTTP servers.

    It has the calls of `BalancingTwin` for one environment, and means the same by them; see there.
    What differs: `advance` waits for its time; `observe` counts what crossed the balancers at most
    some ten milliseconds ago; in `truth` the remaining work is estimated from the number of flows;
    the rules that know the truth are not offered. The flows of a seed are those of the twin.

    Args:
        scenario: What `make_scenario` takes, of at most 64 servers.
        n_envs: 1.
        record_limit: Finished flows that are remembered between two calls of `records`.
        warm_up_ns: Flows that start earlier are left out of `records` and `summary`.
        horizon_ns: How much traffic an episode has; `advance` beyond it is refused.

    Raises:
        ConfigError: An argument is not allowed.
    """

    def __init__(
        self,
        scenario: Any,
        n_envs: int = 1,
        record_limit: int = 0,
        warm_up_ns: int = 0,
        horizon_ns: int = DEFAULT_HORIZON_NS,
    ) -> None:
        """Check the arguments; the network is built by the first `reset`."""
        self.scenario: Scenario = make_scenario(scenario)
        if check_int("n_envs", n_envs, 1) != 1:
            raise ConfigError("n_envs", n_envs, "1 with the emulation")
        self.n_envs = 1
        self.n_balancers = self.scenario.balancers
        self.n_servers = check_int("scenario.groups", self.scenario.n_servers, 1, SERVERS)
        check_in("group.resources", self.scenario.pool.resources, (RESOURCES,))
        self._horizon_ns = check_int("horizon_ns", horizon_ns, 1)
        self._servers = PoolServers(self.scenario, check_int("warm_up_ns", warm_up_ns, 0))
        self._polls = ServerPolls(self.scenario)
        self._events = PoolEvents(self.scenario, self._servers)
        self._flows = PoolFlows(
            self.scenario, check_int("record_limit", record_limit, 0), warm_up_ns
        )
        self._warm_up_ns = warm_up_ns
        self._pod: PodProcess | None = None
        self._results: RequestResults | None = None
        self._audit: FidelityAudit | None = None

    def reset(self, seeds: int | Sequence[int] | npt.ArrayLike, mask: _Mask = None) -> None:
        """Begin anew in place: empty servers, no flow known, the scenario's pool, equal weights.

        The traffic begins with the first `advance`.

        Args:
            seeds: The seed of the flows, 0 to 2**64 - 1.
            mask: One boolean; False leaves everything as it is.
        """
        if mask is not None and not np.all(mask):
            return
        seed = int(np.asarray(seeds, np.uint64).reshape(-1)[0])
        if self._pod is not None and self._pod.death():
            self.close()
        if self._pod is None:
            groups = [group.count for group in self.scenario.pool.groups]
            network = pod(CLIENTS, self.n_balancers, groups, queue="4MB")
            self._pod = PodProcess(network, self.scenario)
        drawn = draw_arrivals(self.scenario, seed, self._horizon_ns)
        self._drop_results()
        self._results = self._guarded(lambda: self.pod.load(drawn, seed))
        self._drawn = drawn
        self._flows.begin(drawn, self._results, 0)
        self._servers.begin()
        self._polls.begin(seed)
        self._events.begin()
        for writer in self.pod.writers:
            writer.begin(self._servers.eligible)
        self._start_ns = self._deadline_ns = self._target_ns = 0
        self._acted_ns = self._observed_ns = time.monotonic_ns()
        self._timing = dict.fromkeys(TIMES, 0.0)
        self._is_restarted = False

    def set_rule(self, name: str, balancer: int | None = None, mask: _Mask = None) -> None:
        """Let a balancer place new flows by this rule from now on.

        Args:
            name: One of `kernel_rules`.
            balancer: Number of the balancer; None for all.
            mask: One boolean.
        """
        check_in("rule", name, kernel_rules())
        if balancer is not None:
            check_int("balancer", balancer, 0, self.n_balancers - 1)
        for number, writer in enumerate(self.pod.writers):
            if balancer in (None, number) and (mask is None or np.all(mask)):
                writer.set_rule(name)

    def set_weights(
        self, weights: npt.ArrayLike, balancer: int | None = None, mask: _Mask = None
    ) -> None:
        """Set the weights of ``awcmp``, ``weighted`` and ``weighted2``; only their ratios count.

        Args:
            weights: Shape (1, B, N), or (1, N) for one balancer; finite and above 0.
            balancer: Number of the balancer; None for all.
            mask: One boolean.
        """
        self._check_alive()
        if mask is not None and not np.all(mask):
            return
        if balancer is None:
            chosen = list(range(self.n_balancers))
            values = check_weights(weights, (1, self.n_balancers, self.n_servers))[0]
        else:
            chosen = [check_int("balancer", balancer, 0, self.n_balancers - 1)]
            values = check_weights(weights, (1, self.n_servers))
        for number, row in zip(chosen, values, strict=True):
            self.pod.writers[number].set_learned(row)
        self._acted_ns = time.monotonic_ns()

    def advance(self, until_ns: int | npt.ArrayLike) -> None:
        """Let the pool run until a time since its beginning.

        An agent that comes late, by over a fifth of the interval, does not shorten it: the
        interval begins when it comes, and all later times shift by as much.

        Raises:
            BackendError: The emulator died, or the episode's traffic is over.
        """
        target_ns = int(np.asarray(until_ns).reshape(-1)[0])
        self._check_alive()
        if not self._start_ns:
            self._start()
        now_ns, interval_ns = time.monotonic_ns(), target_ns - self._target_ns
        late_ns = now_ns - self._deadline_ns
        self._timing["action_latency_us"] = (self._acted_ns - self._observed_ns) / 1e3
        self._is_restarted = late_ns > LATE_FRACTION * interval_ns
        if self._is_restarted:
            self._deadline_ns = now_ns
        self._target_ns = target_ns
        self._deadline_ns += interval_ns
        if self._deadline_ns - self._start_ns > self._horizon_ns:
            seconds = self._horizon_ns / 1e9
            raise BackendError(f"the episode's traffic of {seconds:g} s is over: call reset()")
        overrun_ns = self._run_until(self._deadline_ns)
        self._timing["deadline_overrun_us"] = max(overrun_ns, 0) / 1e3
        assert self._audit is not None
        self._audit.interval(overrun_ns)

    def _start(self) -> None:
        assert self._results is not None
        start_ns = time.monotonic_ns() + START_DELAY_NS
        self._guarded(lambda: self.pod.call("start_traffic", start_ns=start_ns))
        self._start_ns = self._deadline_ns = start_ns
        self._next_sample_ns = SAMPLE_INTERVAL_NS
        self._flows.begin(self._drawn, self._results, start_ns)
        load = MachineLoad.read(time.monotonic_ns(), self.pod.generator_pid)
        self._audit = FidelityAudit(load, LinkAudit((), (), (), _no_counts))

    def _run_until(self, deadline_ns: int) -> int:
        """Wait, and do in between what is due; returns by how much the deadline was missed."""
        native = require()
        while True:
            due_ns, act = self._next_due()
            if self._start_ns + due_ns >= deadline_ns:
                return int(native.wait_until(deadline_ns))
            native.wait_until(self._start_ns + due_ns)
            act(due_ns)

    def _next_due(self) -> tuple[int, Callable[[int], None]]:
        """Return what happens next, and when, since the traffic began."""
        due = [(self._next_sample_ns, self._sample)]
        if self._polls.due_ns is not None:
            due.append((self._polls.due_ns, self._poll))
        if self._events.due_ns is not None:
            due.append((self._events.due_ns, self._happen))
        return min(due, key=lambda item: item[0])

    def _sample(self, due_ns: int) -> None:
        self._servers.sample(self.pod.rows.read(), due_ns)
        # Samples that a late agent has missed are not made up for.
        missed = (time.monotonic_ns() - self._start_ns - due_ns) // SAMPLE_INTERVAL_NS
        self._next_sample_ns = due_ns + (1 + max(missed, 0)) * SAMPLE_INTERVAL_NS

    def _poll(self, due_ns: int) -> None:
        self._polls.ask(self.pod.rows.read(), due_ns)

    def _happen(self, due_ns: int) -> None:
        self._guarded(lambda: self._events.happen(self.pod, self._start_ns))

    def observe(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the balancers know (`BalancingTwin.observe`), as of a moment ago."""
        self._check_alive()
        counted_ns, found = self.pod.features.read()
        now_ns = time.monotonic_ns()
        self._observed_ns = now_ns
        self._timing["observation_age_us"] = (now_ns - counted_ns) / 1e3
        self._ongoing = found["ongoing"][0]
        elapsed_ns = self._elapsed_ns(now_ns)
        return found | {
            "time_ns": np.array([elapsed_ns]),
            "eligible": self._servers.eligible[None].copy(),
            "balancer_up": self._events.is_up[None].copy(),
            "weights": np.stack([writer.weights for writer in self.pod.writers])[None],
            **self._polls.answers(elapsed_ns),
        }

    def truth(self) -> dict[str, npt.NDArray[Any]]:
        """Return what the servers know (`BalancingTwin.truth`); remaining work is estimated."""
        self._check_alive()
        return self._servers.truth(self.pod.rows.read(), self._ongoing)

    def records(self, env: int = 0) -> npt.NDArray[Any]:
        """Return and forget the finished flows, in order of their end (`BalancingTwin.records`).

        When service began is not known (-1), and neither is the balancer (65535).
        """
        check_int("env", env, 0, 0)
        taken: npt.NDArray[Any] = self._flows.take()
        return taken

    def summary(self, env: int = 0) -> dict[str, Any]:
        """Return figures since the warm-up (`BalancingTwin.summary`), without ``events``."""
        check_int("env", env, 0, 0)
        elapsed_ns = self._elapsed_ns(time.monotonic_ns())
        _, seen = self.pod.features.read()
        return {
            "duration_s": max(elapsed_ns - self._warm_up_ns, 0) / 1e9,
            **self._flows.figures(elapsed_ns),
            "pcc_violations": self.pod.features.broken(),
            "untracked": int(seen["untracked"].sum()),
            "server_flows": seen["flows"].sum(axis=(0, 1)).astype(float).tolist(),
            "server_completed": self.pod.rows.read()["completed"].astype(float).tolist(),
            **self._servers.averages(),
        }

    def timing(self) -> dict[str, float]:
        """Return `TIMES` of the last interval, and whether it is_restarted: the action was late."""
        return self._timing | {"is_restarted": self._is_restarted}

    def event_records(self) -> list[dict[str, Any]]:
        """Return the events that have happened, with late_us and applied_us."""
        return list(self._events.records)

    def fidelity(self) -> dict[str, Any]:
        """Say how far the episode can be believed: status, reasons, figures."""
        if self._audit is None or self._results is None:
            raise BackendError("no episode has run yet: call reset first")
        header = self._results.header()
        self._audit.starts(int(header["started"]), int(header["late_starts"]))
        load = MachineLoad.read(time.monotonic_ns(), self.pod.generator_pid)
        return self._audit.verdict(load, self._flows.begun())

    def execute(self, host: str, *argv: str, timeout_s: float = 10.0) -> str:
        """Run a command in a client's or server's namespaces and return its output."""
        answer, _ = self._guarded(
            lambda: self.pod.call(
                "execute", timeout_s + 5, host=host, argv=list(argv), timeout_s=timeout_s
            )
        )
        return str(answer["output"])

    @property
    def pod(self) -> PodProcess:
        """The emulator's process and memory.

        Raises:
            BackendError: It is not running.
        """
        if self._pod is None:
            raise BackendError("the emulator is not running; call reset first")
        return self._pod

    def _check_alive(self) -> None:
        if death := self.pod.death():
            self.close()
            raise BackendError(f"{death}; the next reset builds it anew")
        silent_ns = time.monotonic_ns() - self.pod.generator.heartbeat_ns
        if silent_ns > STALE_NS:
            self.close()
            raise BackendError(f"the traffic generator was silent for {silent_ns / 1e9:.1f} s")
        if self._audit is not None:
            self._audit.generator_silence(silent_ns)

    def _elapsed_ns(self, now_ns: int) -> int:
        return now_ns - self._start_ns if self._start_ns else 0

    def _guarded(self, call: Callable[[], _Result]) -> _Result:
        try:
            return call()
        except BackendError:
            if self._pod is not None and self._pod.death():
                self.close()
            raise

    def _drop_results(self) -> None:
        results, self._results = self._results, None
        if results is not None:
            self._flows.end()
            results.close()

    def close(self) -> None:
        """End the emulator; a second call does nothing, and `reset` builds it anew."""
        self._drop_results()
        emulator, self._pod = self._pod, None
        if emulator is not None:
            emulator.close()

    def __del__(self) -> None:
        if hasattr(self, "_pod"):
            self.close()


def _no_counts() -> npt.NDArray[np.uint64]:
    """Links are not watched: the rates of a pod are far from what its requests need."""
    return np.zeros(0, np.uint64)
