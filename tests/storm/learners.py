"""Trainings of each learner, small enough to end within seconds of their start."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TRAININGS", "Training"]

SB3 = ("batch_size=8",)
REPLAY = (*SB3, "learning_starts=16")
ROLLOUT = (*SB3, "n_steps=16", "n_epochs=1")
MARL = (
    "on_policy_n_minibatch_iters=1",
    "on_policy_collected_frames_per_batch=40",
    "on_policy_minibatch_size=40",
    "off_policy_collected_frames_per_batch=40",
    "off_policy_n_optimizer_steps=2",
    "off_policy_train_batch_size=16",
    "off_policy_init_random_frames=0",
    "off_policy_memory_size=1000",
)
PPO = ("train_batch_size_per_learner=720", "minibatch_size=360", "num_epochs=1")
RLLIB_SAC = ("num_steps_sampled_before_learning_starts=40", "train_batch_size_per_learner=16")
POOL = ("--env", "LoadBalancing-v1")
EMULATED = ("--config", "fast.yaml")


@dataclass(frozen=True)
class Training:
    """A training.

    Attributes:
        name: Its name in the table.
        algo: The algorithm.
        steps: Environment steps.
        settings: Hyper-parameters.
        words: What else the command says.
        is_exact: Whether a training that was resumed ends with the same bits.
    """

    name: str
    algo: str
    steps: int
    settings: tuple[str, ...] = ()
    words: tuple[str, ...] = POOL
    is_exact: bool = False


TRAININGS = (
    Training("cma-es", "cma-es", 20_000, is_exact=True),
    Training("reinforce", "reinforce", 20_000, ("episode_steps=50",), is_exact=True),
    Training("cma-es emulated", "cma-es", 200, ("population=4", "episode_steps=20"), EMULATED),
    Training("ddpg", "ddpg", 300, REPLAY),
    Training("ddpg emulated", "ddpg", 200, REPLAY, EMULATED),
    Training("td3", "td3", 300, REPLAY),
    Training("sac", "sac", 300, REPLAY),
    Training("ppo of SB3", "ppo", 1000, ROLLOUT, (*POOL, "--library", "sb3")),
    Training("recurrent-ppo", "recurrent-ppo", 600, ROLLOUT),
    Training("maskable-ppo", "maskable-ppo", 400, ROLLOUT, ("--env", "JobAssignment-v0")),
    Training("ippo", "ippo", 400, MARL),
    Training("isac", "isac", 400, MARL),
    Training("mappo", "mappo", 400, MARL),
    Training("maddpg", "maddpg", 400, MARL),
    Training("qmix", "qmix", 400, MARL, ("--config", "levels.yaml")),
    Training("ppo of RLlib", "ppo", 800, PPO),
    Training("appo", "appo", 400),
    Training("sac of RLlib", "sac", 300, RLLIB_SAC, (*POOL, "--library", "rllib")),
)
