"""Learners of BenchMARL: they train, what they save acts alike with NumPy, and what is refused."""

from __future__ import annotations

import tempfile
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError
from dcgym.policies import TrainingOptions, find_learner, load_policy
from dcgym.policies.learned.acting import ActorPolicy
from dcgym.policies.learned.training import TrainingClock, TrainingJob
from dcgym.tasks.common.rows import rows_of

POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 20, "lead_in": 0}
# Where the library keeps what its GRU remembers.
MEMORY = "_hidden_gru_0"
SMALL = {
    "on_policy_n_minibatch_iters": 1,
    "on_policy_collected_frames_per_batch": 40,
    "on_policy_minibatch_size": 40,
    "off_policy_collected_frames_per_batch": 40,
    "off_policy_n_optimizer_steps": 2,
    "off_policy_train_batch_size": 16,
    "off_policy_init_random_frames": 0,
    "off_policy_memory_size": 1_000,
    "exploration_anneal_frames": 100,
}


@pytest.mark.learning
@pytest.mark.simulation
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["mappo", "maddpg"])
def test_a_learner_trains_and_its_checkpoint_acts_as_the_library_does(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("benchmarl")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    named: list[str] = []
    monkeypatch.setattr(resource_tracker, "register", lambda name, kind: named.append(name))
    Path(tempfile.mkdtemp(prefix=".dcgym-training-"), "experiment").mkdir()  # Of a killed one.
    import torch
    from torchrl.envs.utils import ExplorationType, set_exploration_type

    from dcgym.policies.checkpoint import CheckpointNote
    from dcgym.policies.learned.actor_files import load_actor
    from dcgym.policies.learned.marl.algorithms import open_marl

    reports = []
    clock = TrainingClock(80, None, reports.append)
    with open_marl(name, TrainingJob(POOL, 0, 2, SMALL)) as trainee:
        before = [one.detach().clone() for one in trainee.network.mean.parameters()]
        trainee.learn(clock)
        after = list(trainee.network.mean.parameters())
        assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))
        details = trainee.save(tmp_path)
        group = next(iter(trainee._experiment.group_map))
        fake = trainee._experiment.observation_spec.rand()
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            trainee._experiment.algorithm.get_policy_for_loss(group)(fake)
    assert [report.steps for report in reports] == [40, 80]
    # Neither files nor semaphores that have to be removed.
    assert not list(tmp_path.glob(".dcgym-training-*")) and not named
    actor = load_actor(tmp_path, CheckpointNote(name, "benchmarl", details=details)).actor
    seen = fake.get((group, "observation")).numpy()
    answers = np.stack([actor.act(one) for one in seen])
    np.testing.assert_allclose(answers, fake.get((group, "action")).numpy(), atol=1e-5)


def compare_over_an_episode(
    policies: list[ActorPolicy], acts: Any, group: str, config: dict[str, Any]
) -> None:
    """Let policies and the library's own network act on the same observations, step by step."""
    import torch
    from tensordict import TensorDict
    from torchrl.envs.utils import ExplorationType, set_exploration_type

    parallel = dcgym.parallel_env(config)
    observations, _ = parallel.reset(seed=5)
    rows = parallel.system.task().rows if group == "head" else None
    remembered = torch.zeros(len(policies) * (1 if rows is None else rows.n_rows), 1, 64)
    for step in range(6):
        pairs = list(zip(policies, observations.values(), strict=True))
        mine = np.stack([policy.infer(own) for policy, own in pairs])
        seen = np.stack(list(observations.values()))
        if rows is not None:
            seen = rows_of(seen, rows).reshape(len(remembered), -1)
        inputs = TensorDict({group: {"observation": torch.as_tensor(seen)}})
        inputs["is_init"] = torch.tensor([step == 0])
        if policies[0].actor.memory is not None:
            inputs[group, MEMORY] = remembered
        with torch.no_grad(), set_exploration_type(ExplorationType.DETERMINISTIC):
            answers = acts(inputs)
        remembered = answers.get(("next", group, MEMORY), remembered)
        theirs = answers[group, "action"].numpy().reshape(mine.shape)
        np.testing.assert_allclose(mine, theirs, atol=1e-5)
        observations, *_ = parallel.step(dict(zip(parallel.agents, mine, strict=True)))
    parallel.close()


