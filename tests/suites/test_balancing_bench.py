"""The balancing suites: scenarios, records, the ranking at 85 % load, resume."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from dcgym.backends.records import SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.errors import ConfigError
from dcgym.suites import (
    Case,
    Check,
    Shape,
    Term,
    balancing_classic,
    balancing_quick,
    run_episode,
    run_suite,
    write_report,
)
from dcgym.suites.balancing import make_pool, pool_env
from dcgym.suites.checks import check_suite
from dcgym.suites.matrix import Matrix, Run
from dcgym.suites.progress import progress_bars
from dcgym.suites.workers import Workers
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.protocol import PoolCommands
from tests.support.suites import leave_figures_empty

needs_twin = pytest.mark.usefixtures("compiled_twin")
BEST = ("oracle", "earliest-finish")


@pytest.fixture
def compiled_twin():
    pytest.importorskip("dcgym.native._simulation", reason="the compiled simulation is not built")


def matrix_of(suite, out):
    return Matrix(suite, out, Workers(), progress_bars())


def spec_of(suite, out, policy, seed, case="right-weights"):
    return replace(matrix_of(suite, out).spec(Run(case, policy, seed)), folder=None)


def weights(pool):
    return [group.configured_weight for group in pool.pool.groups]


def test_scenarios_differ_in_one_thing():
    right = make_pool("right-weights", 0.85, 60)
    assert weights(right) == [1, 2] and right == make_scenario("yao-sim-8", load=0.85)
    wrong = make_pool("wrong-weights", 0.85, 60)
    assert weights(wrong) == [2, 1]
    assert [group.workers for group in wrong.pool.groups] == [1, 2]
    step = make_pool("capacity-step", 0.85, 60)
    (event,) = step.events
    assert (event.at_ns, event.kind, event.target, event.value) == (30e9, "capacity", "strong", 0.5)
    # 4 + 8 processors at 60 %, then 4 + 4 at 90 %.
    assert step.offered_load * 12 == pytest.approx(0.9 * 8)


def test_learners_train_once_for_both_scenarios_without_a_step(tmp_path):
    suite = balancing_quick()
    matrix = matrix_of(suite, tmp_path)
    right, wrong, step = (matrix.training(Run(name, "ppo", 0)) for name in suite.case_names)
    assert right == wrong != step
    assert matrix.training(Run("right-weights", "ddpg", 0)).folder != right.folder


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"policies": ("cubic",)}, "policies"),
        ({"load": 1.2}, "load"),
        ({"warmup_s": 2000.0}, "episode_s: .* above the warm-up of 2000 s"),
    ],
)
def test_bad_settings_are_refused(change, field):
    built = {name: change.pop(name) for name in ("load", "episode_s") if name in change}
    with pytest.raises(ConfigError, match=field):
        check_suite(replace(balancing_classic(**built), **change))


def record_of(policy, tmp_path):
    suite = replace(balancing_quick(episode_s=600.0), warmup_s=60.0)
    spec = spec_of(suite, tmp_path, policy, seed=0)
    # Rules of the data plane decide flow by flow, however long an interval is.
    return run_episode(replace(spec, steps=300, env={**spec.env, "interval": "2s"}))


@needs_twin
def test_run_writes_steps_flows_and_summary(tmp_path):
    suite = replace(balancing_classic(), episode_s=120.0, warmup_s=20.0)
    folder = tmp_path / "run"
    spec = spec_of(suite, tmp_path, "hlb", 1)
    record = run_episode(replace(spec, folder=str(folder), key="k"))
    steps, flows = (pl.read_parquet(folder / f"{name}.parquet") for name in ("steps", "flows"))
    assert steps.height == 480 and steps["time_s"][-1] == 120.0
    assert flows["arrival_ns"].min() >= 20e9
    served = flows.filter(pl.col("outcome") == 0)
    times_us = (served["end_ns"] - served["arrival_ns"]) / 1e3
    assert record["metrics"]["fct_us_mean"] == pytest.approx(times_us.mean())
    assert json.loads((folder / "summary.json").read_text())["key"] == "k"
    assert record["metrics"]["share_weak"] + record["metrics"]["share_strong"] == pytest.approx(1)
    # 85 % of the processors, less what the short run has left in the servers.
    assert record["metrics"]["utilisation"] == pytest.approx(0.85, abs=0.08)


@needs_twin
@pytest.mark.parametrize("policy", ["sed", "hlb"])
def test_one_agent_over_all_balancers_is_recorded_as_such(policy, tmp_path):
    suite = replace(balancing_classic(), episode_s=60.0, warmup_s=10.0)
    spec = spec_of(suite, tmp_path, policy, 1)
    central = replace(spec, env={**spec.env, "env": "CentralLoadBalancing-v1"})
    one, each = run_episode(central), run_episode(spec)
    assert one["env"] == "dcgym/CentralLoadBalancing-v1"
    assert each["env"] == "dcgym/LoadBalancing-v1"
    # These policies look at one balancer at a time: the same flows meet the same servers.
    assert one["metrics"].keys() == each["metrics"].keys()
    if policy == "sed":
        assert one["metrics"] == each["metrics"]


@needs_twin
def test_the_best_rule_has_no_regret_and_equal_seeds_equal_arrivals(tmp_path):
    found = {name: record_of(name, tmp_path)["metrics"] for name in (*BEST, "sed", "ecmp")}
    assert min(found[name]["regret"] for name in BEST) == 0
    assert found["ecmp"]["regret"] > 1e6
    again = record_of("oracle", tmp_path)
    assert again["metrics"] == found["oracle"]
    for metrics in found.values():
        assert metrics["bound_us"] < metrics["reference_srpt_us"] < metrics["reference_fcfs_us"]
        assert metrics["reference_srpt_us"] < metrics["fct_us_mean"]
    # Of those that do not know sizes; earliest-finish does.
    assert found["sed"]["reference_fcfs_us"] < found["sed"]["fct_us_mean"]


@needs_twin
def test_mean_completion_times_rank_as_published():
    # Paired: the same arrivals for every rule of a seed, so that each seed ranks alike.
    times = []
    for rule in ("oracle", "sed", "lsq", "wcmp", "ecmp"):
        twin = BalancingTwin(make_pool("right-weights", 0.85, 60), 5, warm_up_ns=100 * 10**9)
        twin.reset(0)
        twin.apply(PoolCommands(rules=rule))
        twin.advance(3000 * 10**9)
        times.append([twin.records(SUMMARY, i).applications["cpu"].mean_us for i in range(5)])
    ranked = np.array(times)
    assert (np.diff(ranked, axis=0) > 0).all(), ranked


@needs_twin
def test_suite_resumes_and_reports_every_scenario(tmp_path, monkeypatch):
    leave_figures_empty(monkeypatch)
    names = ("right-weights", "wrong-weights")
    cases = tuple(Case(pool_env(make_pool(n, 0.85, 30.0).to_dict()), n) for n in names)
    small = replace(balancing_classic(), cases=cases, policies=("sed", "lsq"), seeds=1)
    served = Check(Term("fct_us_mean", "sed", "wrong-weights"), ">", 0.0)
    shapes = (Shape("served", "SED serves flows", "ours", (served,)),)
    suite = replace(small, episode_s=30.0, warmup_s=5.0, jobs=0, shapes=shapes)
    records = run_suite(suite, tmp_path)
    assert [(r["scenario"], r["policy"]) for r in records] == [
        (scenario, policy) for scenario in names for policy in ("sed", "lsq")
    ]
    summaries = sorted(tmp_path.glob("runs/*/summary.json"))
    assert summaries[0].parent.name == "right-weights-lsq-0"
    written = [path.stat().st_mtime_ns for path in summaries]
    assert run_suite(suite, tmp_path) == records
    assert [path.stat().st_mtime_ns for path in summaries] == written
    longer = replace(suite, policies=("sed",), episode_s=31.0)
    matrix = matrix_of(longer, tmp_path)
    assert matrix.finished(Run("right-weights", "sed", 0)) is None
    page = write_report(tmp_path, records).read_text()
    assert "wrong-weights" in page and "FCT mean" in page and 'src="http' not in page
    frame = pl.read_parquet(tmp_path / "results.parquet")
    assert frame["regret"].is_finite().all() and set(frame["scenario"]) == set(names)
    # One seed decides nothing.
    (verdict,) = json.loads((tmp_path / "verdicts.json").read_text())
    assert (verdict["name"], verdict["verdict"]) == ("served", "within noise")
    assert "Expected shapes" in page and "SED serves flows" in page


def test_the_emulation_scores_what_the_twin_trained(tmp_path):
    suite = balancing_quick(backend="emulation")
    case = suite.case("wrong-weights")
    assert case.env["backend"] == "emulation" and "backend" not in case.train_env
    # The same servers in both; what a learner sees has the same size.
    of_both = [env["scenario"]["pool"]["groups"] for env in (case.env, case.train_env)]
    counts = [[(g["count"], g["resources"][0]["workers"]) for g in groups] for groups in of_both]
    assert counts == [[(3, 2), (4, 4)]] * 2
    assert [group["weight"] for group in of_both[0]] == [4, 2]
    # Rules that the emulation lacks would be refused.
    check_suite(suite)


def test_a_step_of_any_preset_ends_at_ninety_per_cent():
    step = make_pool("capacity-step", 0.85, 60, "testbed-7")
    # 22 processors become 3 * 2 + 4 * 4 / 2 = 14.
    assert step.offered_load * 22 / 14 == pytest.approx(0.9)
    assert step.events[0].target == "strong" and step.events[0].at_ns == 30 * 10**9


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"policies": ("gsq",)}, "policies: value 'gsq'"),
        ({"jobs": 2}, "jobs: value 2"),
    ],
)
def test_what_the_emulation_cannot_do_is_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        check_suite(replace(balancing_quick(backend="emulation"), **settings))


def test_an_unknown_preset_is_refused():
    with pytest.raises(ConfigError, match="did you mean 'testbed-7'"):
        make_pool("right-weights", 0.85, 60, "testbed-8")
