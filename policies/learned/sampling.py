"""How observations are spread: what random actions see before a training begins.

The scale is measured once and then stays. One that moves with the training would differ between
the processes of the environments, and change the meaning of what was learned.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from dcgym.policies.learned.copies import build_copies
from dcgym.policies.learned.environments import TrainingForm
from dcgym.policies.learned.view import View
from dcgym.policies.learners import EnvConfig

__all__ = ["measured_view"]

SAMPLES = 4_000
# In real time, 200 intervals are 20 s at most defaults.
MOST_STEPS = 200


def measured_view(config: EnvConfig, form: TrainingForm, view: View, seed: int) -> View:
    """Return a view that scales by what random actions see.

    Args:
        config: Arguments of `make_env`.
        form: How many copies are stepped, and how.
        view: What does not scale yet.
        seed: Seed of the actions and of the environments.
    """
    n_copies = min(form.n_copies, 4)
    few = replace(form, n_copies=n_copies, n_slots=form.n_slots // form.n_copies * n_copies)
    with contextlib.closing(build_copies(config, few)) as envs:
        envs.action_space.seed(seed)
        first, _ = envs.reset(seed=seed)
        samples = [np.asarray(first, np.float32)]
        n_steps = min(MOST_STEPS, -(-SAMPLES // few.n_slots))
        for _ in range(n_steps):
            samples.append(np.asarray(envs.step(envs.action_space.sample())[0], np.float32))
    return view.measured(np.concatenate(samples))
