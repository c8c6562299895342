"""Values of every wrong kind, one by one, in the place of each argument that Python takes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import dcgym
from dcgym import units
from dcgym.cli.sweep import read_sweep
from dcgym.config import check_in, check_int, check_list, check_name, check_positive, check_range
from dcgym.envs.factory import make_vec_env
from dcgym.policies import LEARNERS, load_policy
from dcgym.suites.evaluate import compare, evaluate
from dcgym.suites.recordings import RecordingSpec
from dcgym.suites.suite import Case, Suite, Training
from dcgym.suites.sweep import lasting, sweep_suite
from dcgym.tasks.balancing.presets import make_scenario
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan
from dcgym.traffic.http import make_requests
from tests.support.config_fuzz import refusal_of
from tests.support.wrong_values import WRONG

pytestmark = pytest.mark.simulation

ENV = "LoadBalancing-v1"
SHORT = {"seeds": 1, "seconds": 0.25}
TOPOLOGY = make_topology("dumbbell")


def suite(**fields):
    known = {"name": "x", "description": "", "cases": (Case({"env": ENV}),), "policies": ("sed",)}
    return Suite(**{**known, **fields})


def recording(**fields):
    return RecordingSpec(**{"env": {"env": ENV}, "policy": "sed", "out": Path("x"), **fields})


def train(**arguments):
    known = {"env_config": {"env": ENV}, "steps": 10, "seed": 0, "out_dir": "x"}
    return LEARNERS.find("cma-es").train(**{**known, **arguments})


def unless(value, is_right):
    """Return a value, but -1 for one that would be right and take time."""
    return -1 if is_right(value) else value


def is_count(value):
    number = units.read_number(value)
    return number is not None and number > 0


# Each with what a value takes the place of.
CALLS = {
    "make_env": dcgym.make_env,
    "make_env env": lambda value: dcgym.make_env(env=value),
    "parallel_env": dcgym.parallel_env,
    "make_vec_env": lambda value: make_vec_env(value, 2),
    "make_vec_env num_envs": lambda value: make_vec_env({"env": ENV}, value),
    "make_topology": make_topology,
    "make_topology hosts": lambda value: make_topology("dumbbell", hosts=value),
    "make_topology k": lambda value: make_topology("fat-tree", k=value),
    "make_plan": lambda value: make_plan(value, TOPOLOGY),
    "make_plan seed": lambda value: make_plan("pairs", TOPOLOGY, value),
    "make_plan size": lambda value: make_plan({"name": "pairs", "size": value}, TOPOLOGY),
    "make_plan name": lambda value: make_plan({"name": value}, TOPOLOGY),
    "make_plan mix": lambda value: make_plan({"mix": ["pairs"], "name": value}, TOPOLOGY),
    "make_plan part": lambda value: make_plan({"mix": [{"name": value}]}, TOPOLOGY),
    "make_plan pairs": lambda value: make_plan({"name": "closed-loop", "pairs": value}, TOPOLOGY),
    "make_requests": lambda value: make_requests(value, ["h1"], [("10.0.0.2", 80)]),
    "make_scenario": make_scenario,
    "make_scenario load": lambda value: make_scenario("yao-sim-8", load=value),
    "Scenario.changed": lambda value: make_scenario("yao-sim-8").changed(load=value),
    "load_policy": load_policy,
    "make_policy": dcgym.make_policy,
    "make_policy family": lambda value: dcgym.make_policy("sed", family=value),
    "make_policy seed": lambda value: dcgym.make_policy("random", seed=value),
    "make_policy period_s": lambda value: dcgym.make_policy("hlb", period_s=value),
    "read_sweep seeds": lambda value: read_sweep(None, {"seeds": value}),
    "read_sweep set": lambda value: read_sweep(None, {"set": {"interval": value}}),
    "read_sweep env": lambda value: read_sweep(None, dict.fromkeys(("env", "policies"), value)),
    "read_sweep file": lambda value: read_sweep(None, dict.fromkeys(("config", "out"), value)),
    "sweep_suite axis": lambda value: sweep_suite({"env": ENV}, {"interval": value}, ["sed"]),
    "sweep_suite value": lambda value: sweep_suite({"env": ENV}, {"interval": [value]}, ["sed"]),
    "sweep_suite env": lambda value: sweep_suite({"env": value}, {}, ["sed"]),
    "sweep_suite policies": lambda value: sweep_suite({"env": ENV}, {}, value),
    "lasting": lambda value: lasting(suite(), value),
    "lasting warmup": lambda value: lasting(suite(), 10.0, value),
    "Suite name": lambda value: suite(name=value),
    "Suite cases": lambda value: suite(cases=value),
    "Suite policies": lambda value: suite(policies=value),
    "Suite seeds": lambda value: suite(seeds=value),
    "Suite episode_s": lambda value: suite(episode_s=value),
    "Suite warmup_s": lambda value: suite(warmup_s=value),
    "Suite jobs": lambda value: suite(jobs=value),
    "Case name": lambda value: Case({"env": ENV}, value),
    "Case episode_s": lambda value: Case({"env": ENV}, episode_s=value),
    "Training seconds": lambda value: Training(seconds=value),
    "Training envs": lambda value: Training(envs=value),
    "evaluate env": lambda value: evaluate(value, "sed", **SHORT),
    "evaluate policy": lambda value: evaluate(ENV, unless(value, callable), **SHORT),
    "evaluate seeds": lambda value: evaluate(ENV, "sed", unless(value, is_count), seconds=0.25),
    "evaluate seconds": lambda value: evaluate(ENV, "sed", 1, seconds=unless(value, is_count)),
    "evaluate warmup": lambda value: evaluate(ENV, "sed", **SHORT, warmup=value),
    "evaluate name": lambda value: evaluate(ENV, "sed", **SHORT, name=value),
    "compare": lambda value: compare(ENV, value, **SHORT),
    "compare policies": lambda value: compare(ENV, [value], **SHORT),
    "record name": lambda value: recording(name=value),
    "record policy": lambda value: recording(policy=value),
    "record episodes": lambda value: recording(episodes=value),
    "record envs": lambda value: recording(envs=unless(value, is_count)),
    "record info": lambda value: recording(info=value),
    "record format": lambda value: recording(format=value),
    "train steps": lambda value: train(steps=unless(value, is_count)),
    "train seed": lambda value: train(seed=unless(value, is_count)),
    "train n_envs": lambda value: train(n_envs=unless(value, is_count), seed=-1),
    "train budget_s": lambda value: train(budget_s=unless(value, is_count)),
    "parse_rate": units.parse_rate,
    "parse_size": units.parse_size,
    "parse_duration": units.parse_duration,
    "check_int": lambda value: check_int("x", value, 0),
    "check_positive": lambda value: check_positive("x", value),
    "check_range": lambda value: check_range("x", value, 0, 1),
    "check_in": lambda value: check_in("x", value, ("a", 1, None)),
    "check_list": lambda value: check_list("x", value, "a list"),
    "check_name": lambda value: check_name("x", value),
}


def escapes(call):
    """Return what is wrong with what a call makes of the values."""
    found = []
    for position, value in enumerate(WRONG):
        try:
            refusal_of(partial(call, value))
        except Exception as error:
            found.append(f"WRONG[{position}]: {error!r:.200}")
    return found


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_is_refused_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert escapes(CALLS[name]) == []


ENVS = {
    "pool": lambda: dcgym.make_env(env=ENV),
    "network": lambda: dcgym.make_env(topology="dumbbell"),
    "jobs": lambda: dcgym.make_env(env="JobAssignment-v0"),
    "vips": lambda: dcgym.make_env(env="VipPlacement-v0"),
    "joint": lambda: dcgym.make_env(env="Joint-v2"),
    "flows": lambda: dcgym.make_env(env="FlowControl-v1", topology="dumbbell"),
    "devices": lambda: dcgym.make_env(env="AcceleratorBalancing-v0"),
    "migration": lambda: dcgym.make_env(env="VipMigration-v0"),
    "joint vector": lambda: make_vec_env({"env": "Joint-v2"}, 2),
    "vector": lambda: make_vec_env({"env": ENV}, 2),
    "agents": lambda: dcgym.parallel_env(ENV),
}


@pytest.mark.parametrize("name", ENVS)
def test_seeds_options_and_actions_are_refused_in_one_line(name):
    env = ENVS[name]()
    calls = [
        lambda value: env.reset(seed=value),
        lambda value: env.reset(options=value),
        lambda value: env.reset(options={"traffic": value}),
        lambda value: env.reset(options={"scenario": value}),
    ]
    found = [escapes(call) for call in calls]
    env.reset(seed=1)
    found.append(escapes(env.step))
    if name == "agents":
        found.append(escapes(lambda value: env.step(dict.fromkeys(env.possible_agents, value))))
    env.close()
    assert found == [[]] * len(found)
