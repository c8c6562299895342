"""Environments with several agents as tasks of BenchMARL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dcgym.envs.factory import default_of, env_id_of, parallel_env
from dcgym.errors import MissingDependency

try:
    from benchmarl.environments.pettingzoo.common import PettingZooClass
    from torchrl.envs import PettingZooWrapper
except ImportError as error:
    raise MissingDependency("benchmarl", "marl") from error

__all__ = ["DcgymClass", "benchmarl_task"]


class DcgymClass(PettingZooClass):  # type: ignore[misc]
    """A task of BenchMARL; `benchmarl_task` makes it."""

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], Any]:
        """Return what makes the environment of one worker.

        Args:
            num_envs: Ignored: copies are made by calling the result several times.
            continuous_actions: Whether the algorithm wants them.
            seed: Seed of the first episode.
            device: Where tensors are.
        """
        chosen = dict(self.config)
        if self._has_both:
            chosen["action"] = "continuous" if continuous_actions else "discrete"
        return lambda: PettingZooWrapper(
            parallel_env(chosen),
            return_state=True,
            categorical_actions=True,
            seed=seed,
            device=device,
        )

    def supports_continuous_actions(self) -> bool:
        """Tell whether the configuration leaves them."""
        return self._has_both or self._action != "discrete"

    def supports_discrete_actions(self) -> bool:
        """Tell whether the configuration leaves them."""
        return self._has_both or self._action == "discrete"

    @property
    def _action(self) -> object:
        default = default_of(env_id_of(self.config), "action")
        return self.config.get("action", default)

    @property
    def _has_both(self) -> bool:
        """Whether the algorithm may choose: "continuous" is the default and nobody said more."""
        return "action" not in self.config and self._action == "continuous"

    def has_state(self) -> bool:
        """Tell that there is a state for centralised critics."""
        return True

    def has_render(self, env: Any) -> bool:
        """Tell whether pictures were asked for."""
        return self.config.get("render_mode") is not None

    def max_steps(self, env: Any) -> int:
        """Return the steps of an episode."""
        limit = env.settings.max_steps
        return 1_000_000 if limit is None else int(limit)

    @staticmethod
    def env_name() -> str:
        """Return the name of the family in results."""
        return "dcgym"


def benchmarl_task(env: str, **arguments: Any) -> DcgymClass:
    """Return a task for BenchMARL's `Experiment`.

    Args:
        env: Id of an environment with several agents; "dcgym/" may be left out.
        **arguments: Its arguments.

    Raises:
        ConfigError: Unknown name, field or value that is not allowed.
    """
    config = {"env": env, **arguments}
    # What is wrong must fail here, not in BenchMARL.
    made = parallel_env(config)
    made.close()
    return DcgymClass(name=str(made.metadata["name"]), config=config)
