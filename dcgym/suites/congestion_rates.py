"""The suite `rate-sweep-congestion`: congestion controls and learners at loads of 0.1 to 0.95.

Traffic is web search, data mining and bursts of incast between 16 hosts of a leaf-spine network
without oversubscription. Its links, round trip and marking threshold are those of DCTCP's testbed
(Alizadeh and others, SIGCOMM 2010): 1 Gbit/s, 100 us and 20 packets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from dcgym.backends.registry import NETWORKS
from dcgym.config import check_seconds
from dcgym.defaults import DefaultNumber
from dcgym.suites.scores import Scoring
from dcgym.suites.shapes import Check, Claim, Shape, all_below, shapes_among
from dcgym.suites.spec import Arguments
from dcgym.suites.suite import SUITES, Case, Suite, Training

__all__ = [
    "CONTROLS",
    "INCAST",
    "LEARNED",
    "LOADS",
    "REFERENCES",
    "TRAFFIC",
    "rate_sweep_congestion",
]

LOADS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Offered load over the links of the hosts."""

CONTROLS = (
    *("cubic", "reno", "dctcp", "new-vegas", "bbr"),
    *("swift", "timely", "theta-powertcp", "copa"),
)
LEARNED = ("cma-es", "ppo", "ddpg", "td3", "sac")
REFERENCES = ("fair-share", "random")
WEB, MINING, INCAST = TRAFFIC = ("web-search", "data-mining", "incast")
"""Kinds of traffic."""

RATE_MBIT = 1000
QUEUE, MARK_PACKETS = "400KB", 20
LENGTHS_S: Mapping[str, float] = {WEB: 6.0, MINING: 10.0, INCAST: 2.0}
"""Lengths of runs: flows of data mining are long, and bursts of incast many."""

SHORT_TAIL, LONG_MEAN, TAIL = "slowdown_p99_short", "slowdown_mean_long", "slowdown_p99"
DCTCP = "Alizadeh and others, SIGCOMM 2010"
POWER = "Addanki and others, NSDI 2022"
SWIFT = "Kumar and others, SIGCOMM 2020"
OURS = "our expectation"


@dataclass(frozen=True)
class _Budget:
    """How much of the suite a backend runs.

    Attributes:
        rate_mbit: Rate of a host's link.
        delay_us: Delay of a link.
        traffic: Kinds of traffic.
        loads: Loads.
        policies: Names of the policies.
        lengths_s: Length of a run of each kind of traffic.
        warmup_s: What the metrics leave out of it.
    """

    rate_mbit: int
    delay_us: int
    traffic: tuple[str, ...]
    loads: tuple[float, ...]
    policies: tuple[str, ...]
    lengths_s: Mapping[str, float]
    warmup_s: float


TWIN_BUDGET = _Budget(
    RATE_MBIT, 10, TRAFFIC, LOADS, (*CONTROLS, *REFERENCES, *LEARNED), LENGTHS_S, 1.0
)
# Two cores forward some 300 Mbit/s over three switches in time. There a packet takes 600 us onto a
# link. What holds it for 10 us more held it longer: 15 of 27 runs were invalid.
REAL_TIME_BUDGET = _Budget(
    20, 0, (WEB,), (0.3, 0.6, 0.9), ("cubic", "dctcp", "bbr"), {WEB: 20.0}, 4.0
)


def rate_sweep_congestion(backend: str = "simulation", episode_s: float | None = None) -> Suite:
    """Return the suite; one training serves all cases: it draws them, in the twin.

    A backend in real time runs alone, and a part of it: web search at three loads over links of 20
    Mbit/s, with three controls.

    Args:
        backend: Name of a backend of networks.
        episode_s: Seconds of one run; by kind of traffic 6, 10 and 2, and in real time 20, if None.

    Raises:
        ConfigError: A value is not allowed.
    """
    is_real_time = NETWORKS.find(backend).capabilities.real_time
    budget = REAL_TIME_BUDGET if is_real_time else TWIN_BUDGET
    lengths_s = dict(budget.lengths_s)
    if episode_s is not None:
        lengths_s = dict.fromkeys(budget.traffic, check_seconds("episode_s", episode_s))
    network = _network(budget)
    trained = _training(network, lengths_s[WEB])
    return Suite(
        name="rate-sweep-congestion",
        description="Congestion controls and learners at loads from 0.1 to 0.95, leaf-spine.",
        cases=tuple(
            Case(
                {**network, "backend": backend, "traffic": _traffic(kind, load, lengths_s[kind])},
                _name(kind, load),
                {"traffic": kind, "load": load},
                train_env=trained,
                train_name="train",
                episode_s=lengths_s[kind],
            )
            for kind, load in product(budget.traffic, budget.loads)
        ),
        policies=budget.policies,
        seeds=3 if is_real_time else 5,
        episode_s=max(lengths_s.values()),
        warmup_s=DefaultNumber(budget.warmup_s),
        jobs=1 if is_real_time else 2,
        is_alone=is_real_time,
        training=Training(seconds=60.0, envs=6, trainings=3),
        shapes=_shapes(budget),
        scoring=Scoring((SHORT_TAIL, LONG_MEAN), "random", "fair-share"),
        maker=rate_sweep_congestion,
    )


