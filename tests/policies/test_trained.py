"""Trained policies that come with the package: they load, fit any pool, and score as published."""

from __future__ import annotations

from pathlib import Path

import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.policies import TRAINED, load_policy
from dcgym.policies.trained import folder_of
from dcgym.suites.rollout import run_episode
from dcgym.suites.spec import RunSpec
from dcgym.tasks.common.splits import SPLITS

pytest.importorskip("safetensors")

LARGEST_BYTES = 1_000_000


@pytest.mark.parametrize("name", TRAINED.names())
def test_its_files_are_small_and_load(name: str) -> None:
    paths = list(TRAINED[name].iterdir())
    assert 0 < sum(path.stat().st_size for path in paths) < LARGEST_BYTES
    assert load_policy(name).name
    assert "/" not in (TRAINED[name] / "dcgym_policy.json").read_text().replace("dcgym/", "")


def test_a_folder_wins_over_a_name_and_others_are_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert folder_of("balancing-v1") == TRAINED["balancing-v1"]
    (tmp_path / "balancing-v1").mkdir()
    assert folder_of("balancing-v1") == Path("balancing-v1")
    with pytest.raises(ConfigError, match="checkpoint"):
        load_policy("balancing-v2")


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("case", "mean_us", "hlb_us"), [("n20-l0.85-r4-lognormal-swapped-weights", 69_976, 79_762)]
)
def test_balancing_v1_scores_as_it_did(case: str, mean_us: float, hlb_us: float) -> None:
    env = {**SPLITS["balancing-v1"].held_out[case], "reward": "log_ongoing"}
    found = {}
    for policy, checkpoint in (("cma-es", "balancing-v1"), ("hlb", None)):
        spec = RunSpec(
            env=env, policy=policy, checkpoint=checkpoint, steps=240, warmup_s=10.0, seed=0
        )
        found[policy] = run_episode(spec)["metrics"]["fct_us_mean"]
    # The twin repeats itself bit for bit; the sums of NumPy may round otherwise elsewhere.
    assert found["cma-es"] == pytest.approx(mean_us, rel=0.03)
    assert found["hlb"] == pytest.approx(hlb_us, rel=1e-3)


@pytest.mark.simulation
def test_it_acts_in_pools_that_no_draw_had() -> None:
    for n in (4, 64):
        env = dcgym.make_env(
            env="LoadBalancing-v1", scenario={"preset": "two-speeds", "servers": n}, max_steps=2
        )
        observation, info = env.reset(seed=1)
        assert load_policy("balancing-v1", env).act(observation, info).shape == (n,)
        env.close()
