"""Prequal, peak-EWMA and C3 by themselves, against traces worked out by hand."""

from __future__ import annotations

from collections import Counter
from math import exp
from typing import Any

import pytest
from scipy import stats

from dcgym.native import require
from dcgym.tasks.balancing.rules import RULES

pytestmark = pytest.mark.simulation

MS, SECOND = 10**6, 10**9

# (server, requests in flight, latency in ms): the loads sorted are 1 2 4 6 9.
FIVE = [(0, 4, 30), (1, 9, 5), (2, 1, 80), (3, 6, 10), (4, 2, 20)]


@pytest.mark.parametrize(
    ("quantile", "best", "worst"),
    [
        (0.84, 3, 1),  # threshold 6, place 3.36 from 0: server 1 is hot, the fastest is 3
        (0.5, 4, 1),  # threshold 4: 0, 2 and 4 are cold
        (0.4, 4, 1),  # threshold 2, place 1.6: 2 and 4 are cold
        (0.0, 2, 1),  # the least load alone
        (1.0, 1, 2),  # latency alone, and the worst is the slowest
    ],
)
def test_hot_and_cold_by_the_quantile(quantile: float, best: int, worst: int) -> None:
    native = require("_simulation")
    assert native.prequal_best(FIVE, quantile) == best
    assert native.prequal_worst(FIVE, quantile) == worst


def test_a_server_counts_once_in_the_quantile_by_its_newest_answer() -> None:
    # Loads 8 (old) and 1 (new) of server 0, 3 and 5: the threshold is the second of 1 3 5.
    answers = [(0, 8, 1), (1, 3, 9), (2, 5, 2), (0, 1, 7)]
    assert require("_simulation").prequal_best(answers, 0.5) == 3
    # With server 0 counted twice it would be the third of 1 3 5 8, and server 2 were cold.
    assert require("_simulation").prequal_best(answers, 0.75) == 3
    assert require("_simulation").prequal_best(answers[:1], 0.5) == 0
    assert require("_simulation").prequal_best([], 0.5) == -1


def test_reuse_budget_of_the_paper_and_of_small_fleets() -> None:
    native = require("_simulation")
    # (1 + 1) / ((1 - 16 / n) * 3 - 1)
    assert native.prequal_reuse(3, 64) == pytest.approx(1.6)
    assert native.prequal_reuse(3, 100) == pytest.approx(2 / 1.52)
    assert native.prequal_reuse(4, 10_000) == 1.0  # 2 / 2.99, but no less than one
    # A pool of half the servers: 2 / (3/2 - 1); with one probe a request there is no budget.
    assert [native.prequal_capacity(n) for n in (2, 8, 30, 32, 64)] == [2, 4, 15, 16, 16]
    assert native.prequal_reuse(3, 8) == 4.0
    assert native.prequal_reuse(1, 8) == 2.0


def prequal(quantile: float = 0.8, seed: int = 1):  # type: ignore[no-untyped-def]
    native = require("_simulation")
    return native.PrequalPool(quantile, 3.0, 3 * MS, list(range(64)), seed)


def fill(pool, answers, now_ns: int = MS) -> None:  # type: ignore[no-untyped-def]
    for found in answers:
        assert pool.answer(pool.ask(0), 0, now_ns, found) == "taken"


def test_a_trace_of_choice_overuse_and_removal() -> None:
    pool = prequal(quantile=0.5)
    fill(pool, [(0, 4, 30), (1, 9, 5), (2, 1, 80), (3, 6, 10), (0, 2, 20)])
    # Newest loads 9 1 6 2: the threshold is 2. Cold: server 2 and the second answer of server 0,
    # which is faster. Its servers' loads rise to 5 and 3; then the oldest answer goes.
    assert pool.choose(2 * MS) == 0
    assert [answer[:3] for answer in pool.answers()] in (
        [(1, 9, 5), (2, 1, 80), (3, 6, 10), (0, 3, 20)],
    )
    # Loads 9 1 6 3: threshold 3, server 0 again if its answer has a use left, else 2. Then the
    # worst goes: the hot one with the most in flight, server 1.
    uses = pool.answers()[-1][3]
    assert pool.choose(2 * MS) == (0 if uses else 2)
    assert 1 not in [answer[0] for answer in pool.answers()]


