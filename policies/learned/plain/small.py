"""A small policy, whose weights all rows of an observation share where there are any."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from dcgym.policies.learned.actor import Actor, Linear
from dcgym.policies.learned.cloning import Demonstrations
from dcgym.policies.learned.flat import FlatSpace, action_bounds
from dcgym.policies.learned.view import View
from dcgym.tasks.common.rows import row_inputs, rows_of

__all__ = ["SmallPolicy"]

Floats = npt.NDArray[np.float64]


class SmallPolicy:
    """From what is shown to actions; of rows without constants, so that any number of them will do.

    It is linear, or has one hidden layer with tanh.

    Attributes:
        size: Number of parameters.
    """

    def __init__(self, view: View, space: FlatSpace, hidden: int = 0) -> None:
        """Find out how many parameters there are.

        Args:
            view: How observations are shown.
            space: The actions.
            hidden: Units of the hidden layer; 0 for a linear policy.
        """
        self._view, self._space, self._rows = view, space, view.shown_rows
        low, _, self._choices = action_bounds(space)
        n_outputs = sum(self._choices) if self._choices else low.size
        n_inputs = view.shown_size
        if self._rows is not None:
            n_outputs //= self._rows.n_rows
            n_inputs = row_inputs(self._rows)
        widths = [n_inputs, hidden, n_outputs] if hidden else [n_inputs, n_outputs]
        # Each layer's weights, and a bias.
        self._shapes = [(to, of + 1) for of, to in itertools.pairwise(widths)]
        self.size = sum(to * of for to, of in self._shapes)

    def act(self, parameters: Floats, shown: npt.NDArray[np.float32]) -> npt.NDArray[np.generic]:
        """Return an action for each slot: from -1 to 1, or choices.

        Args:
            parameters: Those of each slot, (S, size).
            shown: What each slot's policy is shown, (S, n).
        """
        values: npt.NDArray[np.floating] = shown[:, None, :]
        if self._rows is not None:
            values = rows_of(shown, self._rows)
        for number, weights in enumerate(self._layers(parameters)):
            values = np.tanh(values) if number else values
            values = np.einsum("snc,soc->sno", values, weights[:, :, :-1]) + weights[:, None, :, -1]
        flat = values.reshape(len(shown), -1)
        if not self._choices:
            bounded: npt.NDArray[np.float32] = np.clip(flat, -1, 1).astype(np.float32)
            return bounded.reshape(-1, *(self._space.shape or ()))
        parts = np.split(flat, np.cumsum(self._choices)[:-1], axis=1)
        chosen = np.stack([part.argmax(axis=1) for part in parts], axis=1)
        return chosen.reshape(-1, *(self._space.shape or ()))

    def fitted(self, shown_to: Demonstrations, seed: int) -> Floats:
        """Return the parameters that come closest to what a policy did, by least squares.

        Args:
            shown_to: What the policy did.
            seed: Seed of the hidden layer, which is drawn.
        """
        shown = shown_to.shown
        values: npt.NDArray[np.floating] = shown[:, None, :]
        if self._rows is not None:
            values = rows_of(shown, self._rows)
        *hidden, (n_outputs, n_inputs) = self._shapes
        made = []
        for shape in hidden:
            weights = np.random.default_rng(seed).normal(0, 1 / np.sqrt(shape[1]), shape)
            values = np.tanh(values @ weights[:, :-1].T + weights[:, -1])
            made.append(weights.ravel())
        n_rows = values.shape[1]
        seen = np.concatenate([values, np.ones((*values.shape[:-1], 1))], axis=-1)
        wanted = shown_to.actions.reshape(len(shown) * n_rows, n_outputs)
        counts = ~np.isnan(wanted).any(axis=1)
        solved = np.linalg.lstsq(seen.reshape(-1, n_inputs)[counts], wanted[counts], rcond=None)
        return np.concatenate([*made, solved[0].T.ravel()])

    def actor(self, parameters: Floats) -> Actor:
        """Return the policy as a checkpoint holds it.

        Args:
            parameters: Its parameters, (size,).
        """
        layers = [one[0].astype(np.float32) for one in self._layers(parameters[None])]
        low, high, choices = action_bounds(self._space)
        return Actor(
            tuple(Linear(one[:, :-1].copy(), one[:, -1].copy()) for one in layers),
            "tanh" if len(layers) > 1 else "none",
            "none",
            low,
            high,
            self._rows,
            choices=choices,
            view=self._view,
        )

    def _layers(self, parameters: Floats) -> list[Floats]:
        """Return the weights of each layer, with its biases in the last column."""
        sizes = [to * of for to, of in self._shapes]
        parts = np.split(parameters, np.cumsum(sizes)[:-1], axis=-1)
        return [part.reshape(-1, *shape) for part, shape in zip(parts, self._shapes, strict=True)]
