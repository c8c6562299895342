"""What a package from outside adds to dcgym: one of every kind, in one module."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from acme.network import ToyNetwork

import dcgym
from dcgym.backends.base import Network
from dcgym.backends.ensemble import networks
from dcgym.backends.needs import NetworkNeeds
from dcgym.backends.options import BackendOptions
from dcgym.backends.registry import NETWORKS, Maker
from dcgym.envs.registration import add_environment
from dcgym.envs.registry import Environment, network_form
from dcgym.policies import LEARNERS, POLICIES, Policy, make_policy
from dcgym.policies.base import task_of
from dcgym.policies.checkpoint import CheckpointNote, write_note
from dcgym.policies.families import PolicyFamily
from dcgym.suites import SUITES, Case, Suite
from dcgym.tasks.balancing import (
    SCENARIOS,
    Scenario,
    ServerPool,
    Workload,
    make_scenario,
    server_group,
)
from dcgym.tasks.balancing.features import BALANCER_FEATURES, BalancerFeature
from dcgym.tasks.balancing.interval import PoolInterval
from dcgym.tasks.common.layout import Column, Layout
from dcgym.tasks.congestion.actions import ACTIONS
from dcgym.tasks.congestion.rates import RateDecision
from dcgym.tasks.network.arguments import read_topology
from dcgym.tasks.network.controls import CONGESTION_CONTROLS, CongestionControl
from dcgym.tasks.network.features import FEATURES
from dcgym.tasks.network.interval import Interval
from dcgym.tasks.network.rewards import NETWORK_REWARDS, RewardInputs
from dcgym.tasks.network.settings import NetworkSettings
from dcgym.tasks.network.task import NetworkTask
from dcgym.topologies import TOPOLOGIES, Link, Node, Topology
from dcgym.traffic import PLANS

FloatArray = npt.NDArray[np.float64]


def pair(rate_bps: int = 10_000_000) -> Topology:
    """Two hosts, one switch."""
    nodes = (Node("h1", "host", 0), Node("h2", "host", 1), Node("s1", "switch", 0))
    links = tuple(Link(host, "s1", rate_bps, 400_000, 30_000) for host in ("h1", "h2"))
    return Topology("acme-pair", nodes, links)


def idle(interval: Interval) -> FloatArray:
    """What a port leaves unused of its link."""
    return 1.0 - FEATURES["tx_rate"](interval)


def share(interval: PoolInterval) -> FloatArray:
    """The part of a balancer's flows that a server has."""
    flows = interval.level("ongoing")
    return flows / np.maximum(flows.sum(axis=-1, keepdims=True), 1)


def half_full(inputs: RewardInputs) -> FloatArray:
    """Best where what arrives is half of what could."""
    return -np.abs(inputs.goodput_shares.max(axis=-1) - 0.5)


class SquareAction:
    """The action is the square root of the rate share."""

    def __init__(self, n_hosts: int, floor: float) -> None:
        self.space = gym.spaces.Box(float(np.sqrt(floor)), 1.0, (n_hosts,), np.float32)

    def to_shares(self, action: npt.ArrayLike) -> FloatArray:
        return np.square(np.clip(np.asarray(action, np.float64), self.space.low, 1.0))

    def from_shares(self, shares: FloatArray) -> npt.NDArray[np.float32]:
        return np.sqrt(shares).astype(np.float32)


def trio(load: float = 0.6) -> Scenario:
    """Three equal servers."""
    applications = make_scenario("yao-sim-8").workload.applications
    return Scenario(
        "acme-trio", ServerPool((server_group("all", 3),)), Workload(applications, load)
    )


@dataclass(frozen=True, kw_only=True)
class QuietSettings(NetworkSettings):
    """Arguments of `acme/Quiet-v0`."""

    topology: object = "acme-pair"
    traffic: object = "acme-udp"
    backend: object = "acme-toy"
    features: tuple[str, ...] = ("acme_idle",)
    reward: object = "acme_half_full"
    action: str = "acme-square"