def _name(kind: str, load: float) -> str:
    return f"{kind}-{load:g}"


def _network(budget: _Budget) -> Arguments:
    topology = {
        "name": "leaf-spine",
        "rate": f"{budget.rate_mbit}Mbit",
        "delay": f"{budget.delay_us}us",
        "queue": QUEUE,
        "mark": MARK_PACKETS * 1500,
        # Four hosts of a leaf have two spines.
        "tiers": {"spine": {"rate": f"{2 * budget.rate_mbit}Mbit"}},
    }
    return {"env": "CongestionControl-v2", "topology": topology, "interval": "20ms"}


def _training(network: Arguments, episode_s: float) -> Arguments:
    """Return the network in the twin with any kind of traffic at any second load."""
    drawn = [_traffic(kind, load, episode_s) for kind in TRAFFIC for load in LOADS[::2]]
    return {**network, "backend": "simulation", "randomise": {"traffic": {"choice": drawn}}}


def _traffic(kind: str, load: float, duration_s: float) -> Mapping[str, object]:
    own = (
        {"name": "incast-bursts", "sizes": "32KB"}
        if kind == INCAST
        else {"name": "poisson", "sizes": kind}
    )
    return {**own, "load": load, "duration": f"{duration_s:g}s"}


def _shapes(budget: _Budget) -> tuple[Shape, ...]:
    claims = (*_dctcp_shapes(budget.loads), *_delay_shapes(budget.loads))
    cases = [_name(*one) for one in product(budget.traffic, budget.loads)]
    return shapes_among(claims, cases, budget.policies)


def _dctcp_shapes(loads: Sequence[float]) -> tuple[Claim, ...]:
    return (
        (
            "dctcp-queue",
            "With web search, DCTCP's queues are below half of CUBIC's",
            DCTCP,
            _below("queue_bytes_mean", "dctcp", "cubic", WEB, loads, 0.5),
        ),
        (
            "dctcp-short",
            "With web search, DCTCP's tail of short flows is below CUBIC's at every load",
            DCTCP,
            _below(SHORT_TAIL, "dctcp", "cubic", WEB, loads),
        ),
        (
            "dctcp-long",
            "With web search, DCTCP's long flows take at most 10 % longer than CUBIC's",
            DCTCP,
            _below(LONG_MEAN, "dctcp", "cubic", WEB, loads, 1.1),
        ),
        (
            "dctcp-mining",
            "With data mining, DCTCP's tail of short flows is below CUBIC's at every load",
            DCTCP,
            _below(SHORT_TAIL, "dctcp", "cubic", MINING, loads),
        ),
        (
            "dctcp-incast",
            "In bursts of incast, DCTCP's tail is below CUBIC's at every load",
            DCTCP,
            _below(TAIL, "dctcp", "cubic", INCAST, loads),
        ),
    )


def _delay_shapes(loads: Sequence[float]) -> tuple[Claim, ...]:
    heavy = [load for load in loads if load >= 0.8]
    return (
        (
            "swift-short",
            "With web search, Swift's tail of short flows is below DCTCP's",
            SWIFT,
            _below(SHORT_TAIL, "swift", "dctcp", WEB, loads),
        ),
        (
            "swift-long",
            "With web search from 0.8 on, Swift's long flows take longer than DCTCP's",
            OURS,
            _below(LONG_MEAN, "dctcp", "swift", WEB, heavy),
        ),
        (
            "powertcp-timely",
            "With web search, theta-PowerTCP's tail of short flows is below TIMELY's",
            POWER,
            _below(SHORT_TAIL, "theta-powertcp", "timely", WEB, loads),
        ),
        (
            "learned-short",
            "With web search, PPO's limits lower the tail of short flows of CUBIC, which it limits",
            OURS,
            _below(SHORT_TAIL, "ppo", "cubic", WEB, loads),
        ),
    )


def _below(
    metric: str, policy: str, other: str, kind: str, loads: Sequence[float], factor: float = 1.0
) -> tuple[Check, ...]:
    return all_below(metric, policy, other, [_name(kind, load) for load in loads], factor)


_SUITE = rate_sweep_congestion()
SUITES.add(_SUITE.name, _SUITE, _SUITE.description)
