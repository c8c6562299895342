"""The environments; `gymnasium.make("dcgym/CongestionControl-v0")` finds them by name."""

from dcgym.envs.congestion_control import CongestionControlEnv

__all__ = ["CongestionControlEnv"]
