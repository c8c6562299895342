"""Policies that weigh the devices of servers with accelerators."""

from dcgym.policies.accelerators.p4wise import P4WisePolicy, QTable, train_p4wise
from dcgym.policies.accelerators.static import (
    BestWeightsPolicy,
    DeviceRulePolicy,
    RandomLevelPolicy,
    ThresholdPolicy,
)
from dcgym.policies.accelerators.supervised import MlpPolicy, Perceptron, gather_samples

__all__ = [
    "BestWeightsPolicy",
    "DeviceRulePolicy",
    "MlpPolicy",
    "P4WisePolicy",
    "Perceptron",
    "QTable",
    "RandomLevelPolicy",
    "ThresholdPolicy",
    "gather_samples",
    "train_p4wise",
]
