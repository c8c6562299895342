"""Rubik's program against brute force, its mappings against every path, and by hand."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest

from dcgym.backends.simulation.placement import FlowLevelModel
from dcgym.backends.simulation.rubik import plan_rubik
from dcgym.errors import ConfigError
from dcgym.tasks.placement import locality
from dcgym.tasks.placement.data_centre import DATA_CENTRES, DataCentre, make_data_centre
from dcgym.tasks.placement.locality import SolverLimits, localise
from dcgym.tasks.placement.mappings import DipLimits, LocalMappings
from dcgym.traffic.vips import ServiceGraph, SyntheticVips, VipTable, draw_services
from tests.support.vip_paths import graph_of, loads_of

pytestmark = pytest.mark.simulation

EXACT = SolverLimits(gap=0.0)
TWO_TIMES = DipLimits(headroom=2.0, load=1.0, vms_per_server=1, failure_domains=1, moves=1.0)


def services_of(table: VipTable, calls: list[tuple[int, int, float]] | None = None) -> ServiceGraph:
    columns = np.array(calls or [], np.float64).reshape(-1, 3).T
    return ServiceGraph(table, columns[0].astype(int), columns[1].astype(int), columns[2])


def small_centre(slots: int, entries: int) -> DataCentre:
    spec = {"preset": "duet-10", "servers_per_rack": slots, "tunnel_entries": entries}
    return make_data_centre(spec)


def random_services(seed: int) -> ServiceGraph:
    """Two VIPs of 2 to 4 DIPs in three of four racks."""
    generator = np.random.default_rng(seed)
    sources, dips = [], []
    for _ in range(2):
        rates = generator.uniform(1e8, 1e9, 3) * (generator.uniform(size=3) < 0.8)
        sources.append({rack: float(bps) for rack, bps in enumerate(rates) if bps > 0})
        racks = generator.integers(0, 3, generator.integers(2, 5)).tolist()
        dips.append({rack: racks.count(rack) for rack in set(racks)})
    return services_of(VipTable.of(sources, dips, generator.uniform(0, 5e8, 2).tolist()))


def best_by_force(
    services: ServiceGraph, centre: DataCentre, limits: DipLimits, moves: int
) -> float:
    """Return the most local bytes over all places of DIPs and all local mappings."""
    state = LocalMappings(centre, services, limits)
    held = np.bincount(services.table.dip_rack, services.table.dip_count, centre.n_racks)
    room = held + state.free_slots
    options = []
    for vip in range(2):
        demand, now = state.demand(vip), state.dips[vip]
        n, racks = int(state.n_dips[vip]), range(centre.n_racks)
        # DIPs may move only to racks that send to the VIP.
        allowed = [r for r in racks if demand[r] > 0 or now.get(r, 0)]
        own = []
        for counts in itertools.product(range(n + 1), repeat=len(allowed)):
            x = dict(zip(allowed, counts, strict=True))
            if sum(counts) != n or sum(c > 0 for c in counts) < state.least_racks(vip):
                continue
            for local in itertools.product((0, 1), repeat=len(allowed)):
                y = [r for r, is_local in zip(allowed, local, strict=True) if is_local]
                m = {r: math.ceil(demand[r] / state.dip_bps[vip] - 1e-9) for r in y}
                left = services.bps[vip] - sum(demand[r] for r in y)
                spare = (n - sum(m.values())) * state.dip_bps[vip] * (1 + 1e-9)
                if any(demand[r] == 0 or x[r] < m[r] for r in y) or left > spare + 1e-3:
                    continue
                arrived = sum(max(c - now.get(r, 0), 0) for r, c in x.items())
                own.append((sum(demand[r] for r in y), x, m, arrived))
        options.append(own)
    best = 0.0
    for (bps, x, m, a), (bps_2, x_2, m_2, a_2) in itertools.product(*options):
        if bps + bps_2 <= best or a + a_2 > moves:
            continue
        racks = range(centre.n_racks)
        if all(
            x.get(r, 0) + x_2.get(r, 0) <= room[r]
            and m.get(r, 0) + m_2.get(r, 0) <= centre.switch_entries
            for r in racks
        ):
            best = bps + bps_2
    return best


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("slots", "entries", "domains"), [(8, 8, 1), (3, 2, 2), (4, 3, 3)])
def test_the_program_finds_what_brute_force_finds(
    seed: int, slots: int, entries: int, domains: int
) -> None:
    services, centre = random_services(seed), small_centre(slots, entries)
    n_dips = int(services.table.dips.sum())
    for moves in (0, 1, n_dips):
        limits = DipLimits(2.0, 1.0, 1, domains, moves / n_dips)
        state = LocalMappings(centre, services, limits)
        report = localise(state, [0, 1], EXACT)
        assert report.status in ("optimal", "nothing to do")
        expected = best_by_force(services, centre, limits, moves)
        assert report.local_bps == pytest.approx(expected, rel=1e-6)
        # What the state says of itself fits what was allowed.
        assert state.moved <= moves and state.free_entries.min() >= 0
        assert state.free_slots.min() >= 0
        assert [sum(one.values()) for one in state.dips] == state.n_dips.tolist()
        assert state.dip_loads().max() <= 1 + 1e-6
        for vip in range(2):
            assert state.least_racks(vip) <= len(state.dips[vip])
            assert all(n <= state.dips[vip][r] for r, n in state.local[vip].items())
        left = state.residual()
        assert left.local_bps == pytest.approx(report.local_bps)


def test_mappings_by_hand() -> None:
    """A rack sends 6 of 8 Gbit/s to 4 DIPs of 4 Gbit/s each: two of them serve it."""
    table = VipTable.of([{0: 6e9, 1: 2e9}], [{0: 1, 2: 3}])
    state = LocalMappings(DATA_CENTRES["duet-10"], services_of(table), TWO_TIMES)
    assert state.dip_bps.tolist() == [4e9] and state.free_slots.tolist() == [14, 15, 12, 15]
    # DIPs stay: one in rack 0 does not carry 6 Gbit/s, and nobody else has a DIP.
    without = copy.deepcopy(state)
    assert localise(without, [0], EXACT, has_moves=False).status == "nothing to do"
    assert localise(state, [0], EXACT).local_bps == 8e9
    assert state.local == [{0: 2, 1: 1}] and state.moved == 2
    assert state.free_entries[:2].tolist() == [510, 511]
    left = state.residual()
    assert (left.local_bps, left.table.bps.tolist()) == (8e9, [0.0])
    assert left.used[:4].tolist() == [2, 1, 0, 0] and without.moved == 0


def test_callers_dips_are_sources_and_local_mappings_move_them() -> None:
    """Of 4 Gbit/s rack 0 sends 3; three of four DIPs there serve them, one the rest."""
    table = VipTable.of([{0: 3e9, 3: 1e9}, {}], [{0: 2, 1: 2}, {2: 2}])
    services = services_of(table, [(0, 1, 2e9)])
    state = LocalMappings(DATA_CENTRES["duet-10"], services, TWO_TIMES)
    assert state.demand(1).tolist() == [1e9, 1e9, 0, 0]
    state.set_dips(0, {0: 3, 1: 1}, {0: 3})
    assert state.served(0).tolist() == [0.75, 0.25, 0, 0]
    assert state.demand(1).tolist() == [1.5e9, 0.5e9, 0, 0]
    # Two of 2 Gbit/s capacity each: the caller's rack gets one, the residual mapping has the other.
    report = localise(state, [1], EXACT)
    assert report.local_bps == 2e9 and state.dips[1] == {0: 1, 1: 1}


def test_residual_traffic_is_routed_as_brute_force_routes_it() -> None:
    centre = DATA_CENTRES["rubik-20"]
    table = SyntheticVips(30, 8, 4e10, 60, 16).draw(2)[0]
    plan = plan_rubik(centre, draw_services(table, 2), dips=DipLimits(moves=0.3))
    state, left = plan.mappings, plan.mappings.residual()
    assert plan.outcome.local_bps > 0.2 * plan.outcome.total_bps
    flows = []
    where = dict(zip(left.numbers.tolist(), plan.outcome.places.tolist(), strict=True))
    for vip in range(30):
        demand, dips = state.demand(vip), state.residual_dips(vip)
        if vip not in where:
            assert dips == {}
            continue
        racks = set(np.flatnonzero(demand).tolist()) - state.local[vip].keys()
        sources = [(rack, float(demand[rack])) for rack in racks]
        sources.append(("internet", float(table.internet_bps[vip])))
        muxes = [where[vip]] if where[vip] >= 0 else list(range(centre.n_racks))
        for mux, (source, bps) in itertools.product(muxes, sources):
            flows.append((source, mux, bps / len(muxes)))
            share = bps / len(muxes) / sum(dips.values())
            flows.extend((mux, rack, share * n) for rack, n in dips.items())
    flows = [one for one in flows if one[2] > 0 and one[0] != one[1]]
    expected = loads_of(graph_of(centre), flows, centre.n_links)
    np.testing.assert_allclose(plan.outcome.residual.link_bps, expected, rtol=1e-9, atol=1)
    assert plan.outcome.metrics["mlu"] == pytest.approx((expected / centre.link_bps).max())


def test_local_mappings_take_entries_from_residual_ones() -> None:
    table = VipTable.of([{0: 1e9}], [{1: 2}])
    model = FlowLevelModel(small_centre(4, 3))
    model.reset(0, table, np.array([2, 1] + [0] * 8))
    found = model.candidates(0, 0, None, 0)
    assert found.feasible.tolist() == [False] + [True] * 9
    assert model.usage(0).memory_max == pytest.approx(2 / 3)


def test_schemes_are_ordered_and_their_dips_never_carry_too_much() -> None:
    centre = DATA_CENTRES["fat-tree-8"]
    services = draw_services(SyntheticVips(200, 32, 3.8e11, 992).draw(0)[0], 0)
    found = {
        name: plan_rubik(centre, services, name).outcome for name in ("duet", "rubik-lo", "rubik")
    }
    free = plan_rubik(centre, services, dips=DipLimits(moves=1.0)).outcome
    shares = [one.metrics["local_share"] for one in (*found.values(), free)]
    assert shares[0] == 0 and shares == sorted(shares) and shares[-1] > 2 * shares[1]
    assert found["rubik"].metrics["moved_share"] <= 0.01
    for one in (*found.values(), free):
        assert one.dip_loads.max() <= 0.8 + 1e-6
        assert one.metrics["hops"] >= one.metrics["hops_closest"] * (1 - 1e-9)
    assert free.metrics["mlu"] < found["duet"].metrics["mlu"]


def test_a_solver_without_time_says_so_and_leaves_what_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = VipTable.of([{0: 6e9, 1: 2e9}], [{0: 1, 2: 3}])
    from scipy import optimize

    def timed_out(*arguments: object, **named: object) -> optimize.OptimizeResult:
        return optimize.OptimizeResult(status=1, x=None, mip_dual_bound=-8.0, mip_gap=None)

    monkeypatch.setattr(optimize, "milp", timed_out)
    state = LocalMappings(DATA_CENTRES["duet-10"], services_of(table), TWO_TIMES)
    report = localise(state, [0], SolverLimits(time_limit_s=1))
    assert (report.status, report.local_bps, report.bound_bps) == ("none in time", 0.0, 8e9)
    assert state.dips == [{0: 1, 2: 3}] and state.local == [{}]
    infeasible = optimize.OptimizeResult(status=2, x=None, mip_dual_bound=None, mip_gap=None)
    monkeypatch.setattr(optimize, "milp", lambda *arguments, **named: infeasible)
    with pytest.raises(ConfigError, match="infeasible") as caught:
        localise(state, [0], EXACT)
    assert "\n" not in str(caught.value)


def test_vips_whose_dips_are_overloaded_stay_as_they_are() -> None:
    services = services_of(VipTable.of([{0: 4e9}, {0: 1e9}], [{0: 1, 1: 1}, {0: 1}]))
    state = LocalMappings(DATA_CENTRES["duet-10"], services, TWO_TIMES)
    state.dip_bps[0] = 1e9
    report = localise(state, [0, 1], EXACT)
    assert report.overloaded == (0,) and state.local == [{}, {0: 1}]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: DipLimits(headroom=1.0, load=0.8), "1.25"),
        (lambda: DipLimits(moves=2.0), "moves"),
        (lambda: SolverLimits(gap=-1), "gap"),
        (lambda: plan_rubik(DATA_CENTRES["duet-10"], random_services(0), "rubick"), "scheme"),
        (lambda: VipTable.of([{0: 1.0}], [{}]), "DIPs of VIP 0"),
        (
            lambda: plan_rubik(
                DATA_CENTRES["duet-10"], services_of(VipTable.of([{9: 1.0}], [{0: 1}]))
            ),
            "0 to 3",
        ),
    ],
)
def test_wrong_input_gets_one_line(make: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as caught:
        make()  # type: ignore[operator]
    assert "\n" not in str(caught.value)


def test_pairs_of_least_traffic_are_left_out_first() -> None:
    services = random_services(1)
    state = LocalMappings(small_centre(8, 8), services, TWO_TIMES)
    one = localise(state, [0, 1], SolverLimits(0.0, most_pairs=1))
    assert one.pairs == 1 and locality.SolverLimits().most_pairs is None
    assert one.local_bps <= max(float(state.demand(vip).max()) for vip in range(2))
