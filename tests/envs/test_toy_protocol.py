"""The protocol of the guide, of under 200 lines, in every face, a suite and a training."""

from __future__ import annotations

import copy
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.envs.registry import ENVIRONMENTS
from dcgym.errors import ConfigError
from dcgym.policies import LEARNERS, POLICIES, PolicyFamily, load_policy
from dcgym.policies.learners import TrainingOptions
from dcgym.registry import REGISTRIES
from dcgym.suites import Case, Suite, run_suite
from dcgym.testing import check_contract
from tests.support.commands import run_here
from tests.support.source_tree import ROOT
from tests.support.suites import leave_figures_empty

ID, FAMILY = "mine/Sites-v0", "sites"
EVEN = np.full(2, 0.5, np.float32)
GUIDE = (ROOT / "docs" / "guides" / "extend.md").read_text(encoding="utf-8")
SECTION = GUIDE.partition("\n## A protocol\n")[2].partition("\n## ")[0]
[PROGRAM] = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)


class Even:
    """Gives each site the same."""

    name = "even"

    def env_overrides(self) -> dict[str, object]:
        return {}

    def bind(self, env: object) -> Even:
        return self

    def act(self, observation: Any, info: Any) -> Any:
        return EVEN


class Proportional(Even):
    """Gives each site what it can serve."""

    name = "proportional"

    def act(self, observation: Any, info: Any) -> Any:
        return np.array([1 / 3, 1], np.float32)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    module = sys.modules["guide_sites"] = ModuleType("guide_sites")
    exec(compile(PROGRAM, "extend.md", "exec"), module.__dict__)
    family = POLICIES.add(FAMILY, PolicyFamily(FAMILY))
    family.add("proportional", Proportional)
    family.add("even", Even)
    yield
    ENVIRONMENTS.remove(ID)
    POLICIES.remove(FAMILY)
    del gym.registry[ID], REGISTRIES[f"{FAMILY}-policies"], REGISTRIES["site backends"]
    del sys.modules["guide_sites"]


def test_it_is_as_small_as_a_system_may_be() -> None:
    assert len(PROGRAM.splitlines()) < 200


def test_it_keeps_the_contract_of_environments() -> None:
    check_contract(lambda: dcgym.make_env(env=ID, max_steps=20))
    assert not gym.make(ID).spec.nondeterministic


def test_sites_serve_what_they_can() -> None:
    env = dcgym.make_env(env=ID)
    env.reset(seed=3)
    _, reward, _, _, info = env.step(EVEN)
    asked = info["asked"]
    assert reward == pytest.approx((min(asked / 2, 100) + asked / 2) / asked)
    assert info["metrics"]["served_share"] == reward == info["reward_terms"]["served"]
    _, reward, *_ = env.step(np.array([0.25, 0.75], np.float32))
    assert reward == pytest.approx(1.0)
    with pytest.raises(ConfigError, match=r"^action: .* shape \(2,\)"):
        env.step(np.ones(3, np.float32))


def test_copies_give_what_single_environments_give() -> None:
    vector, single = gym.make_vec(ID, 3, "vector_entry_point", max_steps=4), dcgym.make_env(env=ID)
    observations, _ = vector.reset(seed=5)
    expected, _ = single.reset(seed=6)
    np.testing.assert_array_equal(observations[1], expected)
    for _ in range(4):
        observations, rewards, _, truncated, _ = vector.step(np.tile(EVEN, (3, 1)))
        expected, reward, *_ = single.step(EVEN)
        np.testing.assert_array_equal(observations[1], expected)
        assert rewards[1] == reward
    assert truncated.all()
    fork = copy.deepcopy(single)
    np.testing.assert_array_equal(fork.step(EVEN)[0], single.step(EVEN)[0])


def test_its_sizes_can_be_drawn() -> None:
    sizes = {"sites.large": {"uniform": [200.0, 400.0]}}
    env = dcgym.make_env(env=ID, randomise=sizes)
    drawn = [env.reset(seed=seed)[1]["drawn"]["sites.large"] for seed in range(3)]
    assert len(set(drawn)) == 3 and all(200 <= one <= 400 for one in drawn)


def test_a_suite_of_it_ends_in_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_figures_empty(monkeypatch)
    policies = "proportional", "even"
    case = Case({"env": ID})
    suite = Suite("sites", "Sites.", (case,), policies, seeds=2, episode_s=9, warmup_s=1, jobs=0)
    records = run_suite(suite, tmp_path)
    shares = {(r["policy"], r["seed"]): r["metrics"]["served_share"] for r in records}
    assert shares["proportional", 0] == shares["proportional", 1] == 1.0
    assert shares["even", 0] < 0.9 and shares["even", 0] != shares["even", 1]
    assert "requests served" in (tmp_path / "report.html").read_text()


def test_a_learner_comes_to_serve_more(tmp_path: Path) -> None:
    settings = {"population": 8, "episode_steps": 5}
    options = TrainingOptions(settings=settings)
    folder = LEARNERS["cma-es"].train({"env": ID}, 2000, 0, tmp_path, n_envs=8, options=options)
    env = dcgym.make_env(env=ID)
    policy = load_policy(folder).bind(env)
    observation, info = env.reset(seed=9)
    total = 0.0
    for _ in range(10):
        observation, reward, _, _, info = env.step(policy.act(observation, info))
        total += reward / 10
    assert total > 0.95, "the even half serves 0.78"


def test_the_command_runs_it(capfd: pytest.CaptureFixture[str]) -> None:
    done = run_here(capfd, "run", "--env", ID, "--policy", "even", "--seconds", "5", "--json")
    assert done.returncode == 0, done.stderr
    [record] = json.loads(done.stdout)
    assert 0.5 < record["metrics"]["served_share"] < 1.0
