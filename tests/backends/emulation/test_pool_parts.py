"""Parts of the emulated pod that need no network: averages, polls, records."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dcgym.backends.emulation.pool.flows import PoolFlows
from dcgym.backends.emulation.pool.servers import PoolServers, ServerPolls
from dcgym.errors import BackendError, ConfigError
from dcgym.suites.checks import check_suite
from dcgym.suites.twin_error import twin_error_suite
from dcgym.tasks.balancing import Resource, ServerGroup, Vip, make_scenario
from dcgym.tasks.balancing.protocol import PoolSummary
from dcgym.tasks.balancing.records import OUTCOMES
from dcgym.traffic.http import REQUEST_OUTCOMES, RESULT_DTYPE, SERVER_DTYPE, Application, Stage
from dcgym.traffic.sizes import constant
from tests.support.pools import filled
from tests.support.source_tree import ROOT

MS = 10**6
TESTBED = make_scenario("testbed-7", application="wiki")


def rows(*busy: int) -> Any:
    made = np.zeros(7, SERVER_DTYPE)
    made["busy"] = busy
    made["workers_busy"] = np.minimum(busy, [2, 2, 2, 4, 4, 4, 4])
    return made


def test_truth_counts_flows_and_estimates_their_work() -> None:
    servers = PoolServers(TESTBED, 0)
    servers.factor[0], servers.colocated[3] = 0.5, 4.0
    ongoing = np.array([[1, 0, 0, 2, 0, 0, 0], [3, 0, 0, 2, 0, 0, 0]])
    ended = dict.fromkeys(("ended", "ended_after_ns", *OUTCOMES[1:3]), np.zeros(1, np.int64))
    truth = servers.truth(rows(4, 0, 0, 4, 0, 0, 0), ongoing, ended)
    np.testing.assert_allclose(truth.capacity[0], [1, 2, 2, 2, 4, 4, 4])
    # A flow asks for 24.75 ms of CPU and 3 ms of I/O on average; four of them wait.
    np.testing.assert_allclose(truth.remaining_ns[0][0], 4 * 27.75 * MS)
    np.testing.assert_allclose(truth.remaining_ns[0][3], 4 * (24.75 / 2 + 3) * MS)
    parts = truth.remaining_by_balancer_ns[0]
    np.testing.assert_allclose(parts.sum(axis=0), truth.remaining_ns[0])
    assert parts[1, 0] == pytest.approx(3 * parts[0, 0])
    np.testing.assert_array_equal(truth.busy_workers[0], [2, 0, 0, 4, 0, 0, 0])


def test_work_at_every_resource_counts() -> None:
    resources = (Resource("cpu", 2), Resource("disk", 2, 0.5), Resource("gpu", speed=4.0))
    stages = tuple(Stage(one.name, constant("8ms")) for one in resources)
    groups = (ServerGroup("a", 7, resources),)
    servers = PoolServers(
        TESTBED.changed(groups=groups, applications=(Application("a", stages),)), 0
    )
    found = servers.remaining_ns(rows(3, 0, 0, 0, 0, 0, 0))
    np.testing.assert_allclose(found[:2], [3 * (4 + 8 + 2) * MS, 0])


def test_averages_are_over_the_samples_after_the_warm_up() -> None:
    servers = PoolServers(TESTBED, 100)
    servers.sample(rows(9, 9, 9, 9, 9, 9, 9), 99)
    servers.sample(rows(2, 2, 2, 4, 4, 4, 4), 100)
    servers.sample(rows(6, 0, 0, 0, 0, 0, 0), 200)
    found = servers.averages()
    assert found["queue_mean"].tolist() == [4, 1, 1, 2, 2, 2, 2]
    assert found["busy_mean"].tolist() == [2, 1, 1, 2, 2, 2, 2]
    # Even load: index 1; all on one of seven: 1/7, and seven times the mean.
    assert found["jain_queue"] == pytest.approx((1 + 1 / 7) / 2)
    assert found["overprovision_queue"] == pytest.approx((1 + 7) / 2)


def test_a_poll_is_known_when_its_answer_has_come() -> None:
    polls = ServerPolls(TESTBED)
    assert polls.due_ns == 0
    polls.ask(rows(*range(1, 8)), 0)
    before, after = polls.answers(49 * MS), polls.answers(200 * MS)
    assert (before["probe_time_ns"] == -1).all() and not before["probe_queue"].any()
    np.testing.assert_array_equal(after["probe_queue"][0], [list(range(1, 8))] * 2)
    np.testing.assert_array_equal(after["probe_busy"][0][0], [1, 2, 2, 4, 4, 4, 4])
    polls.ask(rows(*[0] * 7), polls.due_ns)
    np.testing.assert_array_equal(polls.answers(500 * MS)["probe_queue"], after["probe_queue"])
    assert (polls.answers(700 * MS)["probe_time_ns"] == 500 * MS).all()


def test_members_of_an_address_alone_are_asked_and_take_flows() -> None:
    page, static = (app.name for app in TESTBED.applications)
    vips = (Vip("a", ("weak",), (page,)), Vip("b", (), (static,)))
    made = TESTBED.changed(vips=vips, load=0.1)
    polls, servers = ServerPolls(made), PoolServers(made, 0)
    polls.ask(rows(*range(1, 8)), 0)
    found = polls.answers(200 * MS)
    # Balancer by balancer, and four servers answer the second address alone.
    assert found["probe_queue"][0].tolist() == [[1, 2, 3, 0, 0, 0, 0], [*range(1, 8)]] * 2
    assert found["probe_time_ns"][0].tolist() == [[0] * 3 + [-1] * 4, [0] * 7] * 2
    assert polls.count == 2 * (3 + 7)
    servers.in_service[0] = False
    assert servers.takes_flows.tolist() == [
        [False, *[True] * 2, *[False] * 4],
        [False, *[True] * 6],
    ]


class Results:
    """Stands for the generator's memory: requests that ended, in this order."""

    def __init__(self, outcomes: list[str], ends_ns: list[int]) -> None:
        self._rows = np.zeros(len(outcomes), RESULT_DTYPE)
        self._rows["outcome"] = [REQUEST_OUTCOMES.index(name) for name in outcomes]
        self._rows["end_ns"], self._rows["start_ns"] = ends_ns, 1000
        self._rows["server"] = [5, -1, 2, 3, 4, 1, 6][: len(outcomes)]

    def ended_from(self, first: int) -> Any:
        return np.arange(len(self._rows))[first:]

    def rows(self, ids: Any) -> Any:
        return self._rows[ids]


