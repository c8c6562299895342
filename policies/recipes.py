"""Published trainings by name: an algorithm, a library and the hyper-parameters of a source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dcgym.registry import Registry

__all__ = ["RECIPES", "Recipe"]


@dataclass(frozen=True)
class Recipe:
    """A training as a source describes it.

    Attributes:
        algorithm: Name of the algorithm.
        library: Name of the library.
        settings: Hyper-parameters by the names of the library.
        source: Where they are published.
        differs: What the library cannot do as the source does, or what that leaves open.
    """

    algorithm: str
    library: str
    settings: Mapping[str, object]
    source: str
    differs: str = ""


RECIPES: Registry[Recipe] = Registry("trainings", "preset")
"""The trainings by name: ``dcgym train --preset NAME``. A setting that is given, too, wins."""

_IROKO = "F. Ruffy, Data-Driven Datacenter Traffic Control, UBC 2019, appendix"
_YAO = "Z. Yao, Autonomous Service Management in the Cloud, 2023, table 7.3 and its code"

# KL penalty and clipping at the same time, as the table has it.
_IROKO_PPO = {
    "lr": 1e-5,
    "lambda_": 1.0,
    "use_kl_loss": True,
    "kl_coeff": 0.2,
    "kl_target": 0.01,
    "clip_param": 0.3,
    "vf_loss_coeff": 1.0,
    "entropy_coeff": 0.0,
    "train_batch_size_per_learner": 1000,
}
_SAC_NET = {"gamma": 0.99, "tau": 0.01, "ent_coef": "auto", "target_entropy": "auto"}


def _add(name: str, recipe: Recipe) -> None:
    differs = f" Differs: {recipe.differs}." if recipe.differs else ""
    where = f"{recipe.algorithm} of {recipe.library}"
    RECIPES.add(name, recipe, f"{where}, as in {recipe.source}.{differs}")


_add(
    "iroko-ppo",
    Recipe("ppo", "rllib", {**_IROKO_PPO, "minibatch_size": 128}, _IROKO),
)
_add(
    "iroko-appo",
    Recipe("appo", "rllib", _IROKO_PPO, _IROKO, "no minibatches of 128 steps"),
)
_add(
    "iroko-ddpg",
    Recipe(
        "ddpg",
        "sb3",
        {"learning_rate": 1e-4, "tau": 1e-3, "train_freq": 1, "gradient_steps": 1},
        _IROKO,
        "uniform replay, no weight decay, and the critic learns at the actor's 1e-4, not at 1e-3",
    ),
)
_add(
    "iroko-reinforce",
    Recipe(
        "reinforce",
        "dcgym",
        {"learning_rate": 1e-4},
        _IROKO,
        "with our baseline, since the source names none",
    ),
)
# 10 updates an episode of 240 steps of 0.25 s; a batch of 25 episodes.
_add(
    "yao-central-sac",
    Recipe(
        "sac",
        "sb3",
        {
            **_SAC_NET,
            "learning_rate": 3e-4,
            "net_arch": [64, 64],
            "train_freq": 24,
            "gradient_steps": 1,
            "batch_size": 6000,
            "buffer_size": 720_000,
        },
        _YAO,
        "no GRU; batches are of steps, not of whole episodes. For CentralLoadBalancing-v1",
    ),
)
_add(
    "yao-qmix",
    Recipe(
        "qmix",
        "benchmarl",
        {
            "lr": 3e-4,
            "gamma": 0.99,
            "polyak_tau": 0.01,
            "mixing_embed_dim": 32,
            "memory": True,
            "off_policy_n_optimizer_steps": 10,
            "off_policy_memory_size": 720_000,
            "off_policy_train_batch_size": 6000,
        },
        _YAO,
        "one-step targets in place of TD(0.6), updates after each batch of steps and not of whole "
        "episodes, one layer after the GRU and none before it. For action: discrete",
    ),
)
_add(
    "yao-rlb-sac",
    Recipe(
        "sac",
        "sb3",
        {
            **_SAC_NET,
            "learning_rate": 3e-4,
            "net_arch": [512, 512],
            "train_freq": 1,
            "gradient_steps": 10,
            "batch_size": 64,
        },
        _YAO,
        "no normalisation of batches and layers",
    ),
)
