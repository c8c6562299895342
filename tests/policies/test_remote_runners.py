"""Trainings whose environments run on the machines of a cluster: a cluster of two nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dcgym.errors import ConfigError
from dcgym.policies.learned.environments import training_form
from dcgym.policies.learned.training import TrainingClock, TrainingJob

pytestmark = [pytest.mark.learning, pytest.mark.simulation, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 10, "lead_in": 0}


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    if ray.is_initialized():
        ray.shutdown()
    # What the nodes start inherits it.
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    one = {"num_cpus": 1, "object_store_memory": 80_000_000}
    cluster = Cluster(initialize_head=True, head_node_args={**one, "include_dashboard": False})
    cluster.add_node(**one)
    try:
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()


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
    address: str, tmp_path: Path
) -> None:
    import ray

    from dcgym.policies.checkpoint import CheckpointNote
    from dcgym.policies.learned.actor_files import load_actor
    from dcgym.policies.learned.rllib.algorithms import open_rllib

    settings = {"train_batch_size_per_learner": 80, "minibatch_size": 40, "num_epochs": 1}
    clock = TrainingClock(160, None, lambda _: None)
    # Three copies of two agents, shared out among two cores: two copies each.
    with open_rllib("ppo", TrainingJob(POOL, 0, 3, settings, address=address)) as trainee:
        group = trainee._algorithm.env_runner_group
        found = group.foreach_env_runner(
            lambda runner: (ray.get_runtime_context().get_node_id(), runner.num_envs),
            local_env_runner=False,
        )
        assert {slots for _, slots in found} == {4}
        assert {node for node, _ in found} == {node["NodeID"] for node in ray.nodes()}
        trainee.learn(clock)
        details = trainee.save(tmp_path)
    assert clock.last.steps >= 160
    load_actor(tmp_path, CheckpointNote("ppo", "rllib", details=details))
