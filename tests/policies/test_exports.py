"""What a checkpoint holds acts as the library's own inference does, for each algorithm."""

import gymnasium as gym
import numpy as np
import pytest

from dcgym.policies import RECIPES
from dcgym.policies.learned.acting import ActorPolicy
from dcgym.policies.learned.flat import from_unit, unit_action_space
from dcgym.tasks.common.rows import RowLayout, row_inputs
from tests.support.simulated import simulated

pytestmark = pytest.mark.learning

BOX = gym.spaces.Box(np.array([-1, 0, 1, 2], "f4"), np.array([1, 5, 2, 3], "f4"))
SPACES = {
    "box": BOX,
    "choice": gym.spaces.Discrete(4),
    "choices": gym.spaces.MultiDiscrete([3, 3, 3, 3]),
}
SEEN = gym.spaces.Box(-9, 9, (15,), np.float32)
ROWS = RowLayout(4, 2, 3, 1)
SB3_PAIRS = [
    ("ddpg", "box", None),
    ("ddpg", "box", ROWS),
    ("td3", "box", None),
    ("td3", "box", ROWS),
    ("sac", "box", None),
    ("sac", "box", ROWS),
    *[("ppo", kind, rows) for kind in SPACES for rows in (None, ROWS)],
    *[("recurrent-ppo", kind, None) for kind in SPACES],
]
RLLIB_PAIRS = [
    ("sac", "box", None),
    *[(name, kind, rows) for name in ("ppo", "appo") for kind in SPACES for rows in (None, ROWS)],
]


def shaken(module):
    """Make the answers of a fresh network, which are almost 0, differ."""
    import torch

    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))


@pytest.mark.parametrize(("name", "kind", "rows"), SB3_PAIRS)
def test_networks_of_sb3_are_exported_exactly(name, kind, rows):
    pytest.importorskip("stable_baselines3")
    if name == "recurrent-ppo":
        pytest.importorskip("sb3_contrib")
    from dcgym.policies.learned.export import export_actor
    from dcgym.policies.learned.sb3.algorithms import SB3_ALGORITHMS

    algorithm, space = SB3_ALGORITHMS[name], SPACES[kind]
    unit = unit_action_space(space)
    arguments = {**algorithm.network, "rows": rows}
    model = algorithm.policy()(SEEN, unit, lambda _: 1e-3, **arguments)
    shaken(model)
    actor = export_actor(model.acting_parts(), space, output=model.output)
    policy = ActorPolicy(name, actor)
    state, begins = None, np.ones(1, bool)
    SEEN.seed(0)
    for _ in range(20):
        observation = SEEN.sample()
        expected, state = model.predict(observation, state, begins, deterministic=True)
        begins = np.zeros(1, bool)
        np.testing.assert_allclose(policy.infer(observation), from_unit(space, expected), atol=5e-6)


@pytest.mark.parametrize(("name", "kind", "rows"), RLLIB_PAIRS)
def test_networks_of_rllib_are_exported_exactly(name, kind, rows):
    pytest.importorskip("ray")
    import torch

    from dcgym.policies.learned.export import export_actor
    from dcgym.policies.learned.rllib.module import module_spec

    space = SPACES[kind]
    unit = unit_action_space(space)
    spec = module_spec(name, rows, unit)
    spec.observation_space, spec.action_space = SEEN, unit
    module = spec.build()
    shaken(module)
    n_outputs = 4 if module.output == "tanh" else None
    parts = module.acting_parts()
    actor = export_actor(parts, space, output=module.output, n_outputs=n_outputs)
    distribution = module.get_inference_action_dist_cls()
    policy = ActorPolicy(name, actor)
    SEEN.seed(0)
    for _ in range(20):
        observation = SEEN.sample()
        with torch.no_grad():
            batch = {"obs": torch.as_tensor(observation)[None]}
            inputs = module.forward_inference(batch)["action_dist_inputs"]
            found = distribution.from_logits(inputs)
            # RLlib leaves out the tanh here (ray 2.60), not where it samples and learns.
            best = found._squash(found.loc) if name == "sac" else found.to_deterministic().sample()
        expected = np.asarray(best)[0] if kind != "choices" else np.asarray(best).reshape(-1)
        if kind == "box":
            expected = np.clip(expected, -1, 1)
        np.testing.assert_allclose(policy.infer(observation), from_unit(space, expected), atol=5e-6)


@pytest.mark.parametrize("name", ["iroko-ppo", "iroko-appo"])
def test_a_published_training_is_what_rllib_takes(name):
    pytest.importorskip("ray")
    from dcgym.policies.learned.environments import training_form
    from dcgym.policies.learned.rllib.algorithms import configure
    from dcgym.policies.learned.training import TrainingJob

    recipe, env = RECIPES[name], simulated(max_steps=12)
    job = TrainingJob(env, 0, 2, recipe.settings)
    config = configure(recipe.algorithm, training_form(env, 2), job)
    config.validate()
    assert (config.lr, config.lambda_, config.kl_coeff) == (1e-5, 1.0, 0.2)
    assert config.train_batch_size_per_learner == 1000


def test_a_network_of_any_number_of_rows_answers_each_row_alike():
    from dcgym.policies.learned.actor import Actor, Linear

    weight = np.random.default_rng(0).normal(size=(1, row_inputs(ROWS))).astype("f4")
    ends = np.full(4, -1, "f4"), np.full(4, 1, "f4")
    actor = Actor((Linear(0.1 * weight, np.zeros(1, "f4")),), "none", "tanh", *ends, ROWS)
    two = actor.resized(RowLayout(2, 2, 3, 1))
    few = np.arange(9, dtype="f4") / 9
    # Twice the same two rows have the same means.
    many = np.concatenate([np.tile(few[:4], 2), few[4:7], np.tile(few[7:], 2)])
    np.testing.assert_allclose(actor.act(many), np.tile(two.act(few), 2), atol=1e-6)
