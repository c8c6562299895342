"""The flow-level model of VIPs against brute force over every path, and by hand."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from dcgym.backends.simulation.placement import FlowLevelModel
from dcgym.errors import BackendError, ConfigError
from dcgym.tasks.placement.data_centre import DATA_CENTRES, DataCentre, fat_tree
from dcgym.tasks.placement.links import ideal_link_bps
from dcgym.tasks.placement.view import COLUMNS, AssignmentRule, Failures
from dcgym.traffic.vips import SyntheticVips, VipTable
from tests.support.vip_paths import flows_of, graph_of, loads_of

pytestmark = pytest.mark.simulation

CENTRES = {
    "duet-10": DATA_CENTRES["duet-10"],
    "rubik-20": DATA_CENTRES["rubik-20"],
    # Nothing is as large as anything else, so that indices cannot be confused.
    "uneven": DataCentre(3, 4, 2, 3, core_bps=40_000_000_000),
}
HEALTHY = Failures()


def random_table(centre: DataCentre, vips: int, seed: int = 0) -> VipTable:
    generator = np.random.default_rng(seed)

    def rows(low: float, high: float) -> list[dict[int, float]]:
        made = []
        for _ in range(vips):
            count = int(generator.integers(1, centre.n_racks + 1))
            racks = generator.choice(centre.n_racks, count, replace=False)
            made.append({int(rack): float(generator.uniform(low, high)) for rack in racks})
        return made

    dips = [{rack: int(count) for rack, count in row.items()} for row in rows(1, 9)]
    return VipTable.of(rows(1e6, 1e8), dips, generator.uniform(0, 1e8, vips).tolist())


def model_of(centre: DataCentre, table: VipTable) -> FlowLevelModel:
    model = FlowLevelModel(centre)
    model.reset(0, table)
    return model


@pytest.mark.parametrize("name", CENTRES)
def test_a_vip_on_any_switch_loads_the_links_as_brute_force_says(name: str) -> None:
    """Of every switch: what it was said to load, what it loads, and what all of them load."""
    centre = CENTRES[name]
    table = random_table(centre, 2)
    graph, capacity = graph_of(centre), centre.link_bps * 0.8
    for switch in range(centre.n_switches):
        model = model_of(centre, table)
        # The first VIP makes the loads of before uneven.
        model.place(0, 0, (switch * 7 + 3) % centre.n_switches)
        before = model.link_utilisations(0)
        offer = dict(zip(COLUMNS, model.candidates(0, 1, None, 0).rows[switch], strict=True))
        model.place(0, 1, switch)
        places = [(switch * 7 + 3) % centre.n_switches, switch]
        flows = flows_of(table, places, centre)
        expected = loads_of(graph, flows, centre.n_links) / capacity
        np.testing.assert_allclose(model.link_utilisations(0), expected, atol=1e-12)
        touched = expected > before + 1e-12
        assert offer["link"] == pytest.approx(expected[touched].max())
        usage = model.usage(0)
        assert usage.link_max == pytest.approx(expected.max())
        assert usage.link_mean == pytest.approx(expected.mean())
        assert offer["mru"] == pytest.approx(max(usage.link_max, usage.memory_max))
        single = model_of(centre, table)
        single.place(0, 1, switch)
        hops = single.link_utilisations(0) @ capacity / table.bps[1]
        assert offer["hops"] == pytest.approx(hops)


@pytest.mark.parametrize("name", CENTRES)
def test_an_evaluation_routes_as_brute_force_does_whatever_is_down(name: str) -> None:
    centre = CENTRES[name]
    table = random_table(centre, 5, seed=1)
    generator = np.random.default_rng(2)
    places = [0, centre.n_racks, centre.n_switches - 1, -1, centre.n_racks - 1]
    model = model_of(centre, table)
    for vip, place in enumerate(places):
        if place >= 0:
            model.place(0, vip, place)
    for failures in (
        HEALTHY,
        Failures(switches=(centre.n_racks,)),
        Failures(switches=(1, centre.n_switches - 1), links=(0, centre.n_links - 1)),
        Failures.container(centre, 0),
        Failures(links=tuple(generator.choice(centre.n_links, 3, replace=False).tolist())),
    ):
        found = model.evaluate(0, failures)
        graph = graph_of(centre, failures.switches, failures.links)
        flows = flows_of(table, places, centre, failures.switches)
        expected = loads_of(graph, flows, centre.n_links)
        if found.unreachable_bps == 0:
            np.testing.assert_allclose(found.link_bps, expected, rtol=1e-9, atol=1)
            assert found.core_bps + found.container_bps == pytest.approx(expected.sum())
            assert found.link_max == pytest.approx((expected / centre.link_bps).max())
        served = found.switch_bps + found.mux_bps + found.dark_bps
        assert served == pytest.approx(found.total_bps)
        assert found.total_bps + found.lost_bps == pytest.approx(table.bps.sum())
        assert found.by_switch_bps.sum() == pytest.approx(found.switch_bps)
        quick = model.evaluate(0, failures, is_routed=False)
        assert quick.mux_bps == found.mux_bps and np.isnan(quick.link_max)


def test_a_dead_switch_hands_its_vips_to_the_muxes_and_a_rack_takes_its_servers_along() -> None:
    """Two containers of two racks. VIP 0 from rack 0 to rack 3 by rack 1; VIP 1 to rack 1 alone."""
    centre = DATA_CENTRES["duet-10"]
    table = VipTable.of([{0: 4e8}, {2: 1e8}], [{3: 1}, {1: 2}])
    model = model_of(centre, table)
    model.place(0, 0, 1)
    model.place(0, 1, 9)
    found = model.evaluate(0, Failures(switches=(1,)))
    # VIP 0 goes on by the muxes, VIP 1 has no server left.
    assert (found.mux_bps, found.switch_bps, found.dark_bps) == (4e8, 0, 1e8)
    found = model.evaluate(0, Failures(switches=(0,)))
    assert (found.lost_bps, found.total_bps, found.switch_bps) == (4e8, 1e8, 1e8)
    found = model.evaluate(0, Failures(switches=(1,), mux_racks=(0, 2, 3)))
    assert found.dark_bps == 5e8
    found = model.evaluate(0, HEALTHY)
    # Rack 0 to rack 1 in two hops, to rack 3 in four; rack 2 to core 9, and to rack 1, in two each.
    assert found.hops == pytest.approx((4 * 6 + 1 * 4) / 5)
    assert found.direct_hops == pytest.approx(4.0)
    assert found.core_detour == pytest.approx(0.0)
    assert found.container_detour == pytest.approx((4e8 * 4 + 1e8 * 2) / (5e8 * 2) - 1)


def test_isolated_traffic_is_unreachable_and_a_lost_dip_leaves_its_share_to_the_others() -> None:
    centre = DATA_CENTRES["duet-10"]
    table = VipTable.of([{0: 1e8}], [{2: 1, 3: 1}])
    model = model_of(centre, table)
    model.place(0, 0, 2)
    cut = tuple(range(2))  # both links of rack 0 upwards
    assert model.evaluate(0, Failures(links=cut)).unreachable_bps == 1e8
    found = model.evaluate(0, Failures(switches=(3,)))
    assert found.switch_bps == 1e8 and found.hops == 4


def test_bounds_without_detours_are_those_of_brute_force() -> None:
    centre = CENTRES["uneven"]
    table = random_table(centre, 4, seed=3)
    graph = graph_of(centre)
    for is_closest in (False, True):
        flows = []
        for vip in range(4):
            rows = range(int(table.dip_start[vip]), int(table.dip_start[vip + 1]))
            dips = {int(table.dip_rack[i]): int(table.dip_count[i]) for i in rows}
            own = range(int(table.source_start[vip]), int(table.source_start[vip + 1]))
            sources = [(int(table.source_rack[i]), table.source_bps[i]) for i in own]
            for source, bps in [*sources, ("internet", table.internet_bps[vip])]:
                near = dips
                if is_closest and source != "internet":
                    size = centre.racks_per_container
                    near = {r: n for r, n in dips.items() if r // size == source // size} or dips
                    near = {source: 1} if source in dips else near
                total = sum(near.values())
                flows += [(source, rack, bps * n / total) for rack, n in near.items()]
        expected = loads_of(graph, flows, centre.n_links)
        found = ideal_link_bps(centre, table, is_closest)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1)


@pytest.mark.parametrize("stops", [True, False])
def test_the_greedy_assignment_is_the_loop_over_all_switches(stops: bool) -> None:
    """Of a published loop the MRU after each VIP is the same, whichever equals it chooses."""
    centre = replace(fat_tree(4), tunnel_entries=12, host_entries=30)
    table = SyntheticVips(40, centre.n_racks, 24e9, 160, 12).draw(5)[0]
    model = model_of(centre, table)
    model.assign(0, AssignmentRule(stops=stops))
    places = model.places(0)
    again = model_of(centre, table)
    mru = COLUMNS.index("mru")
    for vip in table.order.tolist():
        offers = again.candidates(0, vip, None, 0)
        if places[vip] < 0:
            if again.usage(0).placed < centre.host_entries:
                assert not offers.feasible.any() or stops
            continue
        assert offers.feasible[places[vip]]
        least = offers.rows[offers.feasible, mru].min()
        assert offers.rows[places[vip], mru] == pytest.approx(least, abs=1e-12)
        again.place(0, vip, int(places[vip]))
    placed = places[table.order] >= 0
    assert 0 < placed.sum() < 40
    if stops:
        assert placed[: placed.sum()].all()
    assert (np.bincount(places[places >= 0], minlength=20) <= 12).all()


def test_first_feasible_differs_by_seed_and_never_overflows() -> None:
    centre = replace(fat_tree(4), tunnel_entries=16)
    table = SyntheticVips(60, centre.n_racks, 50e9, 160, 16).draw(1)[0]
    found = []
    for seed in range(2):
        model = model_of(centre, table)
        model.assign(0, AssignmentRule("first-feasible", stops=False, seed=seed))
        usage = model.usage(0)
        assert usage.link_max <= 1 + 1e-9 and usage.memory_max <= 1 + 1e-9
        found.append(model.places(0).tolist())
    assert found[0] != found[1]


def test_sticky_moves_less_than_a_margin_of_nothing_and_one_time_never_moves() -> None:
    centre = fat_tree(8)
    first, second = SyntheticVips(120, centre.n_racks, 200e9, 990).draw(2, epochs=2)
    model = model_of(centre, first)
    model.assign(0, AssignmentRule())
    before = model.places(0)
    moved = {}
    for name, rule in {
        "non-sticky": AssignmentRule(margin=0.0, seed=1),
        "sticky": AssignmentRule(margin=0.05, seed=1),
        "one-time": AssignmentRule("none"),
    }.items():
        model.reset(0, second)
        model.assign(0, rule, before)
        after = model.places(0)
        moved[name] = float(second.bps[(after != before) & (after >= 0)].sum())
    assert moved["non-sticky"] > 2 * moved["sticky"] and moved["one-time"] == 0


def test_removing_and_moving_vips_leaves_what_placing_them_leaves() -> None:
    centre = CENTRES["uneven"]
    table = random_table(centre, 6, seed=4)
    model, plain = model_of(centre, table), model_of(centre, table)
    for vip in range(6):
        model.place(0, vip, vip)
        model.place(0, vip, centre.n_switches - 1 - vip)
        plain.place(0, vip, centre.n_switches - 1 - vip)
    for ours, theirs in zip(
        vars(model.usage(0)).values(), vars(plain.usage(0)).values(), strict=True
    ):
        assert ours == pytest.approx(theirs, rel=1e-9)
    np.testing.assert_allclose(model.link_utilisations(0), plain.link_utilisations(0), atol=1e-12)
    second = copy.deepcopy(model)
    second.place(0, 0, 0)
    assert model.places(0)[0] == centre.n_switches - 1 and second.places(0)[0] == 0


def test_candidates_hold_the_least_mru_the_fewest_hops_and_the_first_of_a_random_order() -> None:
    centre = fat_tree(8)
    table = SyntheticVips(50, centre.n_racks, 100e9, 990).draw(3)[0]
    model = model_of(centre, table)
    everything = model.candidates(0, 0, None, 7)
    some = model.candidates(0, 0, 16, 7)
    assert len(some.switches) == len(set(some.switches.tolist())) == 16
    for name in ("mru", "hops", "scan"):
        column = COLUMNS.index(name)
        assert some.rows[:, column].min() == everything.rows[:, column].min(), name
    assert everything.switches.tolist() == list(range(80)) and everything.feasible.all()
    np.testing.assert_array_equal(everything.rows[some.switches], some.rows)


def test_wrong_tables_and_calls_are_refused_in_one_line() -> None:
    centre = DATA_CENTRES["duet-10"]
    model = FlowLevelModel(centre)
    with pytest.raises(BackendError, match="reset"):
        model.usage(0)
    with pytest.raises(ConfigError, match="0 to 3"):
        model.reset(0, VipTable.of([{4: 1e6}], [{0: 1}]))
    with pytest.raises(ConfigError, match="DIPs of VIP 1"):
        VipTable.of([{0: 1e6}, {}], [{0: 1}, {0: 0}])
    model.reset(0, VipTable.of([{0: 1e6}], [{0: 1}]))
    with pytest.raises(ConfigError, match=r"failures\.switches"):
        model.evaluate(0, Failures(switches=(10,)))
    with pytest.raises(ConfigError, match="least-mru"):
        AssignmentRule("least-mur")
