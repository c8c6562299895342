"""What is registered as text, without importing anything, is what the registry holds."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import gymnasium as gym
import pytest

import dcgym
from dcgym.envs.factory import argument_names, default_of, newest_id
from dcgym.envs.registration import BUILT_IN, add_environment
from dcgym.envs.registry import ENVIRONMENTS, Environment
from dcgym.errors import ConfigError
from dcgym.suites.reports.layout import layout_of, resolved_config
from dcgym.tasks.common.layout import Layout
from dcgym.testing import FakeBackend
from dcgym.topologies import dumbbell
from tests.support.natives import hide_natives


def test_the_ids_of_the_package_are_those_of_the_registry() -> None:
    found = {}
    for env_id, environment in ENVIRONMENTS.items():
        maker = environment.single.default_maker
        assert maker is not None, env_id
        found[env_id] = maker.capabilities.deterministic
    assert found == dict(BUILT_IN)


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_gymnasium_knows_determinism_and_leaves_the_limit_to_the_environment(env_id: str) -> None:
    spec = gym.spec(env_id)
    assert spec.nondeterministic is not BUILT_IN[env_id] and spec.max_episode_steps is None
    # As text they import nothing before they are used.
    assert isinstance(spec.entry_point, str) and isinstance(spec.vector_entry_point, str)


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_every_environment_has_a_page_and_documented_settings(env_id: str) -> None:
    environment = ENVIRONMENTS[env_id]
    assert "## " in environment.single.page
    settings = environment.single.settings
    assert dataclasses.is_dataclass(settings) and settings.__dataclass_params__.frozen
    options = [
        kind for maker in environment.single.makers.values() for kind in maker.options.__mro__
    ]
    documented = "".join(kind.__doc__ or "" for kind in (*settings.__mro__, *options))
    for name in argument_names(env_id):
        assert f"        {name}: " in documented, f"{name} of {settings.__name__}"


@pytest.mark.parametrize("env_id", BUILT_IN)
def test_the_history_of_a_page_says_every_version_from_the_last_on(env_id: str) -> None:
    environment = ENVIRONMENTS[env_id]
    versions = [*range(int(env_id.rpartition("-v")[2]), -1, -1)]
    pages = [form.page for form in (environment.single, environment.agents) if form]
    told = [[*map(int, re.findall(r"^ *- v(\d+): ", page, re.MULTILINE))] for page in pages]
    # The page of several agents may leave it to the other one.
    assert told[0] == versions and told[-1] in ([], versions)


def test_an_id_is_taken_once_and_has_a_version() -> None:
    first = ENVIRONMENTS["dcgym/Joint-v2"]
    with pytest.raises(ConfigError, match="not registered yet"):
        add_environment(first)
    with pytest.raises(ConfigError, match="env"):
        add_environment(Environment("no version", first.family, first.single))


@pytest.mark.simulation
def test_agents_are_named_without_a_backend() -> None:
    flows = ENVIRONMENTS["dcgym/FlowControl-v1"].agents
    balancers = ENVIRONMENTS["dcgym/LoadBalancing-v1"].agents
    assert flows is not None and balancers is not None
    # The traffic names hosts of the network that is there already.
    traffic = {"flows": [{"src": "h7", "dst": "h8"}, {"src": "h8", "dst": "h7"}]}
    network = FakeBackend(dumbbell(hosts=8))
    settings = flows.settings(backend=network, traffic=traffic, flows=2)
    assert flows.agent_names(settings) == ("flow0", "flow1")
    with pytest.raises(ConfigError, match="h7"):
        flows.agent_names(flows.settings(backend=FakeBackend, traffic=traffic, flows=2))
    drawn = {"scenario": ["yao-sim-8", "no such scenario"]}
    settings = balancers.settings(randomise=drawn)
    assert balancers.agent_names(settings) == ("balancer_0", "balancer_1")
    with pytest.raises(ConfigError, match="no such scenario"):
        balancers.agent_names(balancers.settings(randomise={"scenario": ["no such scenario"]}))


def test_defaults_are_those_of_the_settings() -> None:
    assert default_of("dcgym/CongestionControl-v2", "interval") == "50ms"
    assert default_of("dcgym/PathBalancing-v2", "traffic")["name"] == "random-bijection"
    with pytest.raises(ConfigError, match="argument"):
        default_of("dcgym/Joint-v2", "no such argument")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("CongestionControl-v1", "CongestionControl-v2"),
        ("PathBalancing-v0", "PathBalancing-v2"),
        ("Joint-v1", "Joint-v2"),
        ("FlowControl-v0", "FlowControl-v1"),
        ("LoadBalancing-v0", "LoadBalancing-v1"),
    ],
)
def test_an_earlier_version_is_refused_by_the_name_of_the_last(old: str, new: str) -> None:
    with pytest.raises(ConfigError, match=rf"^env: value 'dcgym/{old}' .*; allowed: dcgym/{new}, "):
        dcgym.make_env({"env": old})
    with pytest.raises(gym.error.DeprecatedEnv, match=f"dcgym/{new}"):
        gym.make(f"dcgym/{old}")


def test_what_an_earlier_version_recorded_is_shown_as_that_of_the_last() -> None:
    metrics = {"goodput_bps": 1.0, "queue_bytes_mean": 2.0, "reward_mean": 0.5}
    old, new = (
        [{"env": f"dcgym/CongestionControl-{version}", "metrics": metrics, "config": {}}]
        for version in ("v1", "v2")
    )
    assert layout_of(old) == layout_of(new) and layout_of(old).columns
    assert resolved_config(old[0]) == resolved_config(new[0])
    assert newest_id("acme/Absent-v3") == "acme/Absent-v3"


def test_a_run_is_shown_with_every_option_of_its_backend() -> None:
    config = {"switch": "ovs", "threads": 1, "steps": 5}
    shown = resolved_config({"env": "dcgym/CongestionControl-v2", "config": config})
    options = {"switch": "ovs", "preflight": True, "generator": "native", "host_access": "limited"}
    assert shown["backend"] == {"name": "emulation", **options}
    assert (shown["steps"], shown["interval"]) == (5, "50ms")
    assert not {*shown} & {*options, "threads"}


@pytest.mark.simulation
@pytest.mark.parametrize("env_id", BUILT_IN)
def test_results_are_shown_alike_where_nothing_is_compiled(
    env_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_natives(monkeypatch, tmp_path)
    layout = ENVIRONMENTS[env_id].layout
    records = [{"env": env_id, "metrics": {one.metric: 1.0 for one in layout.columns}}]
    assert layout_of(records) == layout != Layout()
