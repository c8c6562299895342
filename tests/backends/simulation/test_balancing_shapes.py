"""The shapes of the sources' results, in short runs with fixed seeds (yao.md of the papers' notes).

Each test runs functions of `experiments/papers/yao`, which hold the full settings. Where a
published shape does not come out, the test holds what does, and says so.
"""

import itertools
from functools import lru_cache

import numpy as np
import pytest

from dcgym.backends.records import SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.policies import POLICIES
from dcgym.policies.balancing import RulePolicy
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.metrics import server_metrics
from dcgym.tasks.balancing.protocol import PoolCommands
from experiments.papers.yao import load_noise, markov_chain, update_period
from experiments.papers.yao.common import Args, measure_all, measure_cases
from tests.support.suites import leave_comparisons_out, run_without_report

pytestmark = pytest.mark.simulation

SHORT = Args(seeds=2, seconds=100.0, warmup_s=40.0, jobs=0)


@pytest.fixture(autouse=True)
def flows_alone(monkeypatch):
    """Leave out reports, rewards and regret: the shapes are of completion times and weights."""
    monkeypatch.setattr("experiments.papers.yao.common.run_suite", run_without_report)
    for module in ("common", "update_period"):
        leave_comparisons_out(monkeypatch, f"experiments.papers.yao.{module}")


@pytest.fixture
def measure(tmp_path):
    """Return what runs policies on a pool, in this process."""
    numbers = itertools.count()

    def run(policies, scenario, args):
        rules = [name for name in policies if is_rule(name)]
        loops = [name for name in policies if name not in rules]
        found = {name: run_rule(name, scenario, args) for name in rules}
        if loops:
            out = tmp_path / str(next(numbers))
            found |= measure_all(out, loops, {"": scenario}, args)[""]
        return found

    return run


def is_rule(name):
    """Tell whether a policy leaves everything to its rule, and has no loop of its own."""
    return isinstance(POLICIES["balancing"][name](), RulePolicy)


def run_rule(name, scenario, args):
    """Run what decides flow by flow on the twin alone, its seeds side by side."""
    twin = BalancingTwin(scenario, args.seeds, warm_up_ns=round(args.warmup_s * 1e9))
    twin.reset(0)
    twin.apply(PoolCommands(rules=POLICIES["balancing"][name]().rule))
    twin.advance(round(args.seconds * 1e9))
    rows = [figures(twin.records(SUMMARY, env), scenario) for env in range(args.seeds)]
    return {figure: np.array([row[figure] for row in rows]) for figure in rows[0]}


def figures(summary, scenario):
    """Return the metrics of a run, by the names that records have."""
    times = next(iter(summary.applications.values()))
    found = {f"fct_us_{name}": getattr(times, f"{name}_us") for name in ("mean", "p90")}
    return found | server_metrics(summary, scenario)


def means(found, metric="fct_us_mean"):
    return {policy: float(metrics[metric].mean()) for policy, metrics in found.items()}


@pytest.fixture
def large(measure):
    """Return what runs policies on the large pool."""

    def run(load, policies, **params):
        return measure(policies, large_pool(load, **params), SHORT)

    return run


def large_pool(load, **params):
    return make_scenario("hlb-128", load=load, **params)


def test_state_aware_rules_lead_under_load_and_all_tie_off_peak(measure):
    # S1. Off-peak within a tenth; under load the four are well ahead of the three.
    aware, blind = ("sed", "hlb", "lsq", "gsq2"), ("awcmp", "wcmp", "ecmp")
    args = Args(seeds=2, seconds=30.0, warmup_s=10.0, jobs=0)
    pool = {"balancers": 2}
    idle, busy = (
        measure((*aware, *blind, "oracle"), make_scenario("large-20", load=load, **pool), args)
        for load in (0.2, 0.85)
    )
    idle, busy = means(idle, "fct_us_p90"), means(busy, "fct_us_p90")
    assert max(idle.values()) < 1.1 * min(idle.values())
    assert 1.4 * max(busy[name] for name in aware) < min(busy[name] for name in blind)
    assert busy["oracle"] == min(busy.values())
    assert busy["sed"] < busy["hlb"] < busy["lsq"] < busy["gsq2"]


def check_learned_weights(cell, ratio):
    """S18, for the weights: between one and the ratio of the processors.

    The part of the flows does not stay between: a queue that is counted steers beside the weights.
    """
    assert (cell.weight_ratio > 1.1).all() and (cell.weight_ratio < ratio).all()


def test_hlb_gains_a_quarter_at_the_90th_percentile_of_the_large_pool(large):
    # S2: published -24.64 % and -25.59 %. That HLB equals the Oracle does not come out: it stays
    # behind even GSQ, which sees the true queues.
    found = large(0.885, ("hlb", "lsq", "sed", "gsq"))
    p90, mean = means(found, "fct_us_p90"), means(found)
    for other in ("lsq", "sed"):
        assert -0.40 < p90["hlb"] / p90[other] - 1 < -0.10
    assert mean["hlb"] > mean["gsq"]
    check_learned_weights(found["hlb"], 2)