@pytest.mark.learning
@pytest.mark.simulation
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "settings"), [("qmix", {}), ("qmix", {"memory": False}), ("isac", {"memory": True})]
)
def test_a_memory_and_heads_act_over_an_episode_as_the_library_does(
    name: str, settings: dict[str, object], tmp_path: Path
) -> None:
    pytest.importorskip("benchmarl")
    import torch

    from dcgym.policies.checkpoint import CheckpointNote
    from dcgym.policies.learned.actor_files import load_actor
    from dcgym.policies.learned.marl.algorithms import open_marl

    config = {**POOL, "action": "discrete"} if name == "qmix" else POOL
    clock = TrainingClock(80, None, lambda _: None)
    with open_marl(name, TrainingJob(config, 0, 2, {**SMALL, **settings})) as trainee:
        before = [one.detach().clone() for one in trainee.network.parameters()]
        trainee.learn(clock)
        after = list(trainee.network.parameters())
        assert any(not torch.equal(one, other) for one, other in zip(before, after, strict=True))
        details = trainee.save(tmp_path)
        experiment = trainee._experiment
        (group,) = experiment.group_map
        acts = experiment.algorithm.get_policy_for_loss(group)
    # Of 80 steps: two observations, an action, a reward, and two flags of one byte.
    width, n_agents = experiment.observation_spec[group, "observation"].shape[::-1]
    n_chosen = 1 if name == "qmix" else 7
    each = 2 * 4 * width + (8 if name == "qmix" else 4) * n_chosen + 4 + 2
    assert details["shipped_bytes"] == 80 * n_agents * each
    note = CheckpointNote(name, "benchmarl", details=details)
    policies = [load_actor(tmp_path, note) for _ in range(2)]
    assert policies[0].actor.memory is None or settings.get("memory", True)
    compare_over_an_episode(policies, acts, group, config)


@pytest.mark.learning
@pytest.mark.simulation
@pytest.mark.timeout(300)
def test_a_training_goes_on_and_acts_for_any_balancer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("benchmarl")
    learner = find_learner("isac")
    options = TrainingOptions(settings=SMALL)
    folder = learner.train(POOL, 40, 0, tmp_path / "run", n_envs=2, options=options)
    learner.train(POOL, 40, 0, folder, options=TrainingOptions(resume=True))
    env = dcgym.make_env(POOL)
    observation, info = env.reset(seed=0)
    assert env.action_space.contains(load_policy(folder, env).act(observation, info))
    env.close()
    # Standard output belongs to results.
    assert capsys.readouterr().out == ""


@pytest.mark.learning
@pytest.mark.simulation
@pytest.mark.timeout(300)
def test_heads_see_their_rows_and_their_levels_are_weights() -> None:
    pytest.importorskip("benchmarl")
    from dcgym.envs.heads import HeadsEnv

    config = {**POOL, "action": "discrete"}
    plain, inner = dcgym.parallel_env(config), dcgym.parallel_env(config)
    rows = plain.system.task().rows
    heads = HeadsEnv(inner)
    expected, _ = plain.reset(seed=3)
    seen, _ = heads.reset(seed=3)
    n, levels = rows.n_rows, np.arange(2 * rows.n_rows) % 3
    assert len(seen) == 2 * n
    np.testing.assert_array_equal(seen[f"head_{n + 2}"], rows_of(expected["balancer_1"], rows)[2])
    seen, rewards, *_ = heads.step({f"head_{i}": level for i, level in enumerate(levels)})
    own, paid, *_ = plain.step({"balancer_0": levels[:n], "balancer_1": levels[n:]})
    np.testing.assert_array_equal(seen["head_1"], rows_of(own["balancer_0"], rows)[1])
    assert rewards[f"head_{n - 1}"] == paid["balancer_0"]
    assert rewards[f"head_{n}"] == paid["balancer_1"]
    np.testing.assert_array_equal(heads.state(), plain.state())
    plain.close()
    heads.close()


@pytest.mark.simulation
@pytest.mark.parametrize(
    ("name", "config", "options", "words"),
    [
        ("qmix", POOL, {}, "takes multi-discrete ones"),
        ("qmix", {**POOL, "action": "discrete"}, {"settings": {"memory": 1}}, "memory"),
        ("mappo", POOL, {"settings": {"prefer_continuous_actions": False}}, "settings field"),
        ("isac", {"env": "CentralLoadBalancing-v1"}, {}, "one with several agents"),
        ("isac", POOL, {"frames": 2}, "none with isac of benchmarl"),
    ],
)
def test_what_does_not_fit_is_one_line_and_leaves_nothing(
    name: str, config: dict, options: dict, words: str, tmp_path: Path
) -> None:
    pytest.importorskip("benchmarl")
    out = tmp_path / "run"
    with pytest.raises(ConfigError, match=words) as caught:
        find_learner(name).train(config, 10, 0, out, options=TrainingOptions(**options))
    assert "\n" not in str(caught.value)
    assert not out.exists()
