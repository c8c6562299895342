"""Determinism, the way of a flow, what balancers see, memory, bad input."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.backends.records import FLOWS, SUMMARY
from dcgym.backends.simulation import BalancingTwin
from dcgym.errors import BackendError, ConfigError
from dcgym.monitors.balancer.layout import BalancerRegion, servers_in
from dcgym.monitors.balancer.reducers import reduce_samples
from dcgym.tasks.balancing import Event, make_scenario, server_group
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.tasks.balancing.records import OUTCOMES
from dcgym.tasks.balancing.rules import RULES
from dcgym.traffic.sizes import constant
from tests.support.pools import SECOND, arrays_of, pool, run

pytestmark = pytest.mark.simulation

MS = 10**6


def fingerprint(seed: int, envs: int, threads: int, env: int, rule: str = "weighted") -> str:
    """Return a digest of all that an environment shows over a rich minute."""
    events = (
        Event(10 * SECOND, "capacity", "strong", 0.5),
        Event(20 * SECOND, "drain-server", 0),
        Event(30 * SECOND, "balancer-failure", 1),
        Event(40 * SECOND, "rate", "all", 1.5),
        Event(45 * SECOND, "remove-server", 5),
    )
    scenario = make_scenario("yao-sim-8", application="balanced").changed(events=events)
    twin = BalancingTwin(scenario, envs, threads, record_limit=10_000)
    twin.reset([seed + i - env for i in range(envs)])
    twin.apply(PoolCommands(rules=rule))
    digest = hashlib.sha256()
    rng = np.random.default_rng(0)
    for step in range(1, 61):
        weights = rng.uniform(0.5, 2, (2, 8))
        twin.apply(PoolCommands(weights=np.broadcast_to(weights, (envs, 2, 8))))
        twin.advance(step * SECOND)
        for _, values in sorted(arrays_of(twin.read()).items()):
            digest.update(values[env].tobytes())
    digest.update(twin.records(FLOWS, env).tobytes())
    digest.update(repr(twin.records(SUMMARY, env)).encode())
    return digest.hexdigest()


def test_an_environment_does_not_depend_on_its_neighbours_or_threads() -> None:
    alone = fingerprint(7, envs=1, threads=1, env=0)
    assert fingerprint(7, envs=5, threads=1, env=3) == alone
    assert fingerprint(7, envs=5, threads=3, env=4) == alone
    assert fingerprint(8, envs=1, threads=1, env=0) != alone


def test_another_process_gives_the_same_bits() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r})\n"
        "from tests.backends.simulation.test_twin import fingerprint\n"
        "print(fingerprint(7, 1, 1, 0))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == fingerprint(7, 1, 1, 0), done.stderr


def test_the_course_does_not_depend_on_how_often_one_looks() -> None:
    twins = [BalancingTwin("yao-sim-8") for _ in range(2)]
    for twin, steps in zip(twins, (3, 300), strict=True):
        twin.reset(5)
        twin.apply(PoolCommands(rules="sed"))
        for step in range(1, steps + 1):
            twin.advance(30 * SECOND * step // steps)
            twin.read()
    ours, theirs = (arrays_of(twin.read()) for twin in twins)
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], name)


def test_masked_reset_leaves_the_others_alone() -> None:
    twin = BalancingTwin("yao-sim-8", n_envs=3)
    twin.reset(1)
    twin.advance(20 * SECOND)
    before = twin.read().seen
    twin.reset([None, 9, None])
    after = twin.read().seen
    assert list(twin.read().time_ns) == [20 * SECOND, 0, 20 * SECOND]
    assert not after.flows[1].any() and not after.duration_us[1].any()
    np.testing.assert_array_equal(after.duration_us[[0, 2]], before.duration_us[[0, 2]])


def test_rules_meet_the_same_arrivals() -> None:
    first, second = (
        run("yao-sim-8", rule, 60, envs=1, record_limit=10**5, warm_up_ns=0).records(FLOWS)
        for rule in ("ecmp", "oracle")
    )
    known = {row["flow"]: row for row in first}
    shared = [row for row in second if row["flow"] in known]
    assert len(shared) > 300
    for row in shared:
        for field in ("arrival_ns", "application", "demand_ns"):
            assert np.array_equal(row[field], known[row["flow"]][field])


def test_observations_share_no_memory() -> None:
    twin = run("yao-sim-8", seconds=5, envs=1)
    first, second = (arrays_of(twin.read()) for _ in range(2))
    for name in first:
        assert not np.shares_memory(first[name], second[name])


@pytest.mark.parametrize("rule", RULES)
def test_every_flow_is_accounted_for(rule: str) -> None:
    scenario = make_scenario(
        "yao-sim-8", load=1.2, allow_overload=True, application="cpu-intensive"
    )
    twin = run(scenario.changed(backlog=10), rule, 200, envs=1, record_limit=10**5, warm_up_ns=0)
    summary, records = twin.records(SUMMARY), twin.records(FLOWS)
    ended = sum(getattr(summary, name) for name in OUTCOMES)
    assert summary.rejected > 0 and summary.pcc_violations == 0
    # What is still in flight includes the table entries of the rejected.
    assert ended <= summary.arrivals <= ended + summary.in_flight
    assert len(records) == ended and (np.diff(records["flow"]) != 0).all()
    counts = np.bincount(records["outcome"], minlength=4)
    assert [getattr(summary, name) for name in OUTCOMES] == list(counts)
    assert (records["end_ns"] > records["arrival_ns"]).all()


def test_latency_of_a_lone_flow_by_hand() -> None:
    # 3 + 1 one-way trips to be served, 1 back: SYN to the balancer, SYN to the server, SYN-ACK to
    # the client, request to the balancer, request to the server; then the response.
    lone = pool(server_group("g", 1), load=1e-4, service=constant("20ms"), latency_ns=(MS, MS))
    records = run(lone, seconds=3000, envs=1, record_limit=100, warm_up_ns=0).records(FLOWS)
    assert len(records) > 2
    assert set(records["served_ns"] - records["arrival_ns"]) == {5 * MS}
    assert set(records["end_ns"] - records["arrival_ns"]) == {26 * MS}


def test_balancers_see_what_passes_them() -> None:
    twin = BalancingTwin("large-20")
    twin.reset(2)
    twin.apply(PoolCommands(rules="lsq"))
    twin.advance(10 * SECOND)
    state, summary = twin.read(), twin.records(SUMMARY)
    seen, truth = state.seen, state.truth
    assert (seen.flows - seen.completed == seen.ongoing).all()
    # Tracked and placed differ by flows in the handshake or on their last way.
    gap = np.abs(seen.ongoing.sum(axis=1) - truth.assigned).sum()
    assert gap <= 0.02 * summary.arrivals
    assert summary.untracked == 0
    assert seen.packets.sum() >= 2 * seen.flows.sum()


def test_remaining_work_is_the_sum_of_what_the_balancers_placed() -> None:
    twin = run("yao-sim-8", "sed", 60, envs=4)
    truth = twin.read().truth
    parts = truth.remaining_by_balancer_ns.sum(axis=1)
    np.testing.assert_allclose(parts, truth.remaining_ns, rtol=1e-9, atol=10)
    assert (truth.remaining_ns > 0).any()


def test_region_holds_what_the_observation_reduces() -> None:
    twin = run("yao-sim-8", "wcmp", 30, envs=1)
    seen = twin.read().seen
    for balancer in range(2):
        region = BalancerRegion(twin.region(0, balancer))
        snapshot, counters = region.snapshot(), region.snapshot()["servers"]
        for name in ("flows", "completed", "packets", "ongoing"):
            np.testing.assert_array_equal(counters[name][:8], getattr(seen, name)[0, balancer])
        assert (
            servers_in(snapshot["active"]) == list(range(8)) and snapshot["time_ns"] == 30 * SECOND
        )
        for server in range(8):
            samples = region.samples(server, "duration")
            expected = reduce_samples(samples["time_ms"], samples["value_us"], 30_000)
            np.testing.assert_allclose(seen.duration_us[0, balancer, server], expected)
        gaps = region.interarrival()
        expected = reduce_samples(gaps["time_ms"], gaps["value_us"], 30_000)
        np.testing.assert_allclose(seen.interarrival_us[0, balancer], expected)
        pool_columns = region.pool()
        assert pool_columns["rule"] == RULES["wcmp"].number
        assert list(pool_columns["server"][: pool_columns["n"]]) == list(range(8))


def test_region_of_many_servers_holds_them_all() -> None:
    twin = run("hlb-128", "sed", 5, envs=1)
    seen, region = twin.read().seen, BalancerRegion(twin.region(0, 1))
    assert (region.header["n_servers"], region.pool()["n"]) == (128, 128)
    np.testing.assert_array_equal(region.snapshot()["servers"]["flows"][:128], seen.flows[0, 1])
    assert seen.flows[0, 1, 64:].all()
    for words in (region.snapshot()["active"], region.pool()["members"]):
        assert servers_in(words) == list(range(128))
    samples = region.samples(127, "completion")
    expected = reduce_samples(samples["time_ms"], samples["value_us"], 5000)
    np.testing.assert_allclose(seen.completion_us[0, 1, 127], expected)


def test_region_of_too_many_servers_is_refused() -> None:
    twin = run(make_scenario("two-speeds", servers=257), seconds=0.1, envs=1)
    with pytest.raises(ConfigError, match="at most 256 servers"):
        twin.region(0, 0)


def test_probes_show_the_past() -> None:
    twin = BalancingTwin("yao-sim-8")
    twin.reset(3)
    twin.advance(40 * MS)
    assert (twin.read().seen.probe_time_ns == -1).all()  # no answer takes less than 50 ms
    twin.advance(10 * SECOND + 300 * MS)
    assert (twin.read().seen.probe_time_ns == 10 * SECOND).all()
    at_poll = BalancingTwin("yao-sim-8")
    at_poll.reset(3)
    at_poll.advance(10 * SECOND)
    truth, seen = at_poll.read().truth, twin.read().seen
    np.testing.assert_array_equal(truth.busy_workers[0], seen.probe_busy[0, 0])
    np.testing.assert_array_equal(truth.queue[0], seen.probe_queue[0, 0])


def test_memory_does_not_grow_with_time() -> None:
    code = (
        "import resource\nfrom dcgym.backends.records import SUMMARY\n"
        "from dcgym.backends.simulation import BalancingTwin\n"
        "from dcgym.tasks.balancing.protocol import PoolCommands\n"
        "twin = BalancingTwin('yao-sim-8', record_limit=100)\ntwin.reset(1)\n"
        "twin.apply(PoolCommands(rules='sed'))\ntwin.advance(3600 * 10**9)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "twin.advance(9 * 3600 * 10**9)\nprint(twin.records(SUMMARY).arrivals)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    arrivals, growth_kb = (int(line) for line in done.stdout.split())
    assert arrivals == pytest.approx(9 * 3600 * 10.14, rel=0.01)
    assert growth_kb < 1024, done.stderr


def test_summary_percentiles_agree_with_the_records() -> None:
    twin = run("yao-sim-8", "sed", 600, envs=1, record_limit=10**6)
    found, records = twin.records(SUMMARY).applications["cpu"], twin.records(FLOWS)
    times_us = (records["end_ns"] - records["arrival_ns"])[records["outcome"] == 0] / 1000
    assert found.count == len(times_us)
    assert found.mean_us == pytest.approx(times_us.mean(), rel=1e-9)
    assert found.std_us == pytest.approx(times_us.std(), rel=1e-6)
    for percent in (50, 90, 95, 99):
        expected = np.percentile(times_us, percent)
        assert getattr(found, f"p{percent}_us") == pytest.approx(expected, rel=0.02)


def weigh(twin: BalancingTwin, weights: Any) -> None:
    twin.apply(PoolCommands(weights=weights))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda twin: twin.apply(PoolCommands(rules="sedd")), "did you mean 'sed'"),
        (lambda twin: twin.apply(PoolCommands(rules=["sed"])), "allowed: 2 names of rules"),
        (lambda twin: twin.apply(PoolCommands(sampled=[2])), "sampled: value 2"),
        (lambda twin: weigh(twin, np.ones((2, 8))), "shape (3, 2, 8)"),
        (
            lambda twin: weigh(twin, np.full((3, 2, 8), np.nan)),
            "finite numbers above 0",
        ),
        (lambda twin: twin.advance(0.5), "whole numbers of ns"),
        (lambda twin: weigh(twin, "abc"), "finite numbers above 0"),
        (
            lambda twin: weigh(twin, np.ones((3, 2, 8)) * 2.0 ** np.arange(0, 32, 4)),
            "16777216",
        ),
        (lambda twin: twin.advance([1, 2]), "until_ns"),
        (lambda twin: twin.advance(np.uint64(2**63 + 5)), "until_ns"),
        (lambda twin: twin.reset(-1), "seeds: value -1"),
        (lambda twin: twin.reset([1, 2]), "seeds: value [1, 2] is not allowed; allowed: 3 whole"),
        (lambda twin: twin.reset([1, 2**64, None]), "seeds: value 18446744073709551616"),
        (lambda twin: twin.reset(None), "seeds: value None"),
        (lambda twin: twin.records(FLOWS, 3), "env: value 3"),
        (lambda twin: BalancingTwin("yao-sim-8", n_envs=0), "n_envs: value 0"),
    ],
)
def test_bad_input_is_one_clear_line(call: Any, message: str) -> None:
    twin = BalancingTwin("yao-sim-8", n_envs=3)
    twin.reset(0)
    with pytest.raises(ConfigError) as caught:
        call(twin)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_without_the_compiled_part_the_package_imports_and_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['dcgym.native._simulation'] = None\n"
        "from dcgym.backends.simulation import BalancingTwin\n"
        "from dcgym.errors import FeatureNotSupported\n"
        "try:\n    BalancingTwin('yao-sim-8')\n"
        "except FeatureNotSupported as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "apt-get install g++" in done.stdout and done.stdout.count("\n") == 1, done.stderr


def test_use_before_reset_is_refused() -> None:
    twin = BalancingTwin("yao-sim-8")
    for call in (twin.read, lambda: twin.records(SUMMARY), lambda: twin.advance(1)):
        with pytest.raises(BackendError, match="reset"):
            call()
