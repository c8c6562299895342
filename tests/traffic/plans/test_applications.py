"""Plans of applications: what a spec may say, and what is refused before anything is started."""

from __future__ import annotations

import contextlib
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.suites import quick
from dcgym.suites.checks import check_suite
from dcgym.testing.fake_backend import FakeBackend
from dcgym.topologies import Topology, dumbbell
from dcgym.traffic import make_plan
from dcgym.traffic.plans.applications import App, AppPlan


@pytest.fixture(scope="module")
def topology() -> Topology:
    return dumbbell(hosts=4, rate="10Mbit")


def plan_of(apps: Any, topology: Topology, **options: Any) -> AppPlan:
    plan = make_plan({"apps": apps, **options}, topology, 7)
    assert isinstance(plan, AppPlan)
    return plan


def test_commands_are_texts_lists_or_mappings(topology: Topology) -> None:
    plan = plan_of(
        {
            "h1": "python3 -m http.server '8000'",
            "h2": ["curl", "http://{h1}:8000/{x}", 5],
            "h3": [
                {"command": "true", "start": "1s", "duration": "50ms", "env": {"N": 1}},
                {"command": ["sleep", 2], "background": True},
            ],
        },
        topology,
    )
    assert plan.apps == (
        App("h1", ("python3", "-m", "http.server", "8000")),
        # Braces that name no host are the command's own.
        App("h2", ("curl", f"http://{topology.ip('h1')}:8000/{{x}}", "5")),
        App("h3", ("true",), 10**9, 5 * 10**7, (("N", "1"),)),
        App("h3", ("sleep", "2"), background=True),
    )
    assert plan.receivers == {"h1", "h2", "h3"}
    assert len(plan) == 0 and plan.endless


def test_equal_specs_make_equal_plans(topology: Topology) -> None:
    first, second = (plan_of({"h1": "true"}, topology) for _ in range(2))
    other = plan_of({"h1": "false"}, topology)
    assert first == second == pickle.loads(pickle.dumps(first)) != other
    assert first.digest() == second.digest() != other.digest()
    assert first != make_plan("idle", topology, 7)


def test_the_generator_reads_hosts_by_number_and_the_seed(topology: Topology) -> None:
    plan = plan_of({"h2": {"command": "true", "env": {"A": "b"}}}, topology, output="/o")
    (row,) = json.loads(plan.to_generator([host.name for host in topology.hosts]))
    assert (row["host"], row["argv"], row["output"]) == (1, ["true"], "/o/0-h2")
    assert row["env"] == {"A": "b", "DCGYM_HOST": "h2", "DCGYM_SEED": "7"}


@pytest.mark.parametrize(
    ("apps", "message"),
    [
        ({"h9": "true"}, r"traffic\.apps: value 'h9'.*a host of dumbbell \(h1 .. h4\)"),
        ({}, r"traffic\.apps: value \{\}"),
        ("true", r"traffic\.apps: value 'true'.*mapping of host to command"),
        ({"h1": ""}, r"traffic\.apps\.h1: value \[\]"),
        ({"h1": "echo 'open"}, r"traffic\.apps\.h1: value \"echo 'open\".*No closing quotation"),
        ({"h1": ["a", None]}, r"traffic\.apps\.h1: value None"),
        ({"h1": ["a\0b"]}, r"traffic\.apps\.h1: value 'a\\x00b'"),
        ({"h1": {"start": 1}}, r"traffic\.apps\.h1\.command: value None"),
        ({"h1": {"command": "a", "begin": 1}}, r"apps\.h1 field: value 'begin'"),
        (
            {"h1": [{"command": "a"}, {"command": "a", "duration": 0}]},
            r"h1\[1\]\.duration: value 0",
        ),
        ({"h1": {"command": "a", "env": {"A=B": "c"}}}, r"apps\.h1\.env\.A=B: value 'c'"),
        ({"h1": [{"command": "a"}] * 1025}, r"traffic\.apps: value 1025"),
    ],
)
def test_wrong_fields_are_one_line(apps: Any, message: str, topology: Topology) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        make_plan({"apps": apps}, topology)
    assert "\n" not in str(caught.value)


def test_programs_and_folder_are_checked_on_the_machine(topology: Topology, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"traffic\.apps\.h1: value 'no-such-program'"):
        plan_of({"h1": "no-such-program -x"}, topology).check_machine()
    # Where a program is looked for is the application's own PATH.
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    plan_of({"h1": {"command": "mine", "env": {"PATH": str(tmp_path)}}}, topology).check_machine()
    with pytest.raises(ConfigError, match=r"traffic\.output: value .*folder"):
        plan_of({"h1": "sh"}, topology, output=str(program / "x")).check_machine()


def test_files_of_plans_hold_no_applications(topology: Topology, tmp_path: Path) -> None:
    plan = plan_of({"h1": "true"}, topology)
    with pytest.raises(ConfigError, match=r"keep applications in a \.yaml file"):
        plan.save(tmp_path / "plan.csv")
    with pytest.raises(ConfigError, match=r"traffic\.mix\[0\]"):
        make_plan({"mix": [{"apps": {"h1": "true"}}]}, topology)


def test_environments_say_where_applications_cannot_run(topology: Topology) -> None:
    apps = {"apps": {"h1": "true"}}
    with pytest.raises(ConfigError, match=r"traffic: .*that runs no apps"):
        dcgym.make_env(topology=topology, traffic=apps, backend=FakeBackend(topology))
    with pytest.raises(ConfigError, match=r"generator: value 'goben'.*native, beside apps"):
        dcgym.make_env(topology=topology, traffic=apps, generator="goben")
    probing = {"features": ["probe_rtt"], "probes": [["h1", "h2"]]}
    with pytest.raises(ConfigError, match=r"probes: .*none with the generator apps"):
        dcgym.make_env(topology=topology, traffic=apps, **probing)


def test_traffic_that_a_backend_refused_once_does_not_stay(topology: Topology) -> None:
    with contextlib.closing(dcgym.make_env(backend=FakeBackend(topology))) as env:
        with pytest.raises(ConfigError, match=r"^traffic: .*that runs no apps"):
            env.reset(seed=1, options={"traffic": {"apps": {"h1": "true"}}})
        env.reset(seed=1)


def test_the_quick_benchmark_refuses_traffic_that_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"traffic\.apps: value 'h9'"):
        check_suite(quick({"apps": {"h9": "true"}}))
