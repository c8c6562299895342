"""What the balancing experiments share: paired runs of policies in the twin, tables and plots."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from dcgym.envs.balancing_core import BalancingCore, BalancingSettings

import dcgym
from dcgym.backends.simulation import BalancingTwin
from dcgym.policies.balancing import RulePolicy
from dcgym.suites.results import machine, prepare_folder, write_json
from dcgym.suites.statistics import interval_95
from dcgym.tasks.balancing import Scenario
from dcgym.tasks.balancing.metrics import flow_metrics, server_metrics

FloatArray = npt.NDArray[np.float64]
Metrics = dict[str, FloatArray]
RECORD_LIMIT = 2_000_000


@dataclass(frozen=True)
class Args:
    """Settings of a comparison.

    Attributes:
        seeds: Seeds; every policy meets the same arrivals in the same seed.
        seconds: Simulated seconds of a run.
        warmup_s: Seconds whose flows the metrics leave out.
        interval_s: Period of the slow loops.
    """

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    seconds: float = 300.0
    warmup_s: float = 60.0
    interval_s: float = 0.5


def measure(policy: str, scenario: Scenario, args: Args, **params: Any) -> Metrics:
    """Run a policy (with its parameters) on all balancers and return each metric, one entry a seed.

    Beside the metrics of `dcgym.tasks.balancing.metrics`, slow loops report `weight_ratio`: the mean
    weight of the last group's servers over that of the first group's, over the measured time.
    """
    chosen = dcgym.make_policy(policy, family="balancing", **params)
    if isinstance(chosen, RulePolicy):
        twin = _new_twin(scenario, args)
        twin.reset(list(args.seeds))
        twin.set_rule(chosen.rule)
        twin.advance(round(args.seconds * 1e9))
        return _collect(twin, scenario)
    return _measure_slow_loop(policy, scenario, args, params)


def measure_all(policies: Iterable[str], scenario: Scenario, args: Args) -> dict[str, Metrics]:
    """Run several policies on the same arrivals."""
    return {policy: measure(policy, scenario, args) for policy in policies}


def _new_twin(scenario: Scenario, args: Args) -> BalancingTwin:
    warm_up_ns = round(args.warmup_s * 1e9)
    return BalancingTwin(
        scenario, len(args.seeds), record_limit=RECORD_LIMIT, warm_up_ns=warm_up_ns
    )


def _measure_slow_loop(
    policy: str, scenario: Scenario, args: Args, params: Mapping[str, Any]
) -> Metrics:
    core, loops = start(policy, scenario, args, params)
    ratios = []
    for step in range(1, round(args.seconds / args.interval_s)):
        advance(core, loops)
        if step * args.interval_s >= args.warmup_s:
            ratios.append(weight_ratio(core, scenario))
    metrics = _collect(core.twin, scenario)
    return {**metrics, "weight_ratio": np.mean(ratios, axis=0)}


def start(
    policy: str, scenario: Scenario, args: Args, params: Mapping[str, Any]
) -> tuple[BalancingCore, list[list[Any]]]:
    """Begin an episode in a pool for each seed; every balancer has a slow loop of its own."""
    rule = dcgym.make_policy(policy, family="balancing").env_overrides()["rule"]
    settings = BalancingSettings(
        scenario, interval=args.interval_s, rule=rule, backend=lambda *_: _new_twin(scenario, args)
    )
    n_pools = len(args.seeds)
    core = BalancingCore(settings, n_pools)
    task = SimpleNamespace(action_map=core.weight_map, configured_weights=core.configured_weights)
    loops = [
        [
            dcgym.make_policy(policy, family="balancing", seed=agent, **params).bind(task)
            for agent in range(scenario.balancers)
        ]
        for _ in range(n_pools)
    ]
    core.begin(np.array(args.seeds, np.uint64), np.ones(n_pools, np.bool_))
    core.advance(None)
    return core, loops


def advance(core: BalancingCore, loops: list[list[Any]]) -> None:
    """Let every slow loop act, and one interval pass."""
    actions = [
        [_act(loop, core, pool, agent) for agent, loop in enumerate(row)]
        for pool, row in enumerate(loops)
    ]
    core.advance(np.array(actions))


def _act(loop: Any, core: BalancingCore, pool: int, agent: int) -> npt.NDArray[Any]:
    info = {"time_s": core.time_s(pool), "servers": core.servers(pool, agent)}
    action: npt.NDArray[Any] = loop.act(np.empty(0, np.float32), info)
    return action


def weight_ratio(core: BalancingCore, scenario: Scenario) -> FloatArray:
    """Return the mean weight of the last group over that of the first, one entry a pool."""
    groups = np.array([group.name for group in scenario.server_groups])
    weights = core.seen["weights"].mean(axis=1)
    ratio: FloatArray = weights[:, groups == groups[-1]].mean(axis=1) / weights[
        :, groups == groups[0]
    ].mean(axis=1)
    return ratio


def _collect(twin: BalancingTwin, scenario: Scenario) -> Metrics:
    names = [app.name for app in scenario.applications]
    rows = [
        flow_metrics(twin.records(i), names) | server_metrics(twin.summary(i), scenario)
        for i in range(twin.n_envs)
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def change(found: Mapping[str, Metrics], policy: str, other: str, metric: str) -> float:
    """Return how much less (negative) or more a policy has than another, as the paired mean."""
    return float((found[policy][metric] / found[other][metric]).mean() - 1)


def seconds(values: FloatArray) -> str:
    """Show a metric in microseconds as seconds with the 95 % interval of its mean."""
    mean, half = interval_95(list(values / 1e6))
    return f"{mean:.3f} ± {half:.3f}"


Table = Sequence[Mapping[str, Any]]


def save(out: Path, table: Table, draw: Callable[[Any], None], note: str) -> None:
    """Print the table, and write it as ``results.json`` beside the picture ``figure.png``.

    Args:
        out: Folder; made if it is missing.
        table: Rows with the same columns.
        draw: Draws into the matplotlib axes it is given.
        note: What the sources publish, for comparison.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    prepare_folder(out)
    columns = list(table[0])
    print(" | ".join(columns))
    for row in table:
        print(" | ".join(str(row[column]) for column in columns))
    print(f"published: {note}")
    write_json(out / "results.json", {"rows": table, "published": note, "machine": machine()})
    figure = Figure(figsize=(7, 4.5), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.add_subplot())
    figure.savefig(out / "figure.png")
    print(out / "figure.png")


def run_script(description: str | None, name: str, main: Callable[[Path], None]) -> None:
    """Run an experiment from the command line: the only option is the folder."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / "balancing" / name)
    main(parser.parse_args().out)
