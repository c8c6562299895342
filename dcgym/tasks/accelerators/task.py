"""Weights of the devices in servers with accelerators."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.tasks.accelerators.observation import (
    COMMON_COLUMNS,
    ROW_COLUMNS,
    common_view,
    layout_of,
    row_view,
)
from dcgym.tasks.accelerators.protocol import DeviceState
from dcgym.tasks.accelerators.rewards import ACCELERATOR_REWARDS, AcceleratorInputs, Thresholds
from dcgym.tasks.accelerators.rules import DEVICE_RULES
from dcgym.tasks.accelerators.settings import AcceleratorBalancingSettings
from dcgym.tasks.common.actions import action_array
from dcgym.tasks.common.layout import CENSORED, Column, Layout
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.rows import RowLayout
from dcgym.units import parse_duration

__all__ = [
    "ACCELERATOR_LAYOUT",
    "KEEP",
    "LOWER",
    "RAISE",
    "AcceleratorTask",
    "accelerator_balancing",
]

FloatArray = npt.NDArray[np.float64]

LOWER, KEEP, RAISE = range(3)
"""The actions of ``action="step"``, of the accelerators' weights."""

SEED_LIMIT = 2**63
SLOWEST_TIMES = 4.0
_SERVICE = "time from a request's arrival to its answer"

ACCELERATOR_LAYOUT = Layout(
    columns=(
        Column("reward_mean", "reward", low=None),
        Column("latency_ms_mean", "latency mean, ms", better="low", meaning=f"Mean {_SERVICE}."),
        Column(
            "latency_ms_p99",
            "latency p99, ms",
            better="low",
            meaning=f"99th percentile of the {_SERVICE}.",
        ),
        CENSORED,
        Column("throughput_per_s", "throughput, 1/s", better="high", meaning="Requests served."),
        Column(
            "failed_share",
            "failed",
            better="low",
            meaning="Share of the requests that were dropped or lost.",
        ),
        Column(
            "accelerator_share",
            "accelerators",
            better="",
            meaning="Share of the requests that accelerators got.",
        ),
    ),
    series=(Column("latency_ms_p99", "latency p99, ms"), Column("accelerator_share", "share")),
)


