"""Trainings whose environments run on the machines of a cluster: a cluster of three nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dcgym
from dcgym.cli import main
from dcgym.errors import ConfigError
from dcgym.policies import load_policy
from dcgym.policies.learned.environments import training_form
from dcgym.policies.learned.training import TrainingClock, TrainingJob
from tests.support.ray_clusters import NODE, ray_cluster

pytestmark = [pytest.mark.learning, pytest.mark.simulation, pytest.mark.timeout(300)]

POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 10, "lead_in": 0}


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with ray_cluster(monkeypatch) as cluster:
        for _ in range(2):
            cluster.add_node(**NODE)
        yield cluster


def test_copies_are_shared_out_evenly_among_what_the_machines_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray = pytest.importorskip("ray")
    from dcgym.policies.learned.rllib.places import spread

    have = [{"CPU": 2.0, "emulation": 1.0}, {"CPU": 1.0}, {"CPU": 64.0}]
    alive = [True, True, False]
    nodes = [{"Alive": a, "Resources": h} for a, h in zip(alive, have, strict=True)]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    form = training_form(POOL, 7)
    # Three cores that are alive: three copies each, of two agents.
    whole, places = spread(form, "head:1")
    assert (places.runners, places.cpus, places.resources) == (3, 1, {})
    assert (places.form.n_copies, places.form.n_slots) == (3, 6)
    assert (whole.n_copies, whole.n_slots) == (9, 18)
    one = replace(form, n_copies=1, n_slots=2, in_real_time=True)
    whole, places = spread(one, "head:1")
    assert (places.runners, places.cpus, places.resources) == (1, 0, {"emulation": 1})
    with pytest.raises(ConfigError, match="2 emulation in all for these environments, and not 1"):
        spread(replace(one, n_copies=2, n_slots=4), "head:1")


@pytest.mark.ray
@pytest.mark.soak
def test_each_machine_of_a_cluster_has_a_runner_and_all_steps_are_learned_from(
    cluster: Any, tmp_path: Path
) -> None:
    import ray

    from dcgym.policies.checkpoint import CheckpointNote
    from dcgym.policies.learned.actor_files import load_actor
    from dcgym.policies.learned.rllib.algorithms import open_rllib

    settings = {"train_batch_size_per_learner": 80, "minibatch_size": 40, "num_epochs": 1}
    clock = TrainingClock(160, None, lambda _: None)
    # Three copies of two agents, shared out among three cores: one copy each.
    with open_rllib("ppo", TrainingJob(POOL, 0, 3, settings, address=cluster.address)) as trainee:
        group = trainee._algorithm.env_runner_group
        found = group.foreach_env_runner(
            lambda runner: (ray.get_runtime_context().get_node_id(), runner.num_envs),
            local_env_runner=False,
        )
        assert {slots for _, slots in found} == {2}
        assert {node for node, _ in found} == {node["NodeID"] for node in ray.nodes()}
        trainee.learn(clock)
        details = trainee.save(tmp_path)
    assert clock.last.steps >= 160
    load_actor(tmp_path, CheckpointNote("ppo", "rllib", details=details))


@pytest.mark.ray
@pytest.mark.soak
def test_a_training_on_three_machines_leaves_its_checkpoint_with_who_called(
    cluster: Any, tmp_path: Path
) -> None:
    config, out = tmp_path / "env.yaml", tmp_path / "ppo"
    config.write_text("".join(f"{name}: {value}\n" for name, value in POOL.items()))
    words = ["train", "--algo", "ppo", "--config", str(config), "--num-envs", "3"]
    words += ["--steps", "160", "--set", "train_batch_size_per_learner=80"]
    words += ["--set", "minibatch_size=40", "--address", cluster.address, "--out", str(out)]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    # It acts without Ray.
    env = dcgym.make_env(**POOL)
    observation, info = env.reset(seed=0)
    policy = load_policy(out, env)
    assert env.action_space.contains(policy.act(observation, info))
    env.close()
