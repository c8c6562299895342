"""PPO through Ray RLlib (new API stack): many environments side by side, emulated or simulated."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dcgym.config import check_int
from dcgym.errors import BackendError, MissingDependency
from dcgym.policies.base import Action
from dcgym.policies.learned.flat import flat_action_space, restore_action
from dcgym.policies.learned.rllib.config import CPUS_PER_RUNNER, configure
from dcgym.policies.learned.training import (
    ProgressCallback,
    TrainingClock,
    limit_torch_threads,
    write_note,
)
from dcgym.policies.registry import CHECKPOINT_FILE

__all__ = ["PpoPolicy", "load", "train"]

MODULE_FOLDER = "module"
ALGORITHM_FOLDER = "algorithm"
OBJECT_STORE_BYTES = 200_000_000


class PpoPolicy:
    """The trained network, without Ray: the mean action of the learned distribution."""

    name = "ppo"

    def __init__(
        self, module: Any, low: npt.NDArray[np.float32], high: npt.NDArray[np.float32]
    ) -> None:
        """Wrap a module whose outputs are actions scaled to -1..1.

        Args:
            module: The RLModule.
            low: Lower end of the action space.
            high: Upper end of the action space.
        """
        self._module = module
        self._low, self._high = low, high
        self._env: Any = None

    def env_overrides(self) -> dict[str, Any]:
        """Ask for nothing special."""
        return {}

    def bind(self, env: Any) -> PpoPolicy:
        """Check that the environment takes this policy's actions; returns the policy."""
        shape = flat_action_space(env).shape
        if shape != self._low.shape:
            raise ValueError(f"the policy acts in shape {self._low.shape}, the env in {shape}")
        self._env = env
        return self

    def act(
        self, observation: npt.NDArray[np.float32], info: dict[str, Any]
    ) -> Action | dict[str, Action]:
        """Return the mean action."""
        import torch

        with torch.no_grad():
            batch = {"obs": torch.as_tensor(observation, dtype=torch.float32)[None]}
            outputs = self._module.forward_inference(batch)["action_dist_inputs"][0]
        unit = np.clip(outputs[: self._low.size].numpy(), -1, 1).reshape(self._low.shape)
        action: Action = (self._low + (unit + 1) / 2 * (self._high - self._low)).astype(np.float32)
        return restore_action(self._env, np.clip(action, self._low, self._high))


def train(
    env_config: Mapping[str, Any],
    steps: int,
    seed: int,
    out_dir: str | Path,
    progress: ProgressCallback | None = None,
    *,
    n_envs: int = 6,
    budget_s: float | None = None,
) -> Path:
    """Train and save.

    Args:
        env_config: Arguments of `make_env`.
        steps: Environment steps, of all environments together.
        seed: Seed of the learner and of the environments.
        out_dir: Folder of the checkpoint; made if it is missing.
        progress: Called after every update.
        n_envs: Environments side by side: emulated ones in processes of their own, simulated
            ones as pools whose balancers all share the network.
        budget_s: Wall-clock seconds after which training ends early.

    Returns:
        The checkpoint folder, for `load_policy`.
    """
    check_int("n_envs", n_envs, 1)
    ray = _import_ray()
    limit_torch_threads()
    clock = TrainingClock(steps, budget_s, progress)
    folder = Path(out_dir).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    owns_ray = not ray.is_initialized()
    if owns_ray:
        ray.init(
            # As many as the runners ask for: on one core Ray would wait for ever.
            num_cpus=max(2, os.cpu_count() or 1, round(n_envs * CPUS_PER_RUNNER) + 1),
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=OBJECT_STORE_BYTES,
        )
    try:
        algorithm = _build(configure(env_config, seed, n_envs))
        try:
            _run(algorithm, clock)
        finally:
            # Also on Ctrl-C: what was learned so far is kept.
            if clock.last.steps:
                _save(algorithm, folder, seed, clock)
            algorithm.stop()
        clock.check_trained()
    finally:
        if owns_ray:
            ray.shutdown()
    return folder


def load(path: str | Path) -> PpoPolicy:
    """Load the policy of a checkpoint folder; starts no Ray."""
    _import_ray()
    limit_torch_threads()
    from ray.rllib.core.rl_module.rl_module import RLModule

    folder = Path(path).resolve()
    note = json.loads((folder / CHECKPOINT_FILE).read_text(encoding="utf-8"))
    module = RLModule.from_checkpoint(str(folder / MODULE_FOLDER))
    module.eval()  # type: ignore[attr-defined]
    low, high = (np.array(note[name], np.float32) for name in ("low", "high"))
    return PpoPolicy(module, low, high)


def _import_ray() -> Any:
    # Ray's usage report calls a server of its makers: not from a benchmark, unless asked for.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
        import torch  # noqa: F401
        from ray.rllib.algorithms.ppo import PPOConfig  # noqa: F401
    except ImportError as error:
        raise MissingDependency("ray[rllib]", "rllib") from error
    return ray


def _build(config: Any) -> Any:
    from ray.exceptions import RayError

    try:
        return config.build_algo()
    except (RayError, IndexError) as error:
        # RLlib logs why a runner ended, and then misses the first of an empty list of runners.
        raise BackendError("ppo: the environments did not start; the log says why") from error


def _run(algorithm: Any, clock: TrainingClock) -> None:
    clock.begin()
    while not clock.is_over:
        runners = algorithm.train()["env_runners"]
        length = runners.get("episode_len_mean")
        mean = runners["episode_return_mean"] / length if length else None
        clock.report(int(runners["num_env_steps_sampled_lifetime"]), mean)


def _save(algorithm: Any, folder: Path, seed: int, clock: TrainingClock) -> None:
    module = algorithm.get_module()
    module.save_to_path(str(folder / MODULE_FOLDER))
    algorithm.save_to_path(str(folder / ALGORITHM_FOLDER))
    space = module.action_space
    write_note(folder, "ppo", seed, clock.last, low=space.low.tolist(), high=space.high.tolist())