class AcceleratorTask:
    """Weights of device positions; the same for every copy of a pool.

    Args:
        settings: The arguments of the environment.

    Attributes:
        pool: Servers, devices, requests.
        reward: Terms and weights.
        thresholds: What Algorithm 1 compares with.
        rows: Layout of the observation; None where the action has no number for each row.

    Raises:
        ConfigError: An argument is not allowed.
    """

    family = "accelerators"
    options: tuple[str, ...] = ("rate",)
    agents = ("controller",)

    def __init__(self, settings: AcceleratorBalancingSettings) -> None:
        self.settings = settings
        self.pool = settings.make_pool()
        self.n_servers, self.n_devices = self.pool.n_servers, self.pool.n_devices
        self.reward: Reward[AcceleratorInputs, FloatArray] = Reward(
            settings.reward, ACCELERATOR_REWARDS
        )
        if "regret" in self.reward.weights and not settings.oracle:
            raise ConfigError("oracle", False, "true with the reward regret")
        self._check_rule()
        threshold_ns = SLOWEST_TIMES * self.pool.slowest_ns
        if settings.latency_threshold is not None:
            threshold_ns = parse_duration(settings.latency_threshold, "latency_threshold")
        self.thresholds = Thresholds(
            threshold_ns / 1e9, settings.utilisation_threshold, settings.max_reward
        )
        has_all = settings.observation == "devices"
        layout = layout_of(self.n_servers * self.n_devices if has_all else self.n_devices)
        self._n_rows = layout.n_rows
        is_alike = settings.action != "step" and not has_all
        self.rows: RowLayout | None = layout if is_alike else None
        self.observation_space = gym.spaces.Box(0.0, 1.0, (layout.size,), np.float32)
        self.action_space = self._make_action_space()

    def __deepcopy__(self, memo: dict[int, object]) -> AcceleratorTask:
        """Return the task: it holds no state of an episode."""
        return self

    def _check_rule(self) -> None:
        rule, agents = DEVICE_RULES.find(self.settings.device_rule), self.pool.agents
        if not agents.serves(rule.needs):
            wanted = "event" if rule.needs == "busy" else "periodic"
            allowed = f"kind {wanted}: {rule.name} needs its reports of {rule.needs}"
            raise ConfigError("scenario.agents", agents.kind, allowed)

    def _make_action_space(self) -> gym.Space[object]:
        if self.settings.action == "step":
            return gym.spaces.Discrete(3)
        if self.settings.action == "levels":
            return gym.spaces.MultiDiscrete([self.settings.most_weight + 1] * self.n_devices)
        return gym.spaces.Box(-1.0, 1.0, (self.n_devices,), np.float32)

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""
        if self.settings.observation == "mean":
            rows = [f"device{number}" for number in range(self.n_devices)]
        else:
            rows = [
                f"server{number // self.n_devices}.device{number % self.n_devices}"
                for number in range(self._n_rows)
            ]
        return [f"{row}.{name}" for row in rows for name in ROW_COLUMNS] + list(COMMON_COLUMNS)

    @property
    def first_weights(self) -> FloatArray:
        """Weights of the positions that an episode begins with, (D,).

        They are the settings', or else those of the pool's first group.
        """
        given = self.settings.weights
        if given is not None:
            return np.array([given[min(i, len(given) - 1)] for i in range(self.n_devices)], float)
        group = self.pool.groups[0]
        weights = np.zeros(self.n_devices)
        weights[: len(group.devices)] = [device.weight for device in group.devices]
        return weights

    def weights_of(self, actions: npt.ArrayLike, before: FloatArray) -> FloatArray:
        """Return the weights of the positions that actions lead to, (E, D).

        Where all of them would be 0 the processors get all requests.

        Args:
            actions: Of each copy, (E,) or (E, D).
            before: The weights in force, (E, D).

        Raises:
            ConfigError: An action is not in the action space.
        """
        given, settings = action_array(actions), self.settings
        if settings.action == "weights":
            if given.shape != before.shape or not np.isfinite(given).all():
                raise ConfigError("action", actions, f"{self.n_devices} finite numbers")
            return _or_processors((np.clip(given.astype(np.float64), -1.0, 1.0) + 1) / 2)
        if settings.action == "levels":
            is_known = given.shape == before.shape and given.dtype.kind in "iu"
            if not is_known or (given < 0).any() or (given > settings.most_weight).any():
                allowed = f"{self.n_devices} whole numbers from 0 to {settings.most_weight}"
                raise ConfigError("action", actions, allowed)
            return _or_processors(given.astype(np.float64))
        if given.shape != before.shape[:1] or given.dtype.kind not in "iu":
            raise ConfigError("action", actions, "0 to lower, 1 to keep, 2 to raise")
        for number in given:
            check_in("action", int(number), (LOWER, KEEP, RAISE))
        weights = before.copy()
        weights[:, 1:] = np.clip(
            weights[:, 1:] + (given[:, None] - KEEP), 0, self.settings.most_weight
        )
        return weights

    def action_of(self, weights: npt.ArrayLike) -> npt.NDArray[np.generic]:
        """Return the action that sets these weights, for "levels" and "weights".

        Args:
            weights: Of each position, (D,), 0 to `most_weight`.

        Raises:
            ConfigError: An action of this kind sets no weights.
        """
        values = np.asarray(weights, np.float64)
        if self.settings.action == "levels":
            return np.rint(values).astype(np.int64)
        if self.settings.action == "weights":
            return (2 * values / self.settings.most_weight - 1).astype(np.float32)
        raise ConfigError("action", self.settings.action, "levels or weights")

    def observation(self, state: DeviceState, load: FloatArray) -> FloatArray:
        """Return what is seen of an interval, (E, n).

        Args:
            state: Of the pool.
            load: Requests a second over what the processors can serve, (E,).
        """
        rows = row_view(state, self.settings.observation == "devices")
        common = common_view(state, load, self.thresholds.latency_s)
        return np.concatenate([rows.reshape(len(rows), -1), common], axis=1)

    def inputs(
        self, state: DeviceState, weights: FloatArray, best_p99_s: FloatArray
    ) -> AcceleratorInputs:
        """Return what rewards look at.

        Args:
            state: Of the pool.
            weights: The weights that were in force, (E, D).
            best_p99_s: The p99 of the best weights, (E,); NaN where it is not known.
        """
        offered = state.offered
        if self.settings.failure == "positions":
            offered = offered.mean(axis=1, keepdims=True)
        return AcceleratorInputs(
            mean_s=state.latency_mean_ns / 1e9,
            p99_s=state.latency_p99_ns / 1e9,
            best_p99_s=best_p99_s,
            arrivals=state.arrivals.astype(np.float64),
            failed_share=state.failed_share,
            offered_max=offered.max(axis=(1, 2)),
            processor_utilisation=state.utilisation[:, :, 0].mean(axis=1),
            processors_only=np.all(weights[:, 1:] == 0, axis=1),
            all_devices=np.all(weights > 0, axis=1),
            thresholds=self.thresholds,
        )

    def draw_rate(self, seed: int) -> float:
        """Return the requests a second of an episode.

        Args:
            seed: Seed of the episode.
        """
        if self.settings.rate is not None:
            return self.settings.rate
        low, high = self.settings.loads
        drawn = np.random.default_rng(seed).uniform(low, high)
        return float(drawn) * self.pool.server_capacity_per_s

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode.

        Args:
            generator: Source of chance.
        """
        return int(generator.integers(SEED_LIMIT))


def _or_processors(weights: FloatArray) -> FloatArray:
    weights[weights.sum(axis=1) <= 0, 0] = 1.0
    return weights


# Long because its docstring is the page of the environment.
def accelerator_balancing(settings: AcceleratorBalancingSettings) -> AcceleratorTask:
    """Weigh the devices of servers with accelerators, so that requests are answered soon.

    ## Description
    A server holds processors and weaker accelerators, such as SmartNICs, each with an address of
    its own. A layer-4 balancer sends each request to a server, then to a device in it. The second
    choice is a ring of slots, filled by weight; the action sets these weights once an interval.
    Accelerators add capacity, and are slow: with little load a request that gets one only waits
    longer. The default is P4Wise (Tajbakhsh, 2023, chapter 6): 128 servers of 18.2 requests a
    second with two SmartNICs each, requests of constant work, weights of 6:0 to begin with. At low
    rates the processors alone are best, at high rates weights such as 6:1.

    Any other rule between the devices may take the place of the ring, such as `prt` or `lur`, which
    use the reports of agents. The action then has an effect with `wrr` and `dynamic-wrr` only.

    ## Action Space
    | action | space | meaning |
    |---|---|---|
    | "step" | `Discrete(3)` | 0, 1, 2: the accelerators' weights one lower, as they are, one |
    | | | higher, from 0 to ``most_weight``; those of the processors stay (P4Wise) |
    | "levels" | `MultiDiscrete` | weight of each device position, 0 to ``most_weight`` |
    | "weights" | `Box(-1, 1, (D,))` | the same as a real number; -1 is weight 0 |

    A position is the place of a device in its server: 0 the processors, 1 the first accelerator.
    All servers use the same weights. Where all would be 0, the processors get every request.

    ## Observation Space
    `Box(0, 1, (4 D + 4,))`, float32; with ``observation="devices"`` 4 N D + 4 numbers. Of each
    position, mean over the servers:

    | number | meaning |
    |---|---|
    | utilisation | share of the workers' time in use over the interval |
    | queue | requests q at the device at its end, as q / (q + 8) |
    | load | reported utilisation, as the balancer knows it |
    | weight | share of its server's weights |

    Then p99 / (p99 + threshold), the rate over what the processors can serve as x / (1 + x), the
    share of failed requests, and the mean age of the reports as x / (x + 1 s).

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.accelerators.rewards`. `p4wise` is Algorithm 1: a
    failure, -10, where more is offered than devices can serve; a success, +10, where the p99 is
    below ``latency_threshold`` with the processors alone, or with all devices while the processors
    are busier than ``utilisation_threshold``; else -1. Other terms: `latency`, `p99`, `failures`
    and `regret`, the last one against the best weights.

    Algorithm 1 leaves gaps, which are closed here. Failure looks at the offered load, which can be
    above 1 where a utilisation cannot, as the mean over the servers of a position: chance overloads
    some server in any short interval (``failure="devices"`` takes the largest device). An episode
    always takes at least one action, so that a pool that is overloaded at first can be learned.
    ``max_steps`` ends episodes that neither succeed nor fail. A p99 below 1 s is out of reach where
    accelerators alone take longer: ``latency_threshold=None`` scales it to the slowest device.

    ## Starting State
    Idle devices, the scenario's weights, and one interval with them. The rate is drawn from
    ``loads``, is ``rate``, or the option ``rate`` of `reset`. The same seed gives every policy the
    same requests.

    ## Episode End
    Terminates at a success or a failure of Algorithm 1, if the term `p4wise` is part of the reward
    and ``is_terminal`` is true, and when the last request of a scenario with ``requests`` has
    ended. Truncated after ``max_steps``, or Gymnasium's `max_episode_steps`, 100 steps by default.
    Runs of `dcgym.evaluate`, `dcgym run` and suites have ``is_terminal`` false where nobody names
    it, so that all policies are measured equally long.

    ## Information
    Events count from the first observation, as `time_s` does. In the twin nothing is late.

    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | of the interval: latency_ms_mean, latency_ms_p50, latency_ms_p99, rate_per_s, |
    | | throughput_per_s, failed, failed_share, accelerator_share, utilisation_spread, |
    | | reports_per_s, inherited, pcc_violations |
    | weights | weight of each position that was in force |
    | utilisation | mean of each position |
    | best_weights, best_p99_ms | with ``oracle``: the best accelerator weight, and its p99 |
    | times of a step | those of `dcgym.envs.session.STEP_TIMES` |

    ## Arguments
    | name | meaning |
    |---|---|
    | scenario | name, mapping (``{"preset": "p4wise-64", "demand": "exponential"}``), file, or |
    | | `AcceleratorPool` |
    | backend | "simulation" or "emulation", or a function that makes a `DevicePool` of a pool |
    | | and a number |
    | interval, settle | control interval, and its beginning that is not measured |
    | | (a fifth where 2 s are too long and nobody asked for them) |
    | rate, loads | requests a second; or range of the rate over what the processors can serve |
    | agents | what devices report, in the place of the scenario's: a mapping of `Agents` |
    | server_rule | rule between servers, such as "ecmp" or "lsq" |
    | device_rule | rule between the devices of a server, such as "wrr" or "prt" |
    | action, most_weight | "step", "levels" or "weights"; largest weight |
    | weights | weights to begin with, such as ``(6, 1)``; the last one is for all that follow |
    | observation | "mean" or "devices" |
    | reward | a term, a list of terms, or a mapping term to weight |
    | latency_threshold, utilisation_threshold, max_reward | of Algorithm 1 |
    | failure, is_terminal | what counts as a failure; whether results end the episode |
    | oracle | whether infos name the best weights, found by exhaustive search |
    | record_limit | finished requests kept for `flow_records` |
    | paths | "own": each copy has its own requests; "shared": copies that begin together share |
    | | them |
    | render_mode | None or "rgb_array": queues and weights of the positions (extra `video`) |
    | randomise | distribution of each field that is drawn at `reset`, by its path; or None |
    | max_steps | steps until truncation, or None |
    | info | "full"; "flat": one level of floats, such as ``metrics/rate_per_s``; or "none" |

    ## Version History
    - v0: first version

    Args:
        settings: The arguments above.
    """
    return AcceleratorTask(settings)
