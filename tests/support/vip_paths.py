"""Brute force for VIP placement: every path of equal cost, flow by flow, over a plain graph."""

from __future__ import annotations

from collections.abc import Iterable

import networkx as nx
import numpy as np

from dcgym.tasks.placement.data_centre import DataCentre
from dcgym.traffic.vips import VipTable

__all__ = ["INTERNET", "flows_of", "graph_of", "loads_of"]

INTERNET = "internet"

Flow = tuple[int | str, int, float]
"""Source, destination, bit/s."""


def graph_of(
    centre: DataCentre, switches: Iterable[int] = (), links: Iterable[int] = ()
) -> nx.DiGraph:
    """Return what is left of a data centre; edges carry the number of their link."""
    down_switches, down_links = set(switches), set(links)
    graph = nx.DiGraph()
    racks, aggs, cores = centre.n_racks, centre.aggs, centre.cores_per_agg
    graph.add_nodes_from(one for one in range(centre.n_switches) if one not in down_switches)

    def connect(a: int, b: int, up: int, down: int) -> None:
        for source, target, number in ((a, b, up), (b, a, down)):
            if number not in down_links and not {a, b} & down_switches:
                graph.add_edge(source, target, number=number)

    first_core_up = 2 * racks * aggs
    n_core_up = centre.containers * aggs * cores
    for container in range(centre.containers):
        for agg in range(aggs):
            middle = racks + container * aggs + agg
            for i in range(centre.racks_per_container):
                rack = container * centre.racks_per_container + i
                connect(rack, middle, rack * aggs + agg, racks * aggs + rack * aggs + agg)
            for i in range(cores):
                core = racks + centre.containers * aggs + agg * cores + i
                number = first_core_up + (container * aggs + agg) * cores + i
                connect(middle, core, number, number + n_core_up)
    for core in range(racks + centre.containers * aggs, centre.n_switches):
        if core in graph:
            graph.add_edge(INTERNET, core, number=None)
    return graph


def flows_of(
    table: VipTable, places: Iterable[int], centre: DataCentre, switches: Iterable[int] = ()
) -> list[Flow]:
    """Return both legs of every flow; VIPs of switches that are down are on muxes in all racks."""
    down = set(switches)
    mux_racks = [rack for rack in range(centre.n_racks) if rack not in down]
    flows: list[Flow] = []
    for vip, place in enumerate(places):
        sources: list[tuple[int | str, float]] = [(INTERNET, float(table.internet_bps[vip]))]
        for i in range(int(table.source_start[vip]), int(table.source_start[vip + 1])):
            sources.append((int(table.source_rack[i]), float(table.source_bps[i])))
        sources = [one for one in sources if one[0] not in down and one[1] > 0]
        rows = range(int(table.dip_start[vip]), int(table.dip_start[vip + 1]))
        dips = {int(table.dip_rack[i]): int(table.dip_count[i]) for i in rows}
        dips = {rack: count for rack, count in dips.items() if rack not in down}
        at = mux_racks if place < 0 or place in down else [int(place)]
        for source, bps in sources if dips else []:
            for switch in at:
                flows.append((source, switch, bps / len(at)))
                for rack, count in dips.items():
                    share = count / sum(dips.values())
                    flows.append((switch, rack, bps / len(at) * share))
    return flows


def loads_of(graph: nx.DiGraph, flows: Iterable[Flow], n_links: int) -> np.ndarray:
    """Return the load of each link: each hop splits alike over all next hops of least distance."""
    loads = np.zeros(n_links)
    inner = graph.subgraph(node for node in graph if node != INTERNET).reverse()
    distance = dict(nx.all_pairs_shortest_path_length(inner))

    def far(node: int | str, to: int) -> int:
        if node == INTERNET:
            return 1 + min(far(core, to) for core in graph.successors(INTERNET))
        return int(distance[to][node])

    def walk(node: int | str, to: int, bps: float) -> None:
        if node == to:
            return
        ahead = [hop for hop in graph.successors(node) if to in distance and hop in distance[to]]
        ahead = [hop for hop in ahead if far(hop, to) == far(node, to) - 1]
        for hop in ahead:
            number = graph.edges[node, hop]["number"]
            if number is not None:
                loads[number] += bps / len(ahead)
            walk(hop, to, bps / len(ahead))

    for source, to, bps in flows:
        walk(source, to, bps)
    return loads