def test_answers_late_twice_old_or_of_a_server_that_left() -> None:
    pool = prequal()
    late, twice = pool.ask(0), pool.ask(0)
    assert pool.answer(late, 0, 3 * MS + 1, (5, 0, 1)) == "late"
    assert pool.answer(twice, 0, MS, (5, 0, 1)) == "taken"
    assert pool.answer(twice, 0, MS, (5, 0, 1)) == "repeated"
    assert pool.answer(99, 0, MS, (5, 0, 1)) == "repeated"
    # One answer is too few.
    assert pool.choose(MS) == -1
    fill(pool, [(1, 0, 1), (2, 0, 2), (3, 0, 3)])
    pool.leave(1)
    assert pool.choose(2 * MS) == 2
    assert pool.choose(MS + SECOND + 1) == -1 and pool.answers() == []


def test_the_pool_holds_sixteen_and_the_oldest_gives_way() -> None:
    pool = prequal()
    fill(pool, [(server, 1, 1) for server in range(20)])
    assert [answer[0] for answer in pool.answers()] == list(range(4, 20))


def test_a_server_answers_with_the_median_at_its_load_or_the_nearest() -> None:
    estimate = require("_simulation").latency_estimate
    samples = [(1, 10), (1, 50), (1, 30), (4, 200), (6, 300)]
    assert estimate(samples, 1) == 30 and estimate(samples, 0) == 30
    assert estimate(samples, 4) == 200 and estimate(samples, 9) == 300
    # 2 is nearer to 1, 5 is as near to 4 as to 6: both, and of two the lower.
    assert estimate(samples, 2) == 30 and estimate(samples, 5) == 200
    assert estimate([], 3) == 0
    # The ring keeps the last 128.
    assert estimate([(1, 1)] * 128 + [(1, 9)] * 128, 1) == 9
    # A latency of 0 would be none.
    assert estimate([(1, 0)], 1) == 1


def test_latencies_of_long_ago_are_forgotten() -> None:
    estimate = require("_simulation").latency_estimate
    assert estimate([(1, 30)], 0, probes=200) == 30 and estimate([(1, 30)], 0, probes=201) == 0


def test_a_server_that_tells_no_latency_counts_as_one_of_the_pool() -> None:
    known = [(1, 3, 10), (2, 3, 20), (3, 3, 40), (4, 3, 50)]
    drawn = Counter[int]()
    for seed in range(600):
        pool = prequal(seed=seed)
        fill(pool, [*known, (5, 3, 0)])
        drawn[pool.answers()[-1][2]] += 1
    assert stats.chisquare([drawn[latency] for _, _, latency in known]).pvalue > 1e-4
    # With nobody to compare it with it has a latency of 0, and so have all of its kind.
    strangers = prequal()
    fill(strangers, [(1, 0, 0), (2, 0, 0), (3, 0, 0)])
    assert [answer[2] for answer in strangers.answers()] == [0, 0, 0]


def test_peak_ewma_takes_peaks_at_once_and_decays_with_ten_seconds() -> None:
    cost = require("_simulation").peak_ewma_cost
    first, second = 100 * MS, 50 * MS
    assert cost([(first, 0)], 2, 0) == 3 * first
    assert cost([(first, 0), (4 * first, SECOND)], 0, SECOND) == 4 * first
    decay = exp(-0.1)
    # Whole numbers: exp is off by 2^-30 at most, times and costs by 1 ns.
    blended = first * decay + second * (1 - decay)
    found = cost([(first, 0), (second, SECOND)], 0, SECOND)
    assert found == pytest.approx(blended, abs=1 + first * 2**-30)
    # With nothing new the estimate falls towards 0.
    for seconds in (1, 3, 5, 7, 11, 20, 50, 120):
        after = cost([(first, 0)], 0, seconds * SECOND)
        assert after == pytest.approx(first * exp(-seconds / 10), abs=1 + first * 2**-30)
    assert cost([(first, 0)], 0, 300 * SECOND) == 0
    # A clock that runs backwards changes nothing.
    assert cost([(first, SECOND)], 0, 0) == first
    # What takes longer than 275 s takes as long, and no product overflows.
    longest = 2**38
    assert cost([(2**62, SECOND)], 2**32 - 1, SECOND) == longest * (2**16 + 1)


def test_the_first_estimate_of_a_response_time_decays_like_any() -> None:
    cost = require("_simulation").peak_ewma_cost
    # Linkerd's 30 ms, from joining on; Tower's first sample is blended in, unless it is a peak.
    for seconds in (0, 1, 5, 20):
        expected = 30 * MS * exp(-seconds / 10)
        assert cost([], 0, seconds * SECOND) == pytest.approx(expected, abs=2)
    late, left = 5 * SECOND, 30 * MS * exp(-0.5)
    blended = left + 20 * MS * (1 - exp(-0.5))
    assert cost([(20 * MS, late)], 0, late) == pytest.approx(blended, abs=2)
    # A look before takes it down to 18.2 ms, and 20 ms are a peak.
    assert cost([(0, late), (20 * MS, late)], 0, late) == 20 * MS
    assert cost([(0, late), (2 * MS, late)], 2, late) == pytest.approx(3 * left, abs=6)


