"""How fast may each host send: the congestion-control environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.actions import make_action_map
from dcgym.backend import Backend, Snapshot, make_backend
from dcgym.config import check_in, check_int, check_keys
from dcgym.envs.metrics import HOST_COUNTERS, PORT_COUNTERS, interval_metrics
from dcgym.errors import BackendError, ConfigError
from dcgym.events import check_events, make_events
from dcgym.features import FLOW_MATRIX, FeatureSet, Interval, counter_difference
from dcgym.rewards import Reward, RewardInputs
from dcgym.topologies import Topology, make_topology, with_marking
from dcgym.traffic import Plan, make_plan
from dcgym.units import parse_duration

__all__ = ["CONGESTION_CONTROLS", "CongestionControlEnv"]

CONGESTION_CONTROLS = ("cubic", "reno", "bbr", "dctcp", "new-vegas")
SWITCHES = ("ebpf", "ovs")

# An action that arrives later than this part of its interval begins an interval of its own:
# learners pause for seconds to train, and that time belongs to no action.
LATE_FRACTION = 0.2

BackendSpec: TypeAlias = str | Backend | Callable[[Topology], Backend]
Observation: TypeAlias = npt.NDArray[np.float32]
_Result = TypeVar("_Result")


class CongestionControlEnv(gym.Env[Observation, npt.NDArray[np.float32]]):
    """Limit the sending rate of every host so that queues stay short and links full.

    ## Description
    Hosts of a data-centre network send traffic by a plan. Once per control interval the agent sets
    a token bucket at every host's interface; the host's own transport runs below that limit.
    After Ruffy, "Data-Driven Datacenter Traffic Control", UBC 2019.

    ## Action Space
    `Box(n_hosts)`, in the order of `topology.hosts`. With `action="direct"` the value is the share
    of the interface rate, `floor` to 1. With `action="tanh"` it is -4 to 4, squashed onto the same
    range: `(tanh(a) + 1) / 2 * (1 - floor) + floor`.

    ## Observation Space
    `Box`, float32. For each switch port, in the order of `topology.switch_ports`, the features in
    the order given (see `dcgym.features`); then, with `flow_matrix`, ports times hosts; then the
    current rate share of each host. Shares and fractions are 0 to 1, changes (`d_`) -1 to 1.

    ## Rewards
    A weighted sum of the terms in `dcgym.rewards`; `joint_queue` is the thesis' eq. 4.3. A step
    applies the action, waits until it is acknowledged and until the interval's absolute deadline,
    reads one snapshot, and only then computes: the reward belongs to the action just given.

    ## Starting State
    A measured observation of the running network with every share at 1. The plan's seed is drawn
    from the environment's own generator, so the same seed gives every policy the same traffic.

    ## Episode End
    Terminated when every flow of the plan has ended, truncated after `max_steps`. Plans of endless
    flows never terminate. `gymnasium.make` truncates at 200 steps unless told otherwise through
    `max_episode_steps`.

    ## Information
    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | goodput_bps, queue_bytes, rtt_us, drops, marks, jain and more, of this interval |
    | rate_shares | share of each host in force |
    | interval_us | length of the interval that was measured |
    | action_latency_us | from the collection of the last observation to the acknowledged action |
    | observation_age_us | age of this observation's snapshot when the interval ended |
    | deadline_overrun_us | how late the environment woke |
    | is_restarted | the action came late, and the interval began with its acknowledgement |
    | events | records of the events that took effect since the last step, with recovery times |

    ## Arguments
    | name | meaning |
    |---|---|
    | topology | name, mapping, file, or `Topology` |
    | traffic | name, mapping, file, or `Plan` |
    | backend | "emulation", a `Backend`, or a function that makes one of a topology |
    | interval | control interval, such as "50ms"; "0ms" runs freely |
    | features | names of the features |
    | flow_matrix | observe the flow matrix too, as the feature of that name does |
    | reward | a term, a list of terms, or a mapping term to weight |
    | action | "direct" or "tanh" |
    | floor | least share a host is given |
    | congestion_control | name, or mapping of host to name |
    | marking | mark packets at the switches; a mapping replaces how the topology says |
    | switch | "ebpf" or "ovs"; of the emulation |
    | events | what happens to links and switches during each episode (see `dcgym.events`) |
    | render_mode | None or "rgb_array" |
    | max_steps | steps until truncation, or None |

    `marking={"kind": "step", "min": "30KB"}` sets CE beyond a backlog of 30 KB, as DCTCP wants it.
    `marking={"kind": "red", "min": "3KB", "max": "100KB", "probability": 0.1, "burst": 23}` is RED;
    see the guide on topologies.

    ## Version History
    - v0: first version
    """

    # Declared as Gymnasium declares it, which RUF012 cannot know.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    policy_family = "congestion"

    def __init__(
        self,
        topology: str | Path | Mapping[str, Any] | Topology = "dumbbell",
        traffic: str | Path | Mapping[str, Any] | Plan = "pairs",
        backend: BackendSpec = "emulation",
        interval: str | int | float = "50ms",
        features: Sequence[str] = ("backlog", "d_backlog"),
        flow_matrix: bool = False,
        reward: str | Sequence[str] | Mapping[str, float] = "joint_queue",
        action: str = "direct",
        floor: float = 0.01,
        congestion_control: str | Mapping[str, str] = "cubic",
        marking: bool | Mapping[str, Any] = False,
        switch: str = "ebpf",
        events: Sequence[Mapping[str, Any]] = (),
        render_mode: str | None = None,
        max_steps: int | None = None,
    ) -> None:
        """Check the arguments and build the spaces; nothing is started before `reset`."""
        self._backend_spec = backend
        self._backend: Backend | None = backend if _is_backend(backend) else None
        self.topology: Topology = (
            self._backend.topology if self._backend is not None else make_topology(topology)
        )
        if isinstance(marking, Mapping):
            self.topology = self._remark(marking)
        else:
            check_in("marking", marking, (True, False))
        self.traffic = traffic
        self.plan: Plan = make_plan(traffic, self.topology, 0)
        self.interval_ns = _read_interval(interval)
        self._switch = check_in("switch", switch, SWITCHES)
        self.events = make_events(events, self.topology)
        check_events(self.events, self._switch)
        self._n_happened = 0
        self._max_steps = None if max_steps is None else check_int("max_steps", max_steps, 1)
        self._marking = bool(marking)
        self._congestion_control = _read_congestion_control(congestion_control, self.topology)
        check_in("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.render_mode = render_mode

        hosts, ports = self.topology.host_ports, self.topology.switch_ports
        self.action_map = make_action_map(action, len(hosts), floor)
        self.action_space = self.action_map.space
        if check_in("flow_matrix", flow_matrix, (True, False)) and FLOW_MATRIX not in features:
            features = (*features, FLOW_MATRIX)
        self.features = FeatureSet(features, len(ports), len(hosts))
        self.observation_space = self.features.space
        self.reward = Reward(reward)
        self._host_rates_bps = np.array([port.rate_bps for port in hosts], np.float64)
        self._port_rates_bps = np.array([port.rate_bps for port in ports], np.float64)
        self._queue_limits_bytes = np.array([port.queue_bytes for port in ports], np.float64)

        self._shares = np.ones(len(hosts))
        self._last: Snapshot | None = None
        self._interval: Interval | None = None
        self._deadline_ns = 0
        self._steps = 0
        if isinstance(backend, str):
            # Unknown names and options must fail here, not in the first reset.
            self._backend = self._make_backend()
        if self.events and not hasattr(self._backend or Backend, "event_records"):
            raise ConfigError("events", list(events), "none, with a backend that knows no events")

    @property
    def backend(self) -> Backend | None:
        """The backend, or None after `close` or a failure."""
        return self._backend

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
        self._shares = np.ones(len(self._host_rates_bps))
        self._steps = self._n_happened = 0
        self._last = self._guard(lambda: self._start_episode(plan_seed))
        self._deadline_ns = self._last.time_ns
        self._interval = self._measure(self._last, self._last)
        observation = self.features.observe(self._interval, self._shares, is_first=True)
        return observation, self._info(self._last, self._last)

    def step(
        self, action: npt.NDArray[np.float32]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Apply an action, let one interval pass, and return what it led to."""
        if self._last is None:
            raise BackendError("no episode is running: call reset() first")
        self._shares = self.action_map.to_shares(action)
        return self._guard(self._run_interval)

    def render(self) -> npt.NDArray[np.uint8] | None:  # type: ignore[override]
        """Return a picture of the topology with link load and queues, or None."""
        if self.render_mode is None or self._interval is None:
            return None
        from dcgym.envs.render import draw_network

        return draw_network(self.topology, self._interval, self._shares)

    def close(self) -> None:
        """End the network; a second call does nothing, and `reset` starts a new one."""
        backend, self._backend, self._last = self._backend, None, None
        if backend is not None:
            backend.close()

    def _start_episode(self, plan_seed: int) -> Snapshot:
        if self._backend is None:
            self._backend = self._make_backend()
        self._backend.start()
        self._backend.reset(
            self.plan,
            congestion_control=dict(self._congestion_control),
            marking=self._marking,
            seed=plan_seed,
            # A backend that knows no events need not know the word.
            **({"events": self.events} if self.events else {}),
        )
        self._apply_shares(self._backend)
        # A second read: the one of the reset dates from before the limits were set.
        return self._backend.snapshot()

    def _run_interval(self) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        backend, before = self._backend, self._last
        assert backend is not None and before is not None
        acknowledged_ns = self._apply_shares(backend)
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
        observation = self.features.observe(self._interval, self._shares)
        info = self._info(before, after)
        age_ns = self._deadline_ns + overrun_ns - after.time_ns if self.interval_ns else 0
        info["action_latency_us"] = latency_ns / 1e3
        info["observation_age_us"] = max(0, age_ns) / 1e3
        info["deadline_overrun_us"] = overrun_ns / 1e3
        info["is_restarted"] = is_late
        info["events"] = self._take_event_records(backend)
        is_truncated = self._max_steps is not None and self._steps >= self._max_steps
        reward = float(sum(info["reward_terms"].values()))
        return observation, reward, bool(backend.finished()), is_truncated, info

    def _is_late(self, acknowledged_ns: int) -> bool:
        return acknowledged_ns - self._deadline_ns > LATE_FRACTION * self.interval_ns

    def _apply_shares(self, backend: Backend) -> int:
        rates_bps = np.maximum(np.rint(self._shares * self._host_rates_bps), 1)
        return backend.apply_rates(rates_bps.astype(np.uint64))

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
        )

    def _info(self, before: Snapshot, after: Snapshot) -> dict[str, Any]:
        assert self._interval is not None
        hosts = counter_difference(after.hosts, before.hosts, HOST_COUNTERS)
        capacity_bytes = np.maximum(self._host_rates_bps / 8 * self._interval.duration_s, 1)
        backlog_bytes = after.ports["backlog_bytes"].astype(np.float64)
        inputs = RewardInputs(
            shares=self._shares,
            queues=np.clip(backlog_bytes / self._queue_limits_bytes, 0, 1),
            goodput_shares=np.clip(hosts["rx_bytes"] / capacity_bytes, 0, 1),
        )
        return {
            "reward_terms": self.reward.terms(inputs),
            "metrics": interval_metrics(self._interval, after.hosts, hosts),
            "rate_shares": self._shares.astype(np.float32),
            "interval_us": self._interval.duration_s * 1e6,
            "action_latency_us": 0.0,
            "observation_age_us": 0.0,
            "deadline_overrun_us": 0.0,
            "is_restarted": False,
            "events": [],
        }

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

    def _remark(self, marking: Mapping[str, Any]) -> Topology:
        if self._backend is not None:
            raise ConfigError("marking", dict(marking), "true or false where a backend is given")
        return with_marking(self.topology, marking)

    def _make_backend(self) -> Backend:
        spec = self._backend_spec
        if isinstance(spec, str):
            return make_backend(
                spec,
                self.topology,
                switch=self._switch,
                flow_matrix=self.features.has_flow_matrix,
            )
        if _is_backend(spec):
            return spec
        if not callable(spec):
            raise ConfigError("backend", spec, "a name, a Backend, or a function that makes one")
        return spec(self.topology)


def _is_backend(spec: Any) -> TypeGuard[Backend]:
    # Not isinstance with the protocol: a class that makes backends has the same attributes.
    return not isinstance(spec, str | type) and hasattr(spec, "apply_rates")


def _read_interval(interval: str | int | float) -> int:
    interval_ns = parse_duration(interval, "interval")
    if interval_ns < 0:
        raise ConfigError("interval", interval, "a duration such as '50ms', or '0ms' to run freely")
    return interval_ns


def _read_congestion_control(spec: str | Mapping[str, str], topology: Topology) -> dict[str, str]:
    names = [host.name for host in topology.hosts]
    if isinstance(spec, Mapping):
        check_keys(spec, names, "congestion_control")
        chosen = {name: spec.get(name, "cubic") for name in names}
    else:
        chosen = dict.fromkeys(names, spec)
    for algorithm in chosen.values():
        check_in("congestion_control", algorithm, CONGESTION_CONTROLS)
    return chosen