OUTCOMES_FOUND = {
    "finished": "completed",
    "rejected": "rejected",
    "reset": "pcc_violations",
    "timed_out": "lost",
    "refused": "lost",
    "lost": "lost",
}


def followed(limit: int = 100, warm_up_ns: int = 0) -> PoolFlows:
    """Return flows of one arrival a millisecond; the fourth was cut, the eighth has not ended."""
    drawn = np.zeros(
        8, [("arrival_ns", "i8"), ("flow", "u8"), ("demand_ns", "i8", 8), ("application", "u2")]
    )
    drawn["flow"], drawn["arrival_ns"] = np.arange(8), np.arange(8) * MS
    drawn["application"], drawn["demand_ns"][:, :2] = [0, 1, 0, 0, 0, 1, 0, 0], [7, 5]
    outcomes = list(OUTCOMES_FOUND)
    outcomes.insert(3, "cut")
    results: Any = Results(outcomes, [1000 + i * 10 * MS for i in range(1, 8)])
    flows = PoolFlows(TESTBED, limit, warm_up_ns)
    flows.begin(drawn, results, 1000)
    return flows


def test_requests_become_the_flows_of_the_twin() -> None:
    found = followed().take()
    assert found["flow"].tolist() == [0, 1, 2, 4, 5, 6], "what the end of the episode cut is none"
    expected = [OUTCOMES.index(name) for name in OUTCOMES_FOUND.values()]
    assert found["outcome"].tolist() == expected
    assert found["end_ns"].tolist() == [i * 10 * MS for i in (1, 2, 3, 5, 6, 7)]
    assert found["server"].tolist() == [5, 65535, 2, 4, 1, 6]
    # The second stage of a page does not exist, that of a file is I/O.
    assert found["demand_ns"].T.tolist() == [[7] * 6, [0, 5, 0, 0, 5, 0]]


def test_figures_count_from_the_warm_up_on() -> None:
    flows = followed(limit=1, warm_up_ns=2 * MS)
    flows.poll()
    figures = flows.figures(80 * MS)
    filled(PoolSummary, **figures)
    # Cut and not ended: both are under way.
    assert (figures["arrivals"], figures["in_flight"], figures["lost"]) == (6, 2, 3)
    assert len(flows.under_way(80 * MS)) == 2
    assert (figures["completed"], figures["pcc_violations"]) == (0, 1)
    assert figures["records_dropped"] == 3
    early = followed()
    early.poll()
    times = early.figures(80 * MS)["applications"][TESTBED.applications[0].name]
    assert times.count == 1 and times.mean_us == pytest.approx(10_000)
    assert times.p50_us == pytest.approx(10_000, rel=0.016)
    assert len(flows.take()) == 1 and len(flows.take()) == 0


def test_a_summary_whose_flows_do_not_add_up_is_refused() -> None:
    ended = dict.fromkeys(OUTCOMES, 2)
    filled(PoolSummary, **ended, arrivals=9, in_flight=1)
    with pytest.raises(BackendError, match=r"of 9 flows that arrived, 10 remain: completed 2, "):
        filled(PoolSummary, **ended, arrivals=9, in_flight=2)


def test_twin_error_refuses_what_it_cannot_compare() -> None:
    with pytest.raises(ConfigError, match=r"^policies: value 'oracle'"):
        check_suite(replace(twin_error_suite(), policies=("oracle",)))
    with pytest.raises(ConfigError, match=r"^episode_s"):
        replace(twin_error_suite(), warmup_s=5.0, episode_s=5.0)


# What draws and follows the requests of emulated pools.
WITHOUT_SIMULATION = """
import sys
sys.modules["dcgym.native._simulation"] = None
from tests.support.imports import main
main("dcgym.backends.emulation")
from dcgym.backends.emulation.pool.flows import PoolFlows
from dcgym.tasks.accelerators import make_pool_of_devices
from dcgym.tasks.accelerators.arrivals import draw_requests
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.arrivals import draw_arrivals
PoolFlows(make_scenario("testbed-7"), 10, 0)
flows = draw_arrivals("testbed-7", 1, 10**9)
requests = draw_requests(make_pool_of_devices("accelerator-pool"), 1, 100.0, 10**9)
print(len(flows) > 0, len(requests) > 0)
"""


def test_pools_are_emulated_where_no_simulation_is_built() -> None:
    command = [sys.executable, "-c", WITHOUT_SIMULATION]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout == "True True\n", done.stderr
