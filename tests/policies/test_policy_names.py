"""Names of policies and learners: families, pairs, and what a package of somebody else adds."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.policies import (
    LEARNERS,
    POLICIES,
    PolicyFamily,
    find_learner,
    load_policy,
    make_policy,
    policy_names,
)
from dcgym.policies.checkpoint import CheckpointNote, write_note
from dcgym.policies.congestion.classic import FixedSharePolicy
from dcgym.policies.learners import learner_name
from dcgym.testing import FakeBackend

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def quarter_policy():
    yield POLICIES["congestion"].add("quarter", lambda: FixedSharePolicy(0.25), "A quarter each.")
    POLICIES["congestion"].remove("quarter")


def test_a_policy_from_outside_is_found_listed_and_paired(quarter_policy):
    assert "quarter" in policy_names("congestion") and "quarter" not in policy_names("paths")
    assert POLICIES["congestion"].describe("quarter") == "A quarter each."
    env = dcgym.make_env({"env": "Joint-v2", "topology": "leaf-spine", "backend": FakeBackend})
    policy = make_policy("quarter+ecmp", env)
    action = policy.act(*env.reset(seed=0))
    assert env.action_space.contains(action)
    np.testing.assert_allclose(action["rates"], 0.25)
    assert POLICIES["joint"].describe("quarter+ecmp").startswith("A quarter each. Equal-cost")


def test_pairs_are_every_rate_policy_with_every_path_policy():
    pairs = POLICIES["joint"]
    rates, paths = POLICIES["congestion"], POLICIES["paths"]
    assert list(pairs) == [f"{rate}+{path}" for rate in rates for path in paths]
    assert len(pairs) == len(pairs.names())
    with pytest.raises(ConfigError, match="did you mean 'dctcp\\+wcmp'"):
        pairs.find("dctpc+wcmp")
    with pytest.raises(ConfigError, match="policy"):
        make_policy("cubic+cubic", family="joint")


def test_a_family_of_its_own_has_its_policies_and_the_learners():
    family = POLICIES.add("toy", PolicyFamily("toy"))
    try:
        family.add("half", FixedSharePolicy)
        assert policy_names("toy") == ["half", *LEARNERS]
        assert make_policy("half", family="toy").name == "fixed-share"
    finally:
        POLICIES.remove("toy")
    with pytest.raises(ConfigError, match="family"):
        policy_names("toy")


def test_learners_are_algorithms_of_libraries():
    for learner in LEARNERS.values():
        assert find_learner(learner.algorithm, learner.library) is learner
    # Several libraries have these: the plain name is the one that a training begins with.
    assert find_learner("ppo") is find_learner("ppo", "rllib") is LEARNERS["ppo"]
    assert find_learner("sac") is find_learner("sac", "sb3") is LEARNERS["sac"]
    assert [learner_name(one.algorithm, one.library) for one in LEARNERS.values()] == [*LEARNERS]


@pytest.mark.parametrize(
    ("algorithm", "library", "words"),
    [
        ("dpg", None, "algo: value 'dpg' .* did you mean 'ddpg'"),
        ("ppo", "sb", "library: value 'sb' .* allowed: rllib, sb3 for ppo; did you mean 'sb3'"),
        ("td3", "rllib", "library: value 'rllib' .* allowed: sb3 for td3"),
    ],
)
def test_an_unknown_pair_is_one_line_with_the_nearest(algorithm, library, words):
    with pytest.raises(ConfigError, match=words):
        find_learner(algorithm, library)


class ConstantLearner:
    """What somebody else's package may add: it needs no library and learns nothing."""

    algorithm, library = "constant", "somebodys"

    def train(self, env_config, steps, seed, out_dir, progress=None, **limits):
        write_note(Path(out_dir), CheckpointNote(self.algorithm, self.library, seed))
        return Path(out_dir)

    def load(self, folder):
        return FixedSharePolicy(0.125)


def test_a_learner_from_outside_is_listed_trains_and_loads(tmp_path):
    learner = LEARNERS.add("constant", ConstantLearner())
    try:
        assert policy_names("paths")[-1] == "constant"
        env = dcgym.make_env({"backend": FakeBackend})
        policy = load_policy(learner.train({}, 1, 0, tmp_path), env)
        action = policy.act(*env.reset(seed=0))
        np.testing.assert_allclose(action, 0.125)
        with pytest.raises(ConfigError, match="load_policy"):
            make_policy("constant")
    finally:
        LEARNERS.remove("constant")


def test_a_checkpoint_of_an_unknown_learner_is_one_clear_line(tmp_path):
    write_note(tmp_path, CheckpointNote("ppo", "somebodys"))
    with pytest.raises(ConfigError, match=r"checkpoint: .*known learner .*'somebodys'") as caught:
        load_policy(tmp_path)
    assert "\n" not in str(caught.value)


def test_acting_builds_no_environment_and_loads_no_library():
    code = (
        "import sys, dcgym.policies\n"
        "import dcgym.policies.learned.actor_files\n"
        "heavy = ('ray', 'torch', 'stable_baselines3', 'benchmarl')\n"
        "heavy += ('dcgym.envs.factory', 'dcgym.backends')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stdout.splitlines() == ["[]"], done.stderr
