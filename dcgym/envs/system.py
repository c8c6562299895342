"""A task on its backend, as faces and suites see it: E copies, A agents in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from dcgym.backends.base import Backend, Lifecycle
from dcgym.backends.records import FIDELITY, Fidelity, Record
from dcgym.envs.bindings.base import AnyBinding, Timed
from dcgym.envs.values import (
    Actions,
    Caption,
    FloatArray,
    Info,
    Mask,
    Picture,
    Rows,
    Stacked,
    TimeArray,
    Told,
)

__all__ = ["System", "masks_of"]


class System:
    """Any task on any backend; `Session` says when it is asked for what.

    It begins, runs and reads the backend. What commands and states mean, its binding says.

    Args:
        binding: The task on the protocol of its backend.

    Attributes:
        binding: The same.
        agents: Names of the A agents, the same in each copy.
        action_space: Space of one agent's action.
        observation_space: Space of one agent's observation.
        observation_labels: Name of each position of an observation.
        state_labels: Name of each position of `state`.
        options: Names of the options that `begin` takes.
        capabilities: What the backend can do.
        observations: What the agents see, (E, A, n); a new array at each measurement.
        terms: Each reward term times its weight, (E, A).
        read_ns: When the present state was read, on the backend's clock, (E,).
        seeds: The seed of each copy's episode, (E,).
        is_measured_at_once: Whether a new episode has an observation before its first interval.
        has_whole_steps: Whether `whole_step` does all that a step has to.

    Raises:
        ConfigError: There is no such backend, or it cannot do what the task asks for.
    """

    def __init__(self, binding: AnyBinding) -> None:
        self.binding, self.n_envs = binding, binding.n_envs
        self.interval_ns, self.agents = binding.interval_ns, binding.agents
        # Unknown names and options must fail here, not in the first episode.
        binding.backend = binding.make()
        self.capabilities = binding.backend.capabilities
        self.options = binding.task().options
        self.action_space = binding.action_space
        self.observation_space = binding.observation_space
        self.observation_labels = binding.observation_labels
        self.state_labels = binding.state_labels
        self.is_measured_at_once = binding.is_measured_at_once
        self.has_whole_steps = binding.has_whole_steps
        shape = self.n_envs, len(self.agents)
        self.observations = np.zeros((*shape, *self.observation_space.shape), np.float32)
        self.terms: Mapping[str, FloatArray] = {
            name: np.zeros(shape) for name in binding.term_names
        }
        self.read_ns = np.zeros(self.n_envs, np.int64)
        self.seeds = np.zeros(self.n_envs, np.uint64)

    @property
    def backend(self) -> Lifecycle | None:
        """The backend; None where it has been closed or has failed."""
        return self.binding.backend

    @property
    def running(self) -> Backend[NoReturn, NoReturn, Timed]:
        """The backend of running episodes.

        Raises:
            BackendError: There is none.
        """
        return self.binding.running

    def task(self, env: int = 0) -> Any:
        """Return the task of a copy, as policies see it."""
        return self.binding.task(env)

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode."""
        return self.binding.task().draw_seed(generator)

    def begin(self, seeds: Sequence[int | None], options: Mapping[str, object]) -> None:
        """Begin an episode in each copy that has a seed; None leaves a copy as it is."""
        binding = self.binding
        if binding.paths == "shared":
            first = next((seed for seed in seeds if seed is not None), None)
            seeds = [None if seed is None else first for seed in seeds]
        episodes = binding.episodes(seeds, options)
        if binding.backend is None:
            binding.backend = binding.make()
        mask = np.array([seed is not None for seed in seeds])
        # A new array: a copy of the system may hold the last one.
        self.seeds = self.seeds.copy()
        self.seeds[mask] = np.array([seed for seed in seeds if seed is not None], np.uint64)
        backend, opened_ns = binding.backend, 0
        backend.reset(episodes)
        for commands, passed_ns in binding.opening():
            backend.apply(commands, mask)
            if passed_ns:
                opened_ns += passed_ns
                backend.advance(np.where(mask, opened_ns, 0))
        state = backend.read(mask)
        seen = binding.begin(state, mask)
        # Not the time that real clocks show by now, where the first interval is yet to pass.
        begun_ns = opened_ns if seen is None else state.time_ns
        self.read_ns = np.where(mask, begun_ns, self.read_ns)
        if seen is not None:
            self.observations, self.terms = seen

    def bound(self, max_steps: int | None) -> None:
        """Give the following episodes so many steps, where what is drawn depends on that.

        Args:
            max_steps: The number; None for no limit.
        """
        if self.binding.bound(max_steps):
            self.close()

    def act(self, actions: Actions | None, fresh: Mask) -> TimeArray:
        """Put actions in force; fresh copies keep what an episode begins with.

        Args:
            actions: An action for each copy and agent; None changes nothing.
            fresh: Copies that have just begun, shape (E,).

        Returns:
            When they were in force, on the backend's clock, shape (E,).

        Raises:
            ConfigError: An action is not one of the action space; nothing is changed then.
        """
        # Counted, which NumPy does in a quarter of the time of any() and all().
        n_fresh = np.count_nonzero(fresh)
        if actions is None or n_fresh == self.n_envs:
            return self.now_ns()
        binding = self.binding
        commands = binding.decode(actions, fresh)
        acted_ns = binding.running.apply(commands, ~fresh if n_fresh else None)
        if binding.longest_step_ns:
            binding.running.advance(np.where(fresh, 0, acted_ns + binding.longest_step_ns))
        return acted_ns

    def whole_step(self, actions: Actions, until_ns: TimeArray) -> Mask:
        """Act, run, and measure all copies, none of which has just begun or is late.

        Args:
            actions: An action for each copy and agent.
            until_ns: When the interval of each copy ends, (E,).

        Returns:
            What `finished` returns thereafter, (E,).

        Raises:
            ConfigError: An action is not one of the action space; nothing is changed then.
        """
        self.read_ns, (self.observations, self.terms) = self.binding.whole_step(actions, until_ns)
        return self.binding.finished()

    def restart(self, mask: Mask) -> None:
        """Begin the present interval anew in some copies, (E,), and read when: `read_ns`.

        Their action came late, or after a picture; what happened before belongs to no interval.
        """
        state = self.running.read(mask)
        self.binding.restart(state, mask)
        self.read_ns = np.where(mask, state.time_ns, self.read_ns)

    def advance(self, until_ns: TimeArray) -> TimeArray:
        """Run each copy until its time, (E,); returns by how much each was missed, (E,)."""
        binding = self.binding
        backend = binding.running
        if binding.settle_ns:
            moves = until_ns > backend.apply(binding.nothing)
            settled_ns = until_ns - self.interval_ns + binding.settle_ns
            backend.advance(np.where(moves, settled_ns, 0))
            binding.restart(backend.read(moves), moves)
        return backend.advance(until_ns)

    def now_ns(self) -> TimeArray:
        """Return the time of each copy, (E,)."""
        return self.running.apply(self.binding.nothing)

    def measure(self, mask: Mask) -> None:
        """Read the state of some copies, (E,), and work out what the interval led to."""
        asked = None if np.count_nonzero(mask) == self.n_envs else mask
        state = self.running.read(asked)
        self.observations, self.terms = self.binding.observe(state, asked)
        read_ns = state.time_ns
        self.read_ns = read_ns if asked is None else np.where(mask, read_ns, self.read_ns)

    def finish(self, mask: Mask) -> None:
        """Do what the settings ask for at the end of episodes, of the copies in the mask, (E,)."""
        self.binding.finish(mask)

    def finished(self) -> Mask:
        """Tell in which copies nothing is left to do, (E,)."""
        return self.binding.finished()

    def metrics(self) -> Mapping[str, FloatArray]:
        """Return the metrics of the interval, one number a copy, each of shape (E,)."""
        return self.binding.metrics()

    def told(self) -> Told:
        """Return what agents are told beside rewards and metrics, (E, A, ...) each."""
        return self.binding.told()

    def info(self, env: int, agent: int) -> Info:
        """Return what an agent is told beside its observation."""
        return {
            "reward_terms": {name: term.item(env, agent) for name, term in self.terms.items()},
            "metrics": self.binding.metrics_of(env),
            **self.binding.told_to(env, agent),
        }

    def infos(self) -> Stacked:
        """Return what `info` says of every copy and agent, as arrays of shape (E, A, ...)."""
        metrics = {name: values[:, None] for name, values in self.metrics().items()}
        if (n_agents := len(self.agents)) > 1:
            metrics = {name: values.repeat(n_agents, axis=1) for name, values in metrics.items()}
        return {"reward_terms": dict(self.terms), "metrics": metrics, **self.told()}

    def state(self, env: int) -> FloatArray:
        """Return what a critic of all agents of a copy may see, from -1 to 1, shape (S,)."""
        return self.binding.state(env, self.observations[env])

    @property
    def masks(self) -> Callable[[], Mask] | None:
        """What returns which actions are feasible now, (E, A, n); None where all are always."""
        return self.binding.masks

    def flow_records(self, env: int) -> Rows:
        """Return and forget the flows of a copy that have ended, as many as the backend keeps.

        Times count from the first observation.
        """
        return self.binding.flow_records(env)

    def under_way(self, env: int) -> Rows:
        """Return the flows of a copy that have not ended, as `flow_records` does the others.

        Raises:
            ConfigError: The backend does not record them.
        """
        return self.binding.under_way(env)

    def event_records(self, env: int) -> list[Record]:
        """Return the events that have taken effect in a copy's episode."""
        return self.binding.event_records(env)

    def fidelity(self, env: int) -> Fidelity:
        """Say how far the episode of a copy can be believed."""
        return self.running.records(FIDELITY, env)

    def render(self, env: int, caption: Caption) -> Picture | None:
        """Return a picture of what a copy's last interval led to; None before the first episode.

        It is drawn from what was read at the end of the interval: the backend is not asked.
        """
        return self.binding.render(env, caption)

    def close(self) -> None:
        """End the backend; the next `begin` makes a new one."""
        backend, self.binding.backend = self.binding.backend, None
        self.binding.forget()
        if backend is not None:
            backend.close()


def masks_of(system: System) -> Callable[[], Mask]:
    """Return what tells which actions of a system are feasible, (E, A, n).

    Args:
        system: The task on its backend.

    Raises:
        AttributeError: All its actions are feasible at any time, and there are no masks.
    """
    if (masks := system.masks) is None:
        raise AttributeError("no attribute 'action_masks': all actions are feasible at any time")
    return masks
