"""Environments with several agents as tasks of BenchMARL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from multiprocessing import current_process

import gymnasium as gym

from dcgym.envs.factory import default_of, env_id_of, parallel_env
from dcgym.envs.heads import HeadsEnv
from dcgym.envs.parallel import TaskParallelEnv
from dcgym.errors import ConfigError, MissingDependency

try:
    from benchmarl.environments.pettingzoo.common import PettingZooClass
    from torchrl.envs import PettingZooWrapper
except ImportError as error:
    raise MissingDependency("benchmarl", "marl") from error

__all__ = ["DcgymClass", "benchmarl_task"]

ENDLESS_STEPS = 1_000_000


class DcgymClass(PettingZooClass):
    """A task of BenchMARL; `benchmarl_task` makes it.

    Where nobody names an ``action``, the algorithm gets the kind that it takes. An agent that would
    choose several levels at a time is one head for each of them (`dcgym.envs.heads`).
    """

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: object
    ) -> Callable[[], PettingZooWrapper]:
        """Return what makes the environment of one worker.

        Args:
            num_envs: Number of copies. Each is made by a call of the result.
            continuous_actions: Whether the algorithm wants them.
            seed: Seed of the first episode of one copy; others have the seeds behind it.
            device: Where tensors are.

        Raises:
            ConfigError: There are no actions of this kind.
        """
        config = self._config(continuous_actions)
        if config is None:
            raise ConfigError("continuous_actions", continuous_actions, str(not continuous_actions))
        number, depth = -1, len(current_process()._identity)

        def make() -> PettingZooWrapper:
            nonlocal number
            number += 1
            env = _choosing_once(config)
            # Copies with one seed would meet the same traffic. Worker processes count from 0 each.
            own = (number + sum(current_process()._identity[depth:])) % num_envs
            return PettingZooWrapper(
                env,
                return_state=True,
                categorical_actions=True,
                group_map={_group_name(env.possible_agents): list(env.possible_agents)},
                seed=None if seed is None else seed + own,
                device=device,
            )

        return make

    def supports_continuous_actions(self) -> bool:
        """Tell whether the configuration leaves them."""
        return self._config(True) is not None

    def supports_discrete_actions(self) -> bool:
        """Tell whether the configuration leaves them."""
        return self._config(False) is not None

    def has_state(self) -> bool:
        """Tell that there is a state for centralised critics."""
        return True

    def has_render(self, env: PettingZooWrapper) -> bool:
        """Tell whether pictures were asked for."""
        return self.config.get("render_mode") is not None

    def max_steps(self, env: PettingZooWrapper) -> int:
        """Return the steps of an episode that is evaluated.

        Args:
            env: The environment. Where its episodes have no end, the default of its id holds.
        """
        limit = env.settings.max_steps
        if limit is None:
            limit = default_of(env_id_of(self.config), "max_steps")
        return ENDLESS_STEPS if limit is None else int(limit)

    @staticmethod
    def env_name() -> str:
        """Return the name of the family in results."""
        return "dcgym"

    def _config(self, is_continuous: bool) -> Mapping[str, object] | None:
        """Return the configuration whose actions are of a kind, None where there is none."""
        if _is_continuous(self.config) == is_continuous:
            return dict(self.config)
        if "action" in self.config:
            return None
        other = {**self.config, "action": "continuous" if is_continuous else "discrete"}
        try:
            return other if _is_continuous(other) == is_continuous else None
        except ConfigError:
            return None


def benchmarl_task(env: str, **arguments: object) -> DcgymClass:
    """Return a task for BenchMARL's `Experiment`.

    Args:
        env: Id of an environment with several agents; "dcgym/" may be left out.
        **arguments: Its arguments; ``info`` is "flat" or "none".

    Raises:
        ConfigError: Unknown name, field or value that is not allowed.
    """
    config = {"env": env, **arguments}
    if arguments.get("info") == "full":
        raise ConfigError("info", "full", "flat or none: BenchMARL stores infos as tensors")
    # What is wrong must fail here, not in BenchMARL.
    made = _choosing_once(config)
    made.close()
    return DcgymClass(name=env_id_of(config).rpartition("/")[2], config=config)


def _choosing_once(config: Mapping[str, object]) -> TaskParallelEnv | HeadsEnv:
    """Return an environment whose agents choose one thing each, or numbers.

    Raises:
        ConfigError: An argument is not allowed, or actions are of no kind that BenchMARL takes.
    """
    env = parallel_env(config)
    space = env.action_space(env.possible_agents[0])
    if isinstance(space, gym.spaces.MultiDiscrete):
        return HeadsEnv(env)
    if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
        raise ConfigError("action", str(space), "numbers, a choice, or a choice for each row")
    return env


def _is_continuous(config: Mapping[str, object]) -> bool:
    made = _choosing_once(config)
    made.close()
    return isinstance(made.action_space(made.possible_agents[0]), gym.spaces.Box)


def _group_name(agents: list[str]) -> str:
    """Return the agents' name without numbers: all are alike, and share one network."""
    names = {agent.rstrip("_0123456789") for agent in agents}
    return (names.pop() if len(names) == 1 else "") or "agents"
