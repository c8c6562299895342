"""How far the packet twin is from the kernel: both backends under the same cases and policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature

from dcgym.config import check_int, check_seconds
from dcgym.defaults import DefaultNumber
from dcgym.errors import ConfigError
from dcgym.policies import POLICIES
from dcgym.registry import Registry
from dcgym.suites.checks import fit_policies
from dcgym.suites.congestion import QUICK_ENV
from dcgym.suites.spec import Arguments
from dcgym.suites.suite import SUITES, Case, Suite
from dcgym.suites.twin_error.comparison import EMULATION, TWIN

__all__ = ["TWIN_CASES", "TwinCase", "congestion_policies", "congestion_suite", "draws_actions"]

FAMILY = "congestion"
EPISODE_S, WARMUP_S = 12.0, 2.0
MOST_REPEATS = 100


@dataclass(frozen=True)
class TwinCase:
    """A network with its traffic that both backends run.

    Attributes:
        title: What it is, in one line.
        env: Arguments of the environment, without the backend.
        episode_s: Length of a run.
    """

    title: str
    env: Arguments
    episode_s: float = EPISODE_S


def _dumbbell(**options: object) -> Mapping[str, object]:
    return {"name": "dumbbell", "hosts": 4, "queue": "400KB", **options}


# What the emulation's loop keeps on a small machine: beside the packets of a whole tree it needs
# 2 to 10 ms from the end of an interval to the next action.
FAST, BESIDE_A_TREE = "10ms", "50ms"
FAT_TREE: Mapping[str, object] = {"name": "fat-tree", "k": 4, "rate": "100Mbit", "queue": "400KB"}

TWIN_CASES: Registry[TwinCase] = Registry("twin cases", "cases")
"""Networks with traffic that both backends run. None has links with a delay: those of the emulation
delay nothing."""

_BUILT_IN: Mapping[str, TwinCase] = {
    "dumbbell-10": TwinCase("two bulk flows, 10 Mbit/s: the quick benchmark", QUICK_ENV),
    "dumbbell-100": TwinCase(
        "two bulk flows, 100 Mbit/s",
        {"topology": _dumbbell(rate="100Mbit"), "traffic": "pairs", "interval": FAST},
    ),
    "dumbbell-1000": TwinCase(
        "two bulk flows, 1 Gbit/s",
        {"topology": _dumbbell(rate="1Gbit"), "traffic": "pairs", "interval": FAST},
    ),
    "two-way": TwinCase(
        "two bulk flows each way over 100 Mbit/s, K = 30 KB",
        {
            "topology": _dumbbell(rate="100Mbit", mark="30KB"),
            "traffic": "stride-2",
            "interval": FAST,
        },
    ),
    "incast": TwinCase(
        "bursts of 8 flows of 32 KB to one host, 100 Mbit/s, 128 KB of queue",
        {
            "topology": {"name": "single-switch", "hosts": 9, "rate": "100Mbit", "queue": "128KB"},
            "traffic": {"name": "incast-bursts", "senders": 8, "sizes": "32KB", "load": 0.1},
            "interval": FAST,
        },
    ),
    "fat-tree-stride": TwinCase(
        "k = 4 fat-tree, 100 Mbit/s, 16 bulk flows between pods",
        {"topology": FAT_TREE, "traffic": "stride-8", "interval": BESIDE_A_TREE},
    ),
    "fat-tree-hotspot": TwinCase(
        "the same tree, half of 16 bulk flows go to one host",
        {"topology": FAT_TREE, "traffic": "hotspot", "interval": BESIDE_A_TREE},
    ),
    "web-search": TwinCase(
        "web search at a load of 0.5 over a bottleneck of 100 Mbit/s",
        {
            "topology": {"name": "dumbbell", "hosts": 8, "rate": "100Mbit", "queue": "400KB"},
            "traffic": "web-search-0.5",
            "interval": FAST,
        },
        episode_s=30.0,
    ),
}
for _name, _case in _BUILT_IN.items():
    TWIN_CASES.add(_name, _case, _case.title)


def congestion_suite(
    cases: Sequence[str] | None = None, seconds: float | None = None, repeats: int = 1
) -> Suite:
    """Return the comparison: each case, policy and seed runs in the twin and in the emulation.

    Args:
        cases: Names in `TWIN_CASES`; all of them if None.
        seconds: Length of every run; each case's own if None.
        repeats: Emulated runs of each seed. Two and more tell how far equal runs are apart where
            seeds draw the traffic or the actions.

    Raises:
        ConfigError: A value is not allowed.
    """
    names = TWIN_CASES.names() if cases is None else cases
    chosen = {name: TWIN_CASES.find(name) for name in names}
    if not chosen or len(chosen) != len(names):
        raise ConfigError("cases", ",".join(names), f"each once of {', '.join(TWIN_CASES)}")
    repeats = check_int("repeats", repeats, 1, MOST_REPEATS)
    again = [f"{EMULATION}-{number}" for number in range(2, repeats + 1)]
    given_s = None if seconds is None else check_seconds("episode_s", seconds)
    return Suite(
        name="congestion-twin-error",
        description="The packet twin beside the emulation, on the same traffic.",
        cases=tuple(
            Case(
                {**case.env, "backend": TWIN if run == TWIN else EMULATION},
                f"{name}-{run}",
                episode_s=given_s or case.episode_s,
            )
            for name, case in chosen.items()
            for run in (TWIN, EMULATION, *again)
        ),
        policies=congestion_policies()[0],
        seeds=3,
        episode_s=given_s or EPISODE_S,
        warmup_s=DefaultNumber(WARMUP_S),
        jobs=1,
        is_alone=True,
    )


def congestion_policies() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the policies without training that both backends can run, and those they cannot."""
    names = tuple(POLICIES.find(FAMILY).names())
    fit = names
    for backend in (TWIN, EMULATION):
        fit = fit_policies(fit, {**QUICK_ENV, "backend": backend})
    return fit, tuple(name for name in names if name not in fit)


def draws_actions(policy: str) -> bool:
    """Tell whether a policy draws its actions, so that two seeds ask for different things.

    Args:
        policy: Name of the policy.
    """
    known = POLICIES.find(FAMILY)
    return policy in known and "seed" in signature(known[policy]).parameters


SUITES.add("congestion-twin-error", congestion_suite(), congestion_suite().description)