def test_sed_is_lsq_for_equal_servers(large):
    # S3: same weights, same ties, same draws.
    found = large(0.9, ("sed", "lsq"), ratio=1)
    np.testing.assert_array_equal(found["sed"]["fct_us_mean"], found["lsq"]["fct_us_mean"])


def test_sed_wins_at_ratio_four_and_loses_to_lsq_under_heavy_load(large):
    # S3: SED then sends many times the work to the strong servers (published 12.14 times).
    cells = large(0.7, ("hlb", "sed", "lsq"), ratio=4)
    check_learned_weights(cells["hlb"], 4)
    calm = means(cells)
    assert max(calm["hlb"], calm["sed"]) < 0.75 * calm["lsq"]
    heavy = large(0.9, ("hlb", "sed", "lsq"), ratio=4)
    assert means(heavy)["hlb"] < means(heavy)["lsq"] < means(heavy)["sed"]
    check_learned_weights(heavy["hlb"], 4)
    assert (heavy["sed"]["share_strong"] / heavy["sed"]["share_weak"]).mean() > 6


def test_two_choices_help_sed_only_and_only_behind_many_balancers(large, measure):
    # S4: published part of the strong half under SED behind eight balancers: 74.2 %.
    rules = [name for rule in ("gsq", "lsq", "sed") for name in (rule, f"{rule}2")]
    cells = large(0.9, rules, balancers=8)
    # Two choices cost HLB two thirds, in any seed.
    brief = Args(seeds=1, seconds=60.0, warmup_s=25.0, jobs=0)
    found = means(cells | measure(("hlb", "hlb2"), large_pool(0.9, balancers=8), brief))
    for rule in ("gsq", "lsq", "hlb"):
        assert found[f"{rule}2"] > 1.1 * found[rule]
    assert found["sed2"] < found["sed"]
    assert cells["sed"]["share_strong"].mean() == pytest.approx(0.742, abs=0.02)


@lru_cache
def duration(rule, view=1.0, has_right_weights=True):
    weights = markov_chain.SPEEDS if has_right_weights else markov_chain.SPEEDS[::-1]
    return markov_chain.weighted_duration(markov_chain.stationary(rule, view, weights))


def test_wrong_weights_hurt_those_who_use_them_and_a_partial_view_those_who_count():
    # S5, exactly. That WCMP leads with right weights and the full view does not come out:
    # no split at random can pass a rule that sees the queues.
    for rule in ("wcmp", "sed"):
        assert duration(rule, has_right_weights=False) > 1.5 * duration(rule)
    for rule in ("lsq", "ecmp"):
        assert duration(rule, has_right_weights=False) == pytest.approx(duration(rule))
    for rule in ("lsq", "sed"):
        assert duration(rule) < duration(rule, 1 / 2) < duration(rule, 1 / 3)
    assert duration("sed") < duration("lsq") < 0.5 * duration("ecmp")
    assert duration("sed", 1 / 2) < duration("lsq", 1 / 2) < 0.5 * duration("wcmp", 1 / 2)


@pytest.mark.parametrize("rule", markov_chain.RULES)
def test_twin_has_the_queues_of_the_exact_chain(rule):
    solved = markov_chain.mean_flows(markov_chain.stationary(rule, 1.0, markov_chain.SPEEDS, 0.7))
    found = markov_chain.simulated_flows(rule, 0.7, True, 20_000)
    spread = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    # Four standard errors of four seeds, and the hundredth that rounding of short queues costs.
    assert (np.abs(found.mean(axis=0) - solved) < 4 * spread + 0.01 * solved).all()


def test_hlb_weights_draw_together_after_the_capacity_step(measure):
    # S6: a ratio of processors of 2 before, equal servers after; that learners finish sooner
    # than SED there is measured by the suite.
    from experiments.papers.yao import capacity_step

    args = Args(seeds=3, seconds=800.0, warmup_s=400.0, jobs=0)
    pool = capacity_step.make_pool("capacity-step", 0.85, 800.0)
    cells = measure(("hlb", "sed"), pool, args)
    ratios = cells["hlb"].weight_ratios.mean(axis=0)
    before, after = ratios[400:800].mean(), ratios[-400:].mean()
    assert before > 1.15
    assert abs(after - 1) < 0.15 < before - after
    found = means(cells)
    assert found["hlb"] < found["sed"]


def test_jain_index_of_charons_table():
    # S7: order of the load-aware four before the others, all rising. GSQ >= GSQ2 comes out at the
    # lower loads only; WCMP >= ECMP does not where ECMP's weak servers are all full.
    rules = ("gsq", "gsq2", "charon", "sapp", "wcmp", "ecmp")
    usual = Args(seeds=2, seconds=100.0, warmup_s=40.0)
    # At a load of 1 the index of a single run is off by 0.04.
    lasting = Args(seeds=6, seconds=150.0, warmup_s=50.0)
    table = {
        load: {
            name: run_jain(name, load, lasting if load == 1 and name in rules[:4] else usual)
            for name in rules
        }
        for load in (0.645, 0.765, 0.925, 1.0)
    }
    for row in table.values():
        assert min(row[name] for name in rules[:4]) > max(row["wcmp"], row["ecmp"]) - 0.02
        assert row["charon"] == pytest.approx(row["sapp"], abs=0.04)
    for name in rules:
        values = [row[name] for row in table.values()]
        assert values == sorted(values), name
    first = table[0.645]
    assert first["gsq"] > first["gsq2"] and first["wcmp"] > first["ecmp"]
    first_four = [table[1.0][name] for name in rules[:4]]
    assert np.ptp(first_four) < 0.08 and np.mean(first_four) == pytest.approx(0.75, abs=0.04)


