"""Search hyper-parameters with Optuna: python search.py [TRIALS] [STEPS]; pip install optuna."""

import sys
import tempfile
from pathlib import Path

import optuna

from dcgym import evaluate
from dcgym.policies import TrainingOptions, find_learner

TRIALS = int(sys.argv[1]) if len(sys.argv) > 1 else 20
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7"}


def mean_completion_s(trial: optuna.Trial) -> float:
    """Train with what the trial suggests, and score on seeds that no training has."""
    settings = {
        "sigma": trial.suggest_float("sigma", 0.05, 1.0, log=True),
        "population": trial.suggest_int("population", 4, 16),
    }
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingOptions(settings=settings)
        find_learner("cma-es").train(POOL, STEPS, trial.number, folder, options=options)
        found = evaluate(POOL, Path(folder), seeds=range(1000, 1003), seconds=30.0)
    return found.mean("fct_us_mean") / 1e6


study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
study.optimize(mean_completion_s, n_trials=TRIALS)
print(study.best_params, f"{study.best_value:.3f} s")
