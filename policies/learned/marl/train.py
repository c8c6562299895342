"""A training in BenchMARL, whatever the algorithm."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from benchmarl.experiment import Callback, Experiment
from benchmarl.models.gru import Gru
from tensordict import TensorDictBase
from torch import nn
from torch.optim import Optimizer

from dcgym.containers import open_archive
from dcgym.errors import ConfigError
from dcgym.policies.learned.actor_files import write_actor
from dcgym.policies.learned.export import check_finite, explain, export_actor
from dcgym.policies.learned.flat import FlatSpace, n_outputs_of
from dcgym.policies.learned.marl.network import SharedModel, acting_parts
from dcgym.policies.learned.training import TrainingClock
from dcgym.tasks.common.rows import RowLayout

__all__ = ["MarlTrainee"]

STATE_FILE = "benchmarl.pt"
SHIPPED = "shipped_bytes"
# What a transition consists of, beside the action. A critic's state is put together of these.
SEEN, EARNED = "observation", ("reward", "done", "terminated")


class MarlTrainee:
    """An experiment whose environments run."""

    def __init__(
        self, experiment: Experiment, space: FlatSpace, rows: RowLayout | None = None
    ) -> None:
        """Wrap an experiment.

        Args:
            experiment: What the library has set up.
            space: The actions of one agent of the environment.
            rows: Layout of its observations, where the library's agents are heads of one row each.
        """
        self._experiment, self._space, self._rows = experiment, space, rows
        self._is_open = True
        self._shipped_bytes = 0
        (self._group,) = experiment.group_map

    @property
    def network(self) -> SharedModel | Gru:
        """What acts."""
        policy = self._experiment.algorithm.get_policy_for_loss(self._group)
        return next(part for part in policy.modules() if isinstance(part, SharedModel | Gru))

    def learn(self, clock: TrainingClock) -> None:
        """Learn until the clock is over, and report after each batch.

        Args:
            clock: The limits.

        Raises:
            TrainingError: The network holds numbers that are not finite.
        """
        watch = _Report(clock, self._group, self.network, self._count)
        watch.experiment = self._experiment
        # Not before: the library pickles those that it is given.
        self._experiment.callbacks.append(watch)
        clock.begin()
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                self._experiment.run()
        except _Over:
            pass
        except ValueError as error:
            explain(error, [self.network])
            raise
        finally:
            # Whatever ended it, the library has closed its environments.
            self._is_open = False
            self._experiment.callbacks.remove(watch)

    def _count(self, n_bytes: int) -> None:
        self._shipped_bytes += n_bytes

    def save(self, folder: Path) -> Mapping[str, object]:
        """Save what acts.

        Args:
            folder: The checkpoint folder.

        Returns:
            What the note of the checkpoint says of its files.
        """
        parts, shipped = acting_parts(self.network), {SHIPPED: self._shipped_bytes}
        if self._rows is not None:
            actor = export_actor(parts, self._space, rows=self._rows)
            return {**write_actor(folder, actor), **shipped}
        # Distributions of the library end in a tanh, whose mode is that of their location; it
        # stands before the deviation, where there is any.
        n_outputs = n_outputs_of(self._space)
        actor = export_actor(parts, self._space, output="tanh", n_outputs=n_outputs)
        return {**write_actor(folder, actor), **shipped}

    def save_state(self, folder: Path, is_last: bool) -> None:
        """Save networks and optimisers.

        Args:
            folder: A folder for it, which is empty.
            is_last: Not looked at: the replay buffer is filled again.
        """
        states = {name: part.state_dict() for name, part in self._parts().items()}
        torch.save(states, folder / STATE_FILE)

    def restore(self, folder: Path) -> None:
        """Go on from networks and optimisers.

        Args:
            folder: The state.

        Raises:
            ConfigError: It is of other networks, or damaged.
        """
        try:
            with open_archive(folder / STATE_FILE, "resume") as file:
                content = torch.load(file, weights_only=True)
            for name, part in self._parts().items():
                part.load_state_dict(content[name])
        except ConfigError:
            raise
        except Exception as error:
            # Whatever torch's reader raises for what is no state of ours.
            reason = " ".join(str(error).split())[:80]
            allowed = f"a state of the same algorithm and network ({reason})"
            raise ConfigError("resume", str(folder), allowed) from error

    def close(self) -> None:
        """End the environments, where the library has not."""
        if self._is_open:
            self._is_open = False
            with contextlib.redirect_stdout(io.StringIO()):
                self._experiment.close()

    def _parts(self) -> dict[str, nn.Module | Optimizer]:
        """Return the loss and each optimiser."""
        group = self._group
        parts = {"loss": self._experiment.losses[group]}
        for name, one in self._experiment.optimizers[group].items():
            parts[f"optimizer {name}"] = one
        return parts


class _Over(Exception):
    """The clock is over; the library has no other way to be told."""


class _Report(Callback):
    """Reports progress, and ends the training when its time is over."""

    def __init__(
        self,
        clock: TrainingClock,
        group: str,
        network: SharedModel | Gru,
        count: Callable[[int], None],
    ) -> None:
        super().__init__()
        self._count = count
        self._clock, self._group, self._network = clock, group, network
        self._steps, self._mean = clock.last.steps, 0.0

    def on_batch_collected(self, batch: TensorDictBase) -> None:
        """Count steps, and what they earned.

        Args:
            batch: Steps of all copies and agents.
        """
        self._steps += int(batch.numel())
        self._count(_bytes_of(batch, self._group))
        self._mean = float(batch.get(("next", self._group, "reward")).mean())

    def on_train_end(self, training_td: TensorDictBase, group: str) -> None:
        """Report what was learned from.

        Args:
            training_td: Losses.
            group: The agents.

        Raises:
            TrainingError: The network holds numbers that are not finite.
        """
        check_finite([self._network])
        self._clock.report(self._steps, self._mean)
        if self._clock.is_over:
            raise _Over


def _bytes_of(batch: TensorDictBase, group: str) -> int:
    """Return the bytes of a batch's transitions, which agents ship to where they are learned from.

    Args:
        batch: Steps of all copies and agents.
        group: The agents.
    """
    keys = [(group, SEEN), ("next", group, SEEN), (group, "action")]
    keys += [("next", group, name) for name in EARNED]
    parts = [batch.get(key) for key in keys]
    return sum(part.numel() * part.element_size() for part in parts)
