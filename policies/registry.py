"""Policies by name, and learned ones from their checkpoints."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dcgym.config import check_in, check_keys
from dcgym.errors import ConfigError, suggest
from dcgym.policies.base import Policy
from dcgym.policies.classic import (
    FairSharePolicy,
    FixedSharePolicy,
    RandomPolicy,
    TransportPolicy,
)

__all__ = ["CHECKPOINT_FILE", "LEARNERS", "POLICIES", "load_policy", "make_policy"]

CHECKPOINT_FILE = "dcgym_policy.json"
LEARNERS = {"ppo": "dcgym.policies.rllib_ppo", "ddpg": "dcgym.policies.sb3_ddpg"}
"""Names that need `train` first, and the module that trains and loads them."""


def _transport(name: str, marking: bool = False) -> Callable[[], Policy]:
    return lambda: TransportPolicy(name, name, marking)


POLICIES: dict[str, Callable[..., Policy]] = {
    "cubic": _transport("cubic"),
    "reno": _transport("reno"),
    "bbr": _transport("bbr"),
    "dctcp": _transport("dctcp", marking=True),
    "new-vegas": _transport("new-vegas"),
    "fixed-share": FixedSharePolicy,
    "fair-share": FairSharePolicy,
    "random": RandomPolicy,
}


def make_policy(name: str, env: Any = None, *, seed: int = 0, **params: Any) -> Policy:
    """Make a policy.

    Args:
        name: One of `POLICIES`.
        env: The environment to act in, if it exists already; otherwise call `bind` later.
        seed: Seed of policies that draw.
        **params: Parameters of the policy, such as `share` of fixed-share.

    Raises:
        ConfigError: Unknown name or parameter, or a learned policy without its checkpoint.
    """
    if name in LEARNERS:
        raise ConfigError("policy", name, "a classic policy; load a trained one with load_policy")
    if name not in POLICIES:
        known = [*POLICIES, *LEARNERS]
        raise ConfigError("policy", name, known, suggest(name, known))
    allowed = inspect.signature(POLICIES[name]).parameters
    check_keys(params, [key for key in allowed if key != "seed"], f"policy {name}")
    if "seed" in allowed:
        params["seed"] = seed
    policy = POLICIES[name](**params)
    return policy.bind(env) if env is not None else policy


def load_policy(path: str | Path, env: Any = None) -> Policy:
    """Load a learned policy from the checkpoint folder that its `train` returned."""
    note = Path(path) / CHECKPOINT_FILE
    try:
        name = json.loads(note.read_text(encoding="utf-8"))["name"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError("checkpoint", str(path), f"a folder with {CHECKPOINT_FILE}") from error
    check_in("checkpoint", name, LEARNERS)
    import importlib

    policy: Policy = importlib.import_module(LEARNERS[name]).load(path)
    return policy.bind(env) if env is not None else policy
