"""DDPG through Stable-Baselines3, with the thesis' exploration noise.

Replay is uniform (the thesis used prioritised replay) and the step sizes are larger: see
`rllib_ppo` for why.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int
from dcgym.errors import MissingDependency
from dcgym.policies.base import Action
from dcgym.policies.learned.flat import flat_action_space, restore_action
from dcgym.policies.learned.training import (
    ProgressCallback,
    TrainingClock,
    build_running_env,
    build_shared_env,
    is_simulated,
    limit_torch_threads,
    write_note,
)

__all__ = ["DdpgPolicy", "load", "train"]

MODEL_FILE = "model.zip"
# Ornstein-Uhlenbeck noise of the thesis.
NOISE_THETA = 0.15
NOISE_SIGMA = 0.2
REPORT_EVERY_STEPS = 100
EMULATED: Mapping[str, Any] = {
    "policy": "MlpPolicy",
    "learning_rate": 1e-3,
    "buffer_size": 100_000,
    "learning_starts": 500,
    "gamma": 0.9,
    "train_freq": 4,
    "gradient_steps": 4,
}
# Simulated steps cost less than learning from them: 64 slots a step, and a longer horizon.
SIMULATED: Mapping[str, Any] = {
    "learning_rate": 3e-4,
    "buffer_size": 300_000,
    "learning_starts": 5_000,
    "gamma": 0.98,
    "train_freq": 1,
    "gradient_steps": 2,
}


class DdpgPolicy:
    """The trained actor, without noise."""

    name = "ddpg"

    def __init__(self, model: Any) -> None:
        """Wrap a Stable-Baselines3 model."""
        self._model = model
        self._env: Any = None

    def env_overrides(self) -> dict[str, Any]:
        """Ask for nothing special."""
        return {}

    def bind(self, env: Any) -> DdpgPolicy:
        """Check that the environment takes this policy's actions; returns the policy."""
        shape, own = flat_action_space(env).shape, self._model.action_space.shape
        if shape != own:
            raise ValueError(f"the policy acts in shape {own}, the env in {shape}")
        self._env = env
        return self

    def act(
        self, observation: npt.NDArray[np.float32], info: dict[str, Any]
    ) -> Action | dict[str, Action]:
        """Return the actor's action."""
        action, _ = self._model.predict(observation, deterministic=True)
        return restore_action(self._env, np.asarray(action, np.float32))


def train(
    env_config: Mapping[str, Any],
    steps: int,
    seed: int,
    out_dir: str | Path,
    progress: ProgressCallback | None = None,
    *,
    n_envs: int = 4,
    budget_s: float | None = None,
) -> Path:
    """Train and save; the arguments are those of `dcgym.policies.learned.rllib.ppo.train`.

    Returns:
        The checkpoint folder, for `load_policy`.
    """
    check_int("n_envs", n_envs, 1)
    library = _import_library()
    limit_torch_threads()
    clock = TrainingClock(steps, budget_s, progress)
    folder = Path(out_dir).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    envs = _make_envs(env_config, n_envs)
    settings = _settings(env_config)
    try:
        model = _make_model(library, envs, seed, settings)
        try:
            model.learn(steps, callback=_make_callback(clock))
        finally:
            # Also on Ctrl-C: what was learned so far is kept.
            if clock.last.steps:
                model.save(folder / MODEL_FILE)
                write_note(folder, "ddpg", seed, clock.last)
        clock.check_trained()
    finally:
        envs.close()
    return folder


def load(path: str | Path) -> DdpgPolicy:
    """Load the policy of a checkpoint folder."""
    limit_torch_threads()
    return DdpgPolicy(_import_library().DDPG.load(Path(path) / MODEL_FILE, device="cpu"))


def _import_library() -> Any:
    try:
        import stable_baselines3
    except ImportError as error:
        raise MissingDependency("stable-baselines3", "sb3") from error
    return stable_baselines3


def _monitored_env(env_config: dict[str, Any]) -> Any:
    from stable_baselines3.common.monitor import Monitor

    return Monitor(build_running_env(env_config))


def _make_envs(env_config: Mapping[str, Any], n_envs: int) -> Any:
    if is_simulated(env_config):
        from dcgym.policies.learned.sb3.pools import PoolVecEnv

        return PoolVecEnv(build_shared_env(env_config, n_envs))
    from stable_baselines3.common.vec_env import SubprocVecEnv

    # In processes: environments wait for real time, and must do so at the same time.
    makers: list[Any] = [partial(_monitored_env, dict(env_config)) for _ in range(n_envs)]
    return SubprocVecEnv(makers, start_method="forkserver")


def _settings(env_config: Mapping[str, Any]) -> Mapping[str, Any]:
    if not is_simulated(env_config):
        return EMULATED
    from dcgym.policies.learned.sb3.pools import ServerPolicy

    return {**SIMULATED, "policy": ServerPolicy}


def _make_model(library: Any, envs: Any, seed: int, settings: Mapping[str, Any]) -> Any:
    from stable_baselines3.common.noise import (
        OrnsteinUhlenbeckActionNoise,
        VectorizedActionNoise,
    )

    zeros = np.zeros(envs.action_space.shape)
    noise = OrnsteinUhlenbeckActionNoise(zeros, zeros + NOISE_SIGMA, NOISE_THETA)
    return library.DDPG(
        env=envs,
        batch_size=128,
        tau=5e-3,
        action_noise=VectorizedActionNoise(noise, envs.num_envs),
        policy_kwargs={"net_arch": [64, 64]},
        seed=seed,
        device="cpu",
        **settings,
    )


def _make_callback(clock: TrainingClock) -> Any:
    from stable_baselines3.common.callbacks import BaseCallback

    class Report(BaseCallback):
        """Reports progress, and ends the training when its time is over."""

        def _on_training_start(self) -> None:
            clock.begin()

        def _on_step(self) -> bool:
            if self.num_timesteps - clock.last.steps >= REPORT_EVERY_STEPS or clock.is_over:
                clock.report(self.num_timesteps, self._reward_mean())
            return not clock.is_over

        def _reward_mean(self) -> float | None:
            episodes = self.model.ep_info_buffer or ()
            means = [episode["r"] / episode["l"] for episode in episodes]
            return float(np.mean(means)) if means else None

        def _on_training_end(self) -> None:
            clock.report(self.num_timesteps, self._reward_mean())

    return Report()
