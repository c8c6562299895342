"""Topologies by name: what `make_topology` takes and refuses, and what others add."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dcgym.errors import ConfigError
from dcgym.topologies import (
    TOPOLOGIES,
    dumbbell,
    fat_tree,
    make_topology,
)
from tests.support.graphs import a_triangle


class TestRegistry:
    def test_names_mappings_and_finished_topologies(self) -> None:
        assert make_topology("dumbbell") == dumbbell()
        assert make_topology("dumbbell", hosts=8) == dumbbell(8)
        assert make_topology({"name": "dumbbell", "hosts": 4, "rate": "1Gbit"}) == dumbbell(
            rate="1Gbit"
        )
        assert make_topology({"name": "dumbbell", "hosts": 4}, hosts=6) == dumbbell(6)
        assert make_topology("fat_tree") == make_topology("Fat-Tree", k=4) == fat_tree(4)
        network = a_triangle()
        assert make_topology(network) is network
        assert make_topology(network.to_dict()) == network

    def test_paths(self, tmp_path: Path) -> None:
        path = tmp_path / "ring.yaml"
        a_triangle().save(path)
        assert make_topology(path) == make_topology(str(path)) == a_triangle()

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ("dumbell", "^topology: value 'dumbell'.*did you mean 'dumbbell'"),
            ("zzz", "^topology: value 'zzz'.*allowed: dumbbell, fat-tree"),
            ({"hosts": 4}, "^topology: value None"),
            ({"name": "dumbbell", "host": 4}, "^topology dumbbell field.*did you mean 'hosts'"),
            ({"name": ["dumbbell"]}, "^topology: value"),
            (7, "^topology: value 7"),
            ("missing.yaml", "No such file"),
            ("dir/net.toml", "suffix of net.toml"),
        ],
    )
    def test_wrong_specs_are_refused(self, spec: Any, message: str) -> None:
        with pytest.raises(ConfigError, match=message):
            make_topology(spec)

    def test_a_finished_topology_takes_no_parameters(self) -> None:
        with pytest.raises(ConfigError, match="already complete"):
            make_topology(dumbbell(), hosts=4)

    def test_own_topologies_can_be_registered(self) -> None:
        TOPOLOGIES.add("triangle", a_triangle)
        try:
            assert make_topology("triangle") == a_triangle()
            with pytest.raises(ConfigError, match="not registered yet"):
                TOPOLOGIES.add("triangle", a_triangle)
        finally:
            TOPOLOGIES.remove("triangle")
        for name in ("My Ring", "ring.yaml"):
            with pytest.raises(ConfigError, match="lower-case"):
                TOPOLOGIES.add(name, a_triangle)
