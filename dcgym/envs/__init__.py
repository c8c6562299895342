"""The environments; `gymnasium.make("dcgym/CongestionControl-v0")` finds them by name."""

from dcgym.envs.congestion_control import CongestionControlEnv
from dcgym.envs.joint import JointEnv
from dcgym.envs.path_balancing import PathBalancingEnv

__all__ = ["CongestionControlEnv", "JointEnv", "PathBalancingEnv"]
