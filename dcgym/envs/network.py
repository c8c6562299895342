"""What all environments over a network share: order of a step, interval, telemetry, backend."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.backends.base import Backend, Snapshot, make_backend
from dcgym.config import check_in, check_int, check_keys
from dcgym.envs.arguments import (
    BackendSpec,
    RewardSpec,
    is_backend,
    read_backend,
    read_congestion_control,
    read_interval,
    read_topology,
)
from dcgym.envs.decisions import Decision
from dcgym.errors import BackendError, ConfigError
from dcgym.tasks.network.events import check_events, make_events
from dcgym.tasks.network.features import FeatureSet, Interval, counter_difference
from dcgym.tasks.network.metrics import HOST_COUNTERS, PORT_COUNTERS, interval_metrics
from dcgym.tasks.network.probes import Probes
from dcgym.tasks.network.rewards import Reward, RewardInputs
from dcgym.topologies import Topology
from dcgym.traffic import Plan, make_plan
from dcgym.traffic.generators.tools import GENERATORS
from dcgym.traffic.plans.applications import APPS, AppPlan

__all__ = ["NetworkEnv", "Observation"]

SWITCHES = ("ebpf", "ovs")

# An action that arrives later than this part of its interval begins an interval of its own:
# learners pause for seconds to train, and that time belongs to no action.
LATE_FRACTION = 0.2

Observation: TypeAlias = npt.NDArray[np.float32]
_Result = TypeVar("_Result")


class NetworkEnv(gym.Env[Observation, Any]):
    """Base of the environments that act on a network; the subclass says what is decided.

    A subclass prepares its own arguments, calls this constructor, and implements
    `_make_decisions`; where it observes only some ports or needs options of the backend it
    overrides `_observed_ports` or `_backend_options`.

    Args:
        topology: Name, mapping, file, or `Topology`.
        traffic: Name, mapping, file, or `Plan`.
        backend: Name, a `Backend`, or a function that makes one of a topology, which may be
            named as "module:name".
        interval: Control interval; "0ms" runs freely.
        features: Names of the features.
        probes: Pairs of hosts whose round trips are measured for the feature ``probe_rtt``.
        reward: A term, a list of terms, or a mapping term to weight.
        congestion_control: Name, or mapping of host to name.
        marking: Mark packets at the switches; a mapping replaces how the topology says.
        switch: "ebpf" or "ovs"; of the emulation.
        events: What happens to links and switches during each episode.
        preflight: Measure a few links before the first episode; of the emulation.
        generator: What sends the traffic, one of `GENERATORS`; of the emulation.
        render_mode: None or "rgb_array".
        max_steps: Steps until truncation, or None.
    """

    # Declared as Gymnasium declares it, which RUF012 cannot know.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    policy_family = ""
    """Family of `dcgym.policies.FAMILIES` whose policies act here."""

    def __init__(
        self,
        *,
        topology: str | Path | Mapping[str, Any] | Topology,
        traffic: str | Path | Mapping[str, Any] | Plan,
        backend: BackendSpec,
        interval: str | int | float,
        features: Sequence[str],
        probes: Sequence[Sequence[str]],
        reward: RewardSpec,
        congestion_control: str | Mapping[str, str],
        marking: bool | Mapping[str, Any],
        switch: str,
        events: Sequence[Mapping[str, Any]],
        preflight: bool,
        generator: str,
        render_mode: str | None,
        max_steps: int | None,
    ) -> None:
        self._backend_spec = backend = read_backend(backend)
        self._backend: Backend | None = backend if is_backend(backend) else None
        self.topology, self._marking = read_topology(topology, marking, self._backend)
        self.traffic = traffic
        self.plan: Plan = make_plan(traffic, self.topology, 0)
        self.interval_ns = read_interval(interval)
        self._switch = check_in("switch", switch, SWITCHES)
        self.events = make_events(events, self.topology)
        check_events(self.events, self._switch)
        self._n_happened = 0
        self._preflight = check_in("preflight", preflight, (True, False))
        self._generator = check_in("generator", generator, GENERATORS)
        self._max_steps = None if max_steps is None else check_int("max_steps", max_steps, 1)
        self._congestion_control = read_congestion_control(congestion_control, self.topology)
        check_in("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.render_mode = render_mode
        self.probes = Probes(probes, features, self.topology)
        self._build_spaces(features)
        self.reward = Reward(reward)

        self._last: Snapshot | None = None
        self._interval: Interval | None = None
        self._deadline_ns = 0
        self._steps = 0
        if isinstance(backend, str):
            # Unknown names and options must fail here, not in the first reset.
            self._backend = self._make_backend()
        self._check_apps()
        if self.events and not hasattr(self._backend or Backend, "event_records"):
            raise ConfigError("events", list(events), "none, with a backend that knows no events")

    def _check_apps(self) -> None:
        """Refuse applications where nothing can run them, or not with these arguments."""
        if not isinstance(self.plan, AppPlan):
            return
        if self._backend is not None and not hasattr(self._backend, "app_records"):
            raise ConfigError("traffic", self.plan.name, "flows, with a backend that runs no apps")
        if self._generator != "native":
            raise ConfigError("generator", self._generator, "native, beside apps")

    @abstractmethod
    def _make_decisions(self) -> tuple[Decision, ...]:
        """Return what the action consists of; a single one needs no Dict around it."""

    def _observed_ports(self) -> Sequence[int]:
        """Return the indexes of the switch ports whose features are observed."""
        return range(len(self.topology.switch_ports))

    def _backend_options(self) -> dict[str, Any]:
        """Return options of a backend that is made by name."""
        return {
            "switch": self._switch,
            "flow_matrix": self.features.has_flow_matrix,
            "probes": self.probes.pairs,
            "preflight": self._preflight,
            "generator": APPS if isinstance(self.plan, AppPlan) else self._generator,
        }

    def _build_spaces(self, features: Sequence[str]) -> None:
        hosts, ports = self.topology.host_ports, self.topology.switch_ports
        self.decisions = self._make_decisions()
        spaces: dict[str, gym.Space[Any]] = {
            decision.name: decision.action_map.space for decision in self.decisions
        }
        self.action_space = (
            next(iter(spaces.values())) if len(spaces) == 1 else gym.spaces.Dict(spaces)
        )
        self.features = FeatureSet(
            features,
            len(ports),
            len(hosts),
            rows=self._observed_ports(),
            settings=[label for decision in self.decisions for label in decision.labels],
            n_probes=len(self.probes.pairs),
        )
        self.observation_space = self.features.space
        self._host_rates_bps = np.array([port.rate_bps for port in hosts], np.float64)
        self._port_rates_bps = np.array([port.rate_bps for port in ports], np.float64)
        self._queue_limits_bytes = np.array([port.queue_bytes for port in ports], np.float64)

    @property
    def backend(self) -> Backend | None:
        """The backend, or None after `close` or a failure."""
        return self._backend

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of the observation, such as `port0.backlog` or `host3.rate`."""
        return self.features.labels

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in place: the network stays, everything in it is cleared.

        Args:
            seed: Seeds the traffic plans of this and the following episodes.
            options: `{"traffic": spec}` replaces the traffic from now on.

        Returns:
            A measured observation, and its info.
        """
        super().reset(seed=seed)
        options = dict(check_keys(options or {}, ("traffic",), "options"))
        self.traffic = options.get("traffic", self.traffic)
        plan_seed = int(self.np_random.integers(2**31))
        self.plan = make_plan(self.traffic, self.topology, plan_seed)
        for decision in self.decisions:
            decision.begin()
        self._steps = self._n_happened = 0
        self._last = self._guard(lambda: self._start_episode(plan_seed))
        self._deadline_ns = self._last.time_ns
        self._interval = self._measure(self._last, self._last)
        observation = self._observe(self._interval, is_first=True)
        return observation, self._info(self._last, self._last)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Apply an action, let one interval pass, and return what it led to."""
        if self._last is None:
            raise BackendError("no episode is running: call reset() first")
        self._read_action(action)
        return self._guard(self._run_interval)

    def render(self) -> npt.NDArray[np.uint8] | None:  # type: ignore[override]
        """Return a picture of the topology with link load and queues, or None."""
        if self.render_mode is None or self._interval is None:
            return None
        from dcgym.envs.render import draw_network

        return draw_network(self.topology, self._interval, self._rate_shares)

    def close(self) -> None:
        """End the network; a second call does nothing, and `reset` starts a new one."""
        backend, self._backend, self._last = self._backend, None, None
        if backend is not None:
            backend.close()

    def _read_action(self, action: Any) -> None:
        if len(self.decisions) == 1:
            self.decisions[0].read(action)
            return
        names = [decision.name for decision in self.decisions]
        if set(check_keys(action, names, "action")) != set(names):
            raise ConfigError("action", sorted(action), f"all of {names}")
        for decision in self.decisions:
            decision.read(action[decision.name])

    def _start_episode(self, plan_seed: int) -> Snapshot:
        if self._backend is None:
            self._backend = self._make_backend()
        self._check_apps()
        if isinstance(self.plan, AppPlan):
            self.plan.check_machine()
        self._backend.start()
        self._backend.reset(
            self.plan,
            congestion_control=dict(self._congestion_control),
            marking=self._marking,
            seed=plan_seed,
            # A backend that knows no events need not know the word.
            **({"events": self.events} if self.events else {}),
        )
        self._apply(self._backend)
        # A second read: the one of the reset dates from before the action was in force.
        return self._backend.snapshot()

    def _run_interval(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        backend, before = self._backend, self._last
        assert backend is not None and before is not None
        acknowledged_ns = self._apply(backend)
        latency_ns = acknowledged_ns - before.time_ns
        is_late = self.interval_ns > 0 and self._is_late(acknowledged_ns)
        if is_late:
            self._deadline_ns = acknowledged_ns
            before = backend.snapshot()
        self._deadline_ns += self.interval_ns
        overrun_ns = backend.wait_until(self._deadline_ns) if self.interval_ns else 0
        after = backend.snapshot()
        self._last, self._interval = after, self._measure(before, after)
        self._steps += 1
        observation = self._observe(self._interval)
        info = self._info(before, after)
        info["action_latency_us"] = latency_ns / 1e3
        info["deadline_overrun_us"] = overrun_ns / 1e3
        info["is_restarted"] = is_late
        info["events"] = self._take_event_records(backend)
        is_truncated = self._max_steps is not None and self._steps >= self._max_steps
        reward = float(sum(info["reward_terms"].values()))
        is_finished = bool(backend.finished())
        info["observation_age_us"] = (backend.now_ns() - after.time_ns) / 1e3
        return observation, reward, is_finished, is_truncated, info

    def _is_late(self, acknowledged_ns: int) -> bool:
        return acknowledged_ns - self._deadline_ns > LATE_FRACTION * self.interval_ns

    def _apply(self, backend: Backend) -> int:
        return max(decision.apply(backend) for decision in self.decisions)

    def _observe(self, interval: Interval, *, is_first: bool = False) -> Observation:
        values = np.concatenate([decision.values for decision in self.decisions])
        return self.features.observe(interval, values, is_first=is_first)

    def _measure(self, before: Snapshot, after: Snapshot) -> Interval:
        deltas = counter_difference(after.ports, before.ports, PORT_COUNTERS)
        matrix = after.flow_matrix
        if matrix is not None and before.flow_matrix is not None:
            matrix = np.maximum(matrix - before.flow_matrix, 0)
        return Interval(
            duration_s=(after.time_ns - before.time_ns) / 1e9,
            ports=after.ports,
            port_deltas=deltas,
            rates_bps=self._port_rates_bps,
            queue_limits_bytes=self._queue_limits_bytes,
            flow_matrix=matrix,
            probe_shares=self.probes.shares(after.probe_rtt_ns),
        )

    @property
    def _rate_shares(self) -> npt.NDArray[np.float64]:
        """Share of each host: 1 where nobody decides about rates."""
        for decision in self.decisions:
            if decision.name == "rates":
                return decision.values
        return np.ones(len(self._host_rates_bps))

    def _reward_inputs(
        self, interval: Interval, hosts: dict[str, npt.NDArray[np.float64]]
    ) -> RewardInputs:
        capacity_bytes = np.maximum(self._host_rates_bps / 8 * interval.duration_s, 1)
        backlog_bytes = interval.ports["backlog_bytes"].astype(np.float64)
        return RewardInputs(
            shares=self._rate_shares,
            queues=np.clip(backlog_bytes / self._queue_limits_bytes, 0, 1),
            goodput_shares=np.clip(hosts["rx_bytes"] / capacity_bytes, 0, 1),
        )

    def _info(self, before: Snapshot, after: Snapshot) -> dict[str, Any]:
        interval = self._interval
        assert interval is not None
        hosts = counter_difference(after.hosts, before.hosts, HOST_COUNTERS)
        info: dict[str, Any] = {
            "reward_terms": self.reward.terms(self._reward_inputs(interval, hosts)),
            "metrics": interval_metrics(interval, after.hosts, hosts),
            "interval_us": interval.duration_s * 1e6,
            "action_latency_us": 0.0,
            "observation_age_us": 0.0,
            "deadline_overrun_us": 0.0,
            "is_restarted": False,
            "events": [],
        }
        for decision in self.decisions:
            info["metrics"].update(decision.metrics(interval))
            info.update(decision.info(interval))
        return info

    def _take_event_records(self, backend: Backend) -> list[dict[str, Any]]:
        if not self.events:
            return []
        records = backend.event_records()
        self._n_happened, before = len(records), self._n_happened
        return records[before:]

    def _guard(self, work: Callable[[], _Result]) -> _Result:
        """Drop a backend that failed, so that the next reset builds a new one."""
        try:
            return work()
        except BackendError:
            self.close()
            raise

    def _make_backend(self) -> Backend:
        spec = self._backend_spec
        if isinstance(spec, str):
            return make_backend(spec, self.topology, **self._backend_options())
        if is_backend(spec):
            return spec
        if not callable(spec):
            raise ConfigError("backend", spec, "a name, a Backend, or a function that makes one")
        return spec(self.topology)
