"""Hyper-parameters of PPO in RLlib, for emulated environments and for simulated ones.

An emulated environment mostly waits for real time to pass: a runner process for each, which asks
for a tenth of a core, and step sizes meant for about ten thousand steps (the thesis' batch of 1000
steps and step size of 1e-5 need a million). Simulated pools step together in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcgym.policies.learned.training import build_running_env, build_shared_env, is_simulated

__all__ = ["CPUS_PER_RUNNER", "configure"]

CPUS_PER_RUNNER = 0.1
STEPS_PER_RUNNER = 64
STEPS_PER_SLOT = 60
EMULATED_NAME = "dcgym_emulated"
SIMULATED_NAME = "dcgym_simulated"


def configure(env_config: Mapping[str, Any], seed: int, n_envs: int) -> Any:
    """Return RLlib's configuration for an environment.

    Args:
        env_config: Arguments of `make_env`.
        seed: Seed of the learner and of the environments.
        n_envs: Environments side by side.
    """
    from ray.rllib.algorithms.ppo import PPOConfig

    base = PPOConfig().framework("torch").learners(num_learners=0)  # type: ignore[no-untyped-call]
    base = base.debugging(seed=seed, log_level="ERROR")
    if is_simulated(env_config):
        return _simulated(base, env_config, n_envs)
    return _emulated(base, env_config, n_envs)


def _emulated(base: Any, env_config: Mapping[str, Any], n_envs: int) -> Any:
    from ray.tune.registry import register_env

    register_env(EMULATED_NAME, build_running_env)
    return (
        base.environment(EMULATED_NAME, env_config=dict(env_config))
        .env_runners(
            num_env_runners=n_envs,
            num_cpus_per_env_runner=CPUS_PER_RUNNER,
            rollout_fragment_length=STEPS_PER_RUNNER,
            create_local_env_runner=True,
            create_env_on_local_worker=False,
            sample_timeout_s=120,
        )
        .training(
            **_COMMON,
            lr=1e-3,
            gamma=0.9,
            lambda_=0.9,
            train_batch_size_per_learner=STEPS_PER_RUNNER * n_envs,
            minibatch_size=64,
            num_epochs=10,
        )
        .rl_module(**_module("NarrowModule"))
    )


def _simulated(base: Any, env_config: Mapping[str, Any], n_pools: int) -> Any:
    from ray.tune.registry import register_env

    # Here and not in the runner: RLlib asks for as many slots as it was told.
    envs = build_shared_env(env_config, n_pools)
    register_env(SIMULATED_NAME, lambda _: envs)
    return (
        base.environment(SIMULATED_NAME, disable_env_checking=True)
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=envs.num_envs,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=STEPS_PER_SLOT,
        )
        .training(
            **_COMMON,
            lr=1e-3,
            gamma=0.98,
            lambda_=0.95,
            train_batch_size_per_learner=STEPS_PER_SLOT * envs.num_envs,
            minibatch_size=min(512, STEPS_PER_SLOT * envs.num_envs),
            num_epochs=6,
        )
        .rl_module(**_module("ServerModule"))
    )


_COMMON: dict[str, Any] = {
    "clip_param": 0.2,
    "use_kl_loss": False,
    "vf_loss_coeff": 0.5,
    "vf_clip_param": 100.0,
    "entropy_coeff": 0.0,
    "grad_clip": 0.5,
}


def _module(name: str) -> dict[str, Any]:
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    from dcgym.policies.learned.rllib import module as rllib_module

    model = DefaultModelConfig(
        fcnet_hiddens=[64, 64],
        fcnet_activation="tanh",
        vf_share_layers=False,
        free_log_std=True,
    )
    return {
        "rl_module_spec": RLModuleSpec(module_class=getattr(rllib_module, name)),
        "model_config": model,
    }
