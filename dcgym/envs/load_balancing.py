"""Which server gets the next flow: one balancer, or all of them under one agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium.envs.registration import EnvSpec

from dcgym.config import check_in, check_keys
from dcgym.envs.balancing_core import BalancingCore, BalancingSettings
from dcgym.tasks.balancing import Scenario
from dcgym.tasks.balancing.actions import make_weight_map
from dcgym.tasks.balancing.presets import ScenarioSpec

__all__ = ["CentralLoadBalancingEnv", "LoadBalancingEnv", "pool_info"]

Observation: TypeAlias = npt.NDArray[np.float32]
RewardSpec: TypeAlias = str | Sequence[str] | Mapping[str, float]
BackendSpec: TypeAlias = str | Callable[[Scenario, int], Any]

ALL_POOLS = np.ones(1, np.bool_)


class LoadBalancingEnv(gym.Env[Observation, npt.NDArray[Any]]):
    """Weigh the servers of one layer-4 balancer so that flows finish soon.

    ## Description
    Clients open flows to one virtual address; an edge router spreads them over M balancers, and
    each balancer picks one of N servers per flow. The answer goes straight to the client (direct
    server return): a balancer sees its own part of the flows, one direction, and no task sizes.
    Once per control interval the agent sets the weights ``w`` of one balancer; per flow the data
    plane then takes the server with the least ``(q + 1) / w``, ``q`` being the flows it tracks
    there. The other balancers follow a fixed rule. After Yao, "Autonomous Service Management in the
    Cloud", 2023, chapters 3, 6 and 7.

    ## Action Space
    One weight per server; only their ratios count. With ``action="continuous"``:
    `Box(-1, 1, (N,))`, the weight being ``8**a``, 1/8 to 8. With ``action="discrete"``:
    `MultiDiscrete([3] * N)`, the index of one of the weights 1.0, 1.5 and 2.0, as in the published
    agents. Rules with weights of their own, such as ``sed``, ignore the action.

    ## Observation Space
    `Box(12 N + 5)`, float32: what the balancer measured itself. Per server the flows it tracks and
    five reductions each of sampled flow durations and completion times, then five of the times
    between new flows, all squashed to 0..1 by ``x / (x + scale)``, then the last action, -1 to 1.

    | position | meaning | scale |
    |---|---|---|
    | 11 j | flows tracked on server j | 8 |
    | 11 j + 1 to 11 j + 5 | durations of ongoing flows on server j | 1 s |
    | 11 j + 6 to 11 j + 10 | completion times of flows on server j | 1 s |
    | 11 N to 11 N + 4 | times between two new flows | 0.1 s |
    | 11 N + 5 to 12 N + 4 | the last action | |

    The five reductions are the mean, 90th percentile, standard deviation, decayed mean and decayed
    90th percentile (0.9 per second of a sample's age). `env.unwrapped.observation_labels`
    names each position.

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.balancing.rewards`, of the interval after the action:
    fairness of the flow durations that this balancer sampled on its servers.

    ## Starting State
    An empty pool after one interval with equal weights, so that the first observation is measured.
    The same seed gives every policy the same arrivals and task sizes, on every machine, in every
    number of environments side by side.

    ## Episode End
    Traffic does not end, so nothing terminates. `gymnasium.make` truncates after 240 steps
    (60 s) unless told otherwise through `max_episode_steps`.

    ## Information
    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | of the interval: flows, completed, fct_us_mean |
    | metrics | at its end: queue, jain, overprovision, utilisation |
    | metrics | since the episode began: untracked, rejected, pcc_violations |
    | servers | what the balancer measured, in plain units, for slow loops such as HLB |
    | weights | the weights in force |
    | time_s | simulated time since the first observation |
    | interval_us | length of the interval |
    | action_latency_us | from an observation to the weights that answer it |
    | observation_age_us | age of the balancers' counters in it, up to 10 ms |
    | deadline_overrun_us | how late the interval ended; all three are 0 in the simulation |
    | is_restarted | whether the action came so late that an interval of its own began |

    ## Arguments
    | name | meaning |
    |---|---|
    | scenario | name, mapping (``{"preset": "yao-sim-8", "load": 0.9}``), file, or `Scenario` |
    | backend | "simulation"; "emulation": BPF balancers and HTTP servers in real time; a function |
    | | that makes a twin of a scenario and a number of pools |
    | interval | control interval, such as "250ms" |
    | reward | a term, a list of terms, or a mapping term to weight |
    | action | "continuous" or "discrete" |
    | rule | rule of the controlled balancer; "weighted" uses the action |
    | others | rule of the other balancers |
    | balancer | number of the controlled balancer |
    | record_limit | finished flows kept for `flow_records` |
    | render_mode | None or "rgb_array": the servers with their queues |
    | max_steps | steps until truncation, or None |

    ## Version History
    - v0: first version
    """

    # Declared as Gymnasium declares it, which RUF012 cannot know.
    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012
    policy_family = "balancing"

    def __init__(
        self,
        scenario: ScenarioSpec = "yao-sim-8",
        backend: BackendSpec = "simulation",
        interval: str | int | float = "250ms",
        reward: RewardSpec = "vbf_log_vbf",
        action: str = "continuous",
        rule: str = "weighted",
        others: str = "sed",
        balancer: int = 0,
        record_limit: int = 0,
        render_mode: str | None = None,
        max_steps: int | None = None,
    ) -> None:
        """Check the arguments and build the spaces; nothing is started before `reset`."""
        settings = BalancingSettings(
            *(scenario, backend, interval, reward, action, rule, record_limit),
            max_steps=max_steps,
        )
        core = BalancingCore(settings, 1, (balancer,), others)
        self._set_up(core, render_mode)

    def _set_up(self, core: BalancingCore, render_mode: str | None) -> None:
        self.core = core
        self.scenario = core.scenario
        n_agents = len(core.controlled)
        self.action_map = make_weight_map(core.settings.action, n_agents * core.n_servers)
        self.action_space = self.action_map.space
        one = core.observation.space
        self.observation_space = gym.spaces.Box(
            np.tile(one.low, n_agents), np.tile(one.high, n_agents), dtype=np.float32
        )
        check_in("render_mode", render_mode, (None, *self.metadata["render_modes"]))
        self.render_mode = render_mode
        self._max_steps = core.settings.max_steps
        self._steps = 0
        self._spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """The registered specification; the emulation is not deterministic, whatever it says."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None and self.core.settings.is_real_time:
            spec = replace(spec, nondeterministic=True)
        self._spec = spec

    @property
    def configured_weights(self) -> npt.NDArray[np.float64]:
        """The weight of each server as its operator sees it, once per controlled balancer."""
        return np.tile(self.core.configured_weights, len(self.core.controlled))

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of the observation, with its balancer where there are several."""
        labels, agents = self.core.observation.labels, self.core.controlled
        if len(agents) == 1:
            return labels
        return [f"balancer{agent}.{label}" for agent in agents for label in labels]

    @property
    def backend(self) -> Any:
        """The twin, or None before `reset` and after `close`."""
        return self.core.twin if self.core.is_running else None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode with empty servers.

        Args:
            seed: Seeds the arrivals of this and the following episodes.
            options: None, or empty: there are none yet.

        Returns:
            A measured observation, and its info.
        """
        super().reset(seed=seed)
        check_keys(options or {}, (), "options")
        pool_seed = np.array([self.np_random.integers(2**63)], np.uint64)
        self.core.begin(pool_seed, ALL_POOLS)
        self.core.advance(None)
        self._steps = 0
        return self._observation(), pool_info(self.core, range(len(self.core.controlled)))

    def step(
        self, action: npt.NDArray[Any]
    ) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Set the weights, let one interval pass, and return what it led to."""
        # Checks the shape before the agents' actions are told apart.
        self.action_map.to_weights(action)
        self.core.advance(np.reshape(action, (1, -1, self.core.n_servers)))
        self._steps += 1
        is_truncated = self._max_steps is not None and self._steps >= self._max_steps
        info = pool_info(self.core, range(len(self.core.controlled)))
        reward = float(sum(info["reward_terms"].values()))
        return self._observation(), reward, False, is_truncated, info

    def flow_records(self) -> npt.NDArray[Any]:
        """Return and forget finished flows, at most `record_limit` (`BalancingTwin.records`)."""
        records: npt.NDArray[Any] = self.core.twin.records(0)
        return records

    def render(self) -> npt.NDArray[np.uint8] | None:  # type: ignore[override]
        """Return a picture of the servers with their queues and weights, or None."""
        if self.render_mode is None or not self.core.is_running:
            return None
        from dcgym.envs.balancing_render import draw_servers

        weights = [self.core.weights(0, agent) for agent in range(len(self.core.controlled))]
        return draw_servers(*self.core.queues(0), np.stack(weights))

    def close(self) -> None:
        """End the twin or the emulator; a second call does nothing."""
        self.core.close()

    def _observation(self) -> Observation:
        # The core makes new arrays at every step: this view is the only holder.
        return self.core.observations.reshape(-1)


class CentralLoadBalancingEnv(LoadBalancingEnv):
    """Weigh the servers of all balancers at once: one agent that sees what all of them see.

    ## Description
    The system of `dcgym/LoadBalancing-v0` with one agent over all M balancers: the centralised
    learner that the multi-agent studies compare with. It needs what they avoid, a channel
    from every balancer to the agent.

    ## Action Space
    One weight per balancer and server, balancer by balancer: `Box(-1, 1, (M * N,))` or
    `MultiDiscrete([3] * (M * N))`, with the scales of `dcgym/LoadBalancing-v0`.

    ## Observation Space
    `Box(M * (12 N + 5))`, float32: the observations of `dcgym/LoadBalancing-v0`, one balancer after
    the other.

    ## Rewards
    The mean over the balancers of the reward that each would get.

    ## Starting State
    As `dcgym/LoadBalancing-v0`.

    ## Episode End
    As `dcgym/LoadBalancing-v0`.

    ## Information
    As `dcgym/LoadBalancing-v0`; ``servers`` and ``weights`` hold a row per balancer and server.

    ## Arguments
    Those of `dcgym/LoadBalancing-v0` without ``others`` and ``balancer``; flows that start within
    ``warm_up`` are left out of `flow_records`.

    ## Version History
    - v0: first version
    """

    def __init__(
        self,
        scenario: ScenarioSpec = "yao-sim-8",
        backend: BackendSpec = "simulation",
        interval: str | int | float = "250ms",
        reward: RewardSpec = "vbf_log_vbf",
        action: str = "continuous",
        rule: str = "weighted",
        record_limit: int = 0,
        warm_up: str | int | float = 0,
        render_mode: str | None = None,
        max_steps: int | None = None,
    ) -> None:
        """Check the arguments and build the spaces; nothing is started before `reset`."""
        settings = BalancingSettings(
            *(scenario, backend, interval, reward, action, rule, record_limit, warm_up),
            max_steps=max_steps,
        )
        self._set_up(BalancingCore(settings, 1), render_mode)


def pool_info(core: BalancingCore, agents: Sequence[int]) -> dict[str, Any]:
    """Return the info of pool 0 for an agent that stands for these controlled balancers."""
    totals = core.twin.summary(0)
    metrics = {name: float(values[0]) for name, values in core.metrics().items()}
    metrics["rejected"] = float(totals["rejected"])
    metrics["pcc_violations"] = float(totals["pcc_violations"])
    servers = [core.servers(0, agent) for agent in agents]
    chosen = list(agents)
    return {
        "reward_terms": {name: float(v[0, chosen].mean()) for name, v in core.terms.items()},
        "metrics": metrics,
        "servers": {name: np.concatenate([s[name] for s in servers]) for name in servers[0]},
        "weights": np.concatenate([core.weights(0, agent) for agent in agents]),
        "time_s": core.time_s(0),
        "interval_us": core.settings.interval_ns / 1e3,
        **core.timing(),
    }