def run_jain(rule, load, args):
    return float(run_rule(rule, make_scenario("charon-64", load=load), args)["jain"].mean())


def test_rare_polls_cost_awcmp_much_and_rare_updates_hlb_little(tmp_path):
    # S8.
    args = Args(seeds=1, seconds=150.0, warmup_s=50.0, jobs=0)
    cases = {period_s: update_period.case(period_s, args) for period_s in (0.5, 5.0)}
    cells = measure_cases(tmp_path, ("hlb", "awcmp"), cases, args)
    found = {
        policy: [float(cells[period_s][policy]["fct_us_mean"].mean()) for period_s in cases]
        for policy in ("hlb", "awcmp")
    }
    assert found["awcmp"][1] > 1.4 * found["awcmp"][0]
    assert found["hlb"][1] < 1.25 * found["hlb"][0]


def test_small_flow_tables_cost_hlb_less_than_lsq(measure):
    # S9: that HLB is best of all at 1024 buckets does not come out; SED loses as little.
    from experiments.papers.yao import flow_table

    args = Args(seeds=1, seconds=60.0, warmup_s=20.0, jobs=0)
    rules = ("hlb", "lsq", "sed")
    small, roomy = (
        means(measure(rules, flow_table.scenario(size), args)) for size in (1024, 65_536)
    )
    loss = {rule: small[rule] / roomy[rule] - 1 for rule in rules}
    assert min(loss.values()) > 0
    assert loss["hlb"] < 0.8 * loss["lsq"]


def small_pool(balancers):
    return make_scenario("yao-sim-8", load=0.85, balancers=balancers)


def mean_us(rule, balancers):
    """Return the mean completion time in the small pool over 32,000 s."""
    args = Args(seeds=16, seconds=2000.0, warmup_s=100.0)
    return float(run_rule(rule, small_pool(balancers), args)["fct_us_mean"].mean())


def test_counting_beats_polling_alone_and_degrades_behind_many(measure):
    # S16. Of what many balancers cost, LSQ2 and LSQ differ by a twentieth: they run for longer.
    # Those that poll see the same, however many they are: their loss is of one seed.
    lasting = Args(seeds=4, seconds=700.0, warmup_s=100.0, interval_s=1.0, jobs=0)
    short = Args(seeds=1, seconds=200.0, warmup_s=50.0, interval_s=1.0, jobs=0)
    polled = means(measure(("awcmp",), small_pool(1), lasting))["awcmp"]
    one, many = (
        means(measure(("awcmp",), small_pool(number), short))
        | {rule: mean_us(rule, number) for rule in ("lsq", "lsq2")}
        for number in (1, 8)
    )
    assert max(one["lsq"], one["lsq2"]) < polled
    loss = {rule: many[rule] / one[rule] - 1 for rule in one}
    assert loss["awcmp"] < 0.1 < loss["lsq2"] < loss["lsq"]


def test_noise_hurts_the_least_loaded_rule_most():
    # S17: relative to exact loads, on which it is best.
    exact, noisy = (
        {rule: load_noise.mean_completion_s(rule, noise, 0, 6000) for rule in load_noise.RULES}
        for noise in (0.0, 4.0)
    )
    assert exact["llf"] < exact["po2"] < exact["ws"] < exact["random"]
    loss = {rule: noisy[rule] / exact[rule] for rule in load_noise.RULES}
    assert loss["llf"] > loss["po2"] > loss["ws"] > 1.0


def test_every_rule_policy_runs_on_every_preset():
    names = [name for name in POLICIES["balancing"] if is_rule(name)]
    assert {"ecmp", "sed", "charon", "oracle2"} <= set(names)
    args = Args(seeds=1, seconds=5.0, warmup_s=0.0)
    for preset in ("yao-sim-8", "hlb-128", "charon-64", "markov-2", "large-20"):
        for name in names:
            found = run_rule(name, make_scenario(preset), args)
            assert np.isfinite(found["fct_us_mean"]).all(), (preset, name)


def test_every_rule_policy_runs_in_an_experiment(tmp_path):
    names = [name for name in POLICIES["balancing"] if is_rule(name)]
    args = Args(seeds=1, seconds=3.0, warmup_s=0.0, interval_s=3.0, jobs=0)
    found = measure_all(tmp_path, names, {"": make_scenario("yao-sim-8")}, args)[""]
    assert all(np.isfinite(cell["fct_us_mean"]).all() for cell in found.values())