def test_c3_by_hand() -> None:
    score = require("_simulation").c3_score
    # q = 1 + 2 * 3 + 4 = 11; 50 - 8 + 1331 * 8.
    assert score(50, 8, 4.0, 2, 3) == 50 - 8 + 1331 * 8
    # Elasticsearch's test of the formula's shape: it rises with every load, and cubes the queue.
    assert score(0, 1, 0.0, 0, 1) == 0.0
    assert score(0, 1, 9.0, 0, 1) == 999.0
    # The largest that fit: 1024 flows, 2^32 ns of service.
    assert score(0, 2**40, 0.0, 2**32 - 1, 64) == (1024**3 - 1) * 2**32


def told(rule: str, servers: list[int], ongoing: list[int], **options: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"random": 1, "now_ns": SECOND, "count": 1}
    settings |= {"heard": [(0,) * 6] * len(ongoing), **options}
    found: dict[str, Any] = require("_simulation").choose_told(
        RULES[rule].number, servers, ongoing, **settings
    )
    return found


def test_idle_servers_are_taken_in_order_and_those_that_left_forgotten() -> None:
    # Numbers of their messages, of which 2 has been taken.
    heard = [(number, 0, 0, 0, 0, 0) for number in (5, 3, 4, 2)]
    found = told("jiq", [0, 1, 3], [0] * 4, heard=heard, idle=(5, 2), count=2)
    # 3, then 5; 4 is of a server that is not there.
    assert found["choices"] == [1, 0] and found["idle"] == (5, 5)
    only = told("jiq", [3], [0] * 4, heard=heard, idle=(5, 2))
    assert only["choices"] == [3] and only["idle"] == (5, 5)


def test_who_joins_is_idle_unheard_of_and_slow_until_shown_otherwise() -> None:
    known = (4, 5 * MS, 7, 8, 9, 10)
    found = told("peak-ewma", [0, 2], [0] * 3, heard=[known] * 3, idle=(6, 3), strangers=[2])
    # Both were looked at since, the stranger at the time at which it joined.
    stranger = (7, 30 * MS << 8, SECOND, 0, 0, 0)
    assert found["heard"][1:] == [known, stranger] and found["idle"] == (7, 3)
    # Who joined first is at the head of the queue of idle servers.
    both = told("jiq", [0, 1, 2], [0] * 3, idle=(6, 6), strangers=[1, 2], count=3)
    assert both["choices"][:2] == [1, 2] and both["idle"] == (8, 8)


def test_a_reset_of_c3_forgets_whom_it_shuns() -> None:
    slow, fast = (0, 0, 0, 10**9, MS, 0), (0, 0, 0, MS, MS, 0)
    ways: dict[str, Any] = {"heard": [slow, fast, fast], "count": 1000}
    assert 0 not in told("c3-rank", [0, 1, 2], [0, 1, 1], **ways)["choices"]
    # What was told came after 1 ns; it is 1 s now.
    young = told("c3-rank", [0, 1, 2], [0, 1, 1], c3_reset_ns=SECOND - 1, **ways)
    assert 0 not in young["choices"]
    reset = told("c3-rank", [0, 1, 2], [0, 1, 1], c3_reset_ns=SECOND - 2, **ways)
    assert set(reset["choices"]) == {0, 1, 2} and reset["heard"][0][3:] == (0, 0, 0)


def test_equal_c3_scores_are_drawn_evenly() -> None:
    found = told("c3-rank", [0, 1, 2, 3], [0, 0, 1, 0], count=3000, balancers=4)
    counts = Counter(found["choices"])
    # Nothing is known of any: all scores are 0, whatever the queues.
    assert stats.chisquare([counts[i] for i in range(4)]).pvalue > 1e-4
    busy = [(0, 0, 0, 0, 1000, 0)] * 4
    found = told("c3-rank", [0, 1, 2, 3], [0, 0, 1, 0], count=3000, heard=busy)
    counts = Counter(found["choices"])
    assert counts[2] == 0 and stats.chisquare([counts[i] for i in (0, 1, 3)]).pvalue > 1e-4