def quiet(settings: QuietSettings, given: Topology | None = None) -> NetworkTask:
    """Fill half of a link.

    ## Description
    As much as half.
    """
    topology, marks = read_topology(settings.topology, settings.marking, given)
    rates = RateDecision(topology, settings.action, 0.01)
    return NetworkTask(settings, topology, marks, (rates,), family="acme")


class ConstantPolicy:
    """The same share for every host."""

    name = "acme-constant"

    def __init__(self, share: float = 0.5) -> None:
        self._share = share

    def env_overrides(self) -> Mapping[str, object]:
        return {}

    def bind(self, env: object) -> ConstantPolicy:
        self._map = task_of(env).rate_map
        return self

    def act(self, observation: object, info: object) -> npt.NDArray[np.float32]:
        return self._map.from_shares(np.full(self._map.space.shape, self._share))


class SearchLearner:
    """Tries some shares and keeps the best."""

    algorithm, library = "acme-search", "acme"

    def train(
        self,
        env_config: Mapping[str, object],
        steps: int,
        seed: int,
        out_dir: str | Path,
        progress: object = None,
        *,
        n_envs: int | None = None,
        budget_s: float | None = None,
        options: object = None,
    ) -> Path:
        env = dcgym.make_env(dict(env_config))
        env.reset(seed=seed)
        shares = np.linspace(0.1, 1.0, 10)
        rates = env.unwrapped.task.rate_map
        earned = [env.step(rates.from_shares(np.full(2, share)))[1] for share in shares]
        env.close()
        folder = Path(out_dir)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "share.json").write_text(json.dumps(float(shares[int(np.argmax(earned))])))
        write_note(folder, CheckpointNote(self.algorithm, self.library, seed))
        return folder

    def load(self, folder: Path) -> Policy:
        share = json.loads((Path(folder) / "share.json").read_text())
        return make_policy("acme-constant", family="acme", share=share)


def make_toy(needs: NetworkNeeds, n_envs: int, options: BackendOptions) -> Network:
    return networks(n_envs, lambda: ToyNetwork(needs.topology))


four = CongestionControl.of_header(Path(__file__).with_name("acme_four.h"))
CONGESTION_CONTROLS.add("acme-four", four, "a window of four packets")
TOPOLOGIES.add("acme-pair", pair)
PLANS.add("acme-udp", {"name": "pairs", "transport": "udp"}, "pairs, in datagrams")
FEATURES.add("acme_idle", idle)
BALANCER_FEATURES.add("acme_share", BalancerFeature(share), "part of the flows")
NETWORK_REWARDS.add("acme_half_full", half_full)
ACTIONS.add("acme-square", SquareAction)
SCENARIOS.add("acme-trio", trio)
NETWORKS.add("acme-toy", Maker("acme-toy", ToyNetwork.capabilities, BackendOptions, make_toy))
POLICIES.add("acme", PolicyFamily("acme")).add("acme-constant", ConstantPolicy)
LEARNERS.add("acme-search", SearchLearner())
add_environment(
    Environment(
        "acme/Quiet-v0",
        "acme",
        network_form(QuietSettings, quiet),
        layout=Layout(
            (Column("reward_mean", "reward"), Column("goodput_bps", "goodput, Mbit/s", 1e6))
        ),
    )
)
FAR = {"name": "dumbbell", "hosts": 2, "rate": "100Mbit", "delay": "5ms"}
far = {"env": "CongestionControl-v2", "topology": FAR, "traffic": "pairs", "backend": "simulation"}
SUITES.add(
    "acme-windows",
    Suite(
        "acme-windows",
        "A window that stands still beside one that grows.",
        (Case(far),),
        ("acme-four", "cubic"),
        seeds=1,
        episode_s=4.0,
        warmup_s=1.0,
    ),
)
SUITES.add(
    "acme-suite",
    Suite(
        "acme-suite",
        "A constant share beside a searched one.",
        (Case({"env": "acme/Quiet-v0"}),),
        ("acme-constant", "acme-search"),
        seeds=2,
        episode_s=2.0,
        warmup_s=0.5,
    ),
)
