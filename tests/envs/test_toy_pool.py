"""A toy pool of under 120 lines in every form of the environments on pools."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.backends.needs import PoolNeeds
from dcgym.backends.options import BackendOptions
from dcgym.backends.registry import POOLS
from dcgym.errors import ConfigError
from dcgym.policies import LEARNERS, load_policy
from dcgym.policies.learners import TrainingOptions
from dcgym.suites import Case, Suite, run_suite
from dcgym.tasks.balancing import make_scenario
from dcgym.tasks.balancing.protocol import PoolCommands
from dcgym.testing import check_contract, check_pool
from tests.support import toy_pool
from tests.support.commands import run_here
from tests.support.suites import leave_figures_empty

SINGLE, CENTRAL = "dcgym/LoadBalancing-v1", "dcgym/CentralLoadBalancing-v1"
TOY = {"backend": "toy", "scenario": {"preset": "yao-sim-8", "load": 0.8}, "lead_in": "2s"}


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    toy_pool.register()
    yield
    POOLS.remove("toy")


def pool(n_envs: int = 1) -> toy_pool.ToyPool:
    needs = PoolNeeds(scenario=make_scenario(TOY["scenario"]), horizon_ns=60 * 10**9)
    return toy_pool.ToyPool(needs, n_envs, BackendOptions())


def test_it_is_as_small_as_the_contract_promises() -> None:
    assert len(Path(toy_pool.__file__).read_text().splitlines()) < 120


@pytest.mark.parametrize("n_envs", [1, 3])
def test_it_keeps_the_contract_of_pools(n_envs: int) -> None:
    check_pool(lambda: pool(n_envs), intervals=20)


@pytest.mark.parametrize(
    ("env_id", "given"),
    [(SINGLE, {}), (CENTRAL, {}), (CENTRAL, {"decides": ("weights", "eligible")})],
)
def test_single_environments_keep_the_contract(env_id: str, given: dict[str, Any]) -> None:
    check_contract(lambda: dcgym.make_env(env=env_id, **TOY, **given))
    assert not gym.make(env_id, **TOY).spec.nondeterministic


def test_a_flow_waits_for_those_before_it() -> None:
    made = pool()
    made.reset([4])
    chosen = np.arange(8)[None] == 5
    made.apply(PoolCommands(rules="weighted", eligible=chosen))
    made.advance(60 * 10**9)
    flows = made._flows[0]
    served = flows[flows["end_ns"] > 0]
    assert len(served) > 100 and (served["server"] == 5).all()
    # Lindley's recursion, of one server that takes all.
    work_ns, free_ns = served["demand_ns"].sum(axis=1) / made._speeds[5], 0
    for arrival_ns, own_ns, end_ns in zip(
        served["arrival_ns"], work_ns, served["end_ns"], strict=True
    ):
        free_ns = int(max(free_ns, arrival_ns) + own_ns)
        assert end_ns == free_ns


def test_copies_give_what_single_environments_give() -> None:
    vector = gym.make_vec(SINGLE, 3, "vector_entry_point", max_episode_steps=4, **TOY)
    single = dcgym.make_env(env=SINGLE, max_steps=4, **TOY)
    observations, _ = vector.reset(seed=5)
    expected, _ = single.reset(seed=6)
    np.testing.assert_array_equal(observations[1], expected)
    vector.action_space.seed(2)
    for _ in range(4):
        actions = vector.action_space.sample()
        observations, rewards, _, truncated, _ = vector.step(actions)
        expected, reward, *_ = single.step(actions[1])
        np.testing.assert_array_equal(observations[1], expected)
        assert rewards[1] == reward
    assert truncated.all()
    fork = copy.deepcopy(single)
    np.testing.assert_array_equal(fork.step(actions[1])[0], single.step(actions[1])[0])


def test_balancers_are_agents_of_it() -> None:
    pytest.importorskip("pettingzoo")
    env = dcgym.parallel_env("LoadBalancing-v1", **TOY, max_steps=3)
    env.reset(seed=0)
    for _ in range(3):
        actions = {agent: env.action_space(agent).sample() for agent in env.agents}
        observations, rewards, *_ = env.step(actions)
    assert set(observations) == set(rewards) == {"balancer_0", "balancer_1"} and not env.agents


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^rule: value 'lsq' .* weighted, sed"):
        dcgym.make_env(env=SINGLE, **TOY, rule="lsq").reset()
    with pytest.raises(ConfigError, match="gain_over_sed"):
        dcgym.make_env(env=SINGLE, **TOY, reward="gain_over_sed").reset()
    with pytest.raises(ConfigError, match="backend"):
        dcgym.make_env(env="JobAssignment-v0", backend="toy").reset()


def test_a_suite_of_it_ends_in_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_figures_empty(monkeypatch)
    case = Case({"env": SINGLE, **TOY})
    policies = "sed", "random"
    suite = Suite("toy", "A toy.", (case,), policies, seeds=2, episode_s=40, warmup_s=1, jobs=0)
    records = run_suite(suite, tmp_path)
    times = {(r["policy"], r["seed"]): r["metrics"]["fct_us_mean"] for r in records}
    assert len(times) == 4 and {r["backend"] for r in records} == {"toy"}
    # The same flows, which no policy ends sooner than the least work of all.
    for run in records:
        assert 0 < run["metrics"]["bound_us"] <= run["metrics"]["fct_us_mean"]
        assert run["metrics"]["rejected"] == 0 and run["fidelity"]["status"] == "ok"
    page = (tmp_path / "report.html").read_text()
    assert "sed" in page and "random" in page


def test_a_learner_trains_on_it(tmp_path: Path) -> None:
    options = TrainingOptions(settings={"population": 4, "episode_steps": 5})
    folder = LEARNERS["cma-es"].train(
        {"env": SINGLE, **TOY}, 60, 0, tmp_path, n_envs=4, options=options
    )
    env = dcgym.make_env(env=SINGLE, **TOY)
    policy = load_policy(folder).bind(env)
    observation, info = env.reset(seed=9)
    assert env.action_space.contains(policy.act(observation, info))


def test_the_command_runs_it(capfd: pytest.CaptureFixture[str]) -> None:
    given = ("--backend", "toy", "--policy", "sed", "--seconds", "5", "--json")
    done = run_here(capfd, "run", "--env", SINGLE, *given)
    assert done.returncode == 0, done.stderr
    [record] = json.loads(done.stdout)
    assert record["metrics"]["fct_us_mean"] > 0 and record["backend"] == "toy"
