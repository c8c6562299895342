"""Names that become files are names, whoever reads them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from dcgym.backends.names import NAME_VARIABLE, name_of_runs, named_runs
from dcgym.backends.records import Record
from dcgym.config import as_name, check_name
from dcgym.envs.registry import ENVIRONMENTS
from dcgym.errors import ConfigError
from dcgym.suites import SUITES, Case, RunSpec, Suite
from dcgym.suites.checks import check_suite
from dcgym.suites.evaluate import compare
from dcgym.suites.recordings import RecordingSpec, dataset_name
from dcgym.suites.reports.report import write_report
from dcgym.suites.results import run_folder
from dcgym.suites.sweep import sweep_suite
from dcgym.tasks.accelerators.presets import make_pool_of_devices
from dcgym.tasks.balancing.presets import make_scenario
from dcgym.topologies import Topology, dumbbell, make_topology
from dcgym.traffic import Plan
from dcgym.traffic.http.programs import ServerProgram

BAD = (
    *("../../../evil", "/abs", ".hidden", "..", "a/b", "a\\b", "", " ", "x" * 101),
    *("a\nb", "a\0b", "a\x1b[2J", "a\udc80", "\N{GRINNING FACE}" * 61, 5, None),
)
GOOD = "Réseau v1.2, 10 GbE (left)"
POOL: Mapping[str, Any] = {"env": "dcgym/LoadBalancing-v1"}


def named_by_the_environment(name: Any) -> str:
    # The process cannot have one with NUL.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", {NAME_VARIABLE: name})
        return name_of_runs()


KINDS: Mapping[str, Callable[[Any], object]] = {
    "topology name": lambda name: Topology.from_dict({**dumbbell().to_dict(), "name": name}),
    "plan.name": lambda name: Plan(name, 1),
    "scenario.name": lambda name: make_scenario(
        {**make_scenario("yao-sim-8").to_dict(), "name": name}
    ),
    "pool.name": lambda name: make_pool_of_devices(
        {**make_pool_of_devices("p4wise-64").to_dict(), "name": name}
    ),
    "program.files": lambda name: ServerProgram(("nginx",), {name: ""}),
    "suite": lambda name: Suite(name, "", (Case(POOL),), ("sed",)),
    "policy": lambda name: RunSpec(env=POOL, policy=name, steps=1),
}


@pytest.mark.parametrize("field", KINDS)
def test_what_is_no_name_is_refused_in_one_line(field: str) -> None:
    KINDS[field](GOOD)
    for name in BAD:
        with pytest.raises(ConfigError) as caught:
            KINDS[field](name)
        message = str(caught.value)
        assert message.startswith(f"{field}: value ") and "at most 100" in message
        assert "\n" not in message and len(message) < 300


OTHERS: Mapping[str, Callable[[Any], object]] = {
    "case": lambda name: Case(POOL, name),
    "scenario": lambda name: RunSpec(env=POOL, policy="sed", steps=1, scenario=name),
    NAME_VARIABLE: named_by_the_environment,
}


@pytest.mark.parametrize("field", OTHERS)
def test_so_are_those_that_may_be_left_out(field: str) -> None:
    for name in ("", GOOD):
        OTHERS[field](name)
    for name in filter(None, BAD):
        with pytest.raises(ConfigError, match=f"^{field}: value .* at most 100"):
            OTHERS[field](name)


@pytest.mark.parametrize("name", [name for name in BAD if isinstance(name, str)])
def test_what_a_name_is_made_of_is_one(name: str) -> None:
    assert check_name("x", as_name(name) if name.strip() else "_")


def test_registries_take_no_folders_and_nothing_endless() -> None:
    for name in ("dcgym/..-v1", "../evil-v1", f"dcgym/{'x' * 101}-v1"):
        with pytest.raises(ConfigError, match=r"^env: .* at most 100"):
            ENVIRONMENTS.add(name, ENVIRONMENTS["dcgym/LoadBalancing-v1"])
    with pytest.raises(ConfigError, match=r"^suite: .* at most 100"):
        SUITES.add("x" * 101, SUITES["balancing-quick"])


def test_data_sets_are_named_before_they_are_recorded(tmp_path: Path) -> None:
    for policy, name in (("../../evil", None), ("sed", "../evil-v0"), ("sed", "a/.b-v0")):
        with pytest.raises(ConfigError):
            RecordingSpec(env=POOL, policy=policy, name=name, out=tmp_path)
    with pytest.raises(ConfigError, match=r"^name: .* at most 100"):
        RecordingSpec(env=POOL, policy="sed", name=f"{'x' * 101}/a-v0", out=tmp_path)
    joint = {"env": "dcgym/Joint-v2"}
    assert dataset_name(joint, "cubic+ecmp") == "dcgym/Joint/cubic-ecmp-v0"


@pytest.mark.parametrize("suffix", ["graphml", "gml", "yaml"])
@pytest.mark.parametrize("label", ["A/B", "../../../evil", "x" * 101, ".hidden"])
def test_graphs_of_others_load_whatever_they_are_called(
    suffix: str, label: str, tmp_path: Path
) -> None:
    import networkx

    graph = networkx.Graph(name=label)
    graph.add_edge("a", "b")
    path = tmp_path / f".net.{suffix}"
    if suffix == "yaml":
        path.write_text("nodes: [{name: a}, {name: b}]\nlinks: [{a: a, b: b}]\n")
    else:
        getattr(networkx, f"write_{suffix}")(graph, path)
    made = make_topology({"name": "graph", "source": str(path)})
    assert made.name == as_name(".net" if suffix == "yaml" else label)
    with pytest.raises(ConfigError, match=r"^topology name: "):
        Topology.from_networkx(made.to_networkx(), label)


def test_long_labels_of_a_sweep_become_numbers() -> None:
    axes = {name: [f"{name * 6}{end}" for end in "ab"] for name in ("topology", "traffic")}
    short, long = (
        sweep_suite({}, {name: axes[name] for name in names}, ("cubic",)).case_names
        for names in (("traffic",), ("topology", "traffic"))
    )
    assert short == tuple(f"traffic={label}" for label in axes["traffic"])
    assert long == tuple(f"topology=#{one}-traffic=#{two}" for one in (1, 2) for two in (1, 2))


def test_runs_that_would_share_a_folder_are_refused() -> None:
    cases = (Case(POOL, "a"), Case(POOL, "a"))
    with pytest.raises(ConfigError, match=r"^run: value 'a-sed-2'"):
        check_suite(Suite("twice", "", cases, ("sed",)))


@pytest.mark.parametrize("scenario", ["../../evil", "a\\b", "x" * 250])
def test_records_of_others_say_of_no_other_folder(scenario: str, tmp_path: Path) -> None:
    record: Record = {"scenario": scenario, "policy": "sed", "seed": 0, "metrics": {}}
    with pytest.raises(ConfigError, match=r"^run: "):
        run_folder(tmp_path, scenario, "sed", 0)
    with pytest.raises(ConfigError, match=r"^case: .* at most 100"):
        write_report(tmp_path, [record], case=scenario)
    assert not any(tmp_path.iterdir())


def test_no_policy_runs_before_all_names_are_read() -> None:
    with pytest.raises(ConfigError, match=r"^policy: value 'a/b'"):
        compare("dcgym/LoadBalancing-v1", {"sed": lambda _: 1 / 0, "a/b": "sed"})


def test_names_of_runs_are_cut() -> None:
    with named_runs("x" * 200):
        assert name_of_runs() == "x" * 100
