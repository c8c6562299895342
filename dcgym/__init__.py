"""dcgym: Gymnasium environments for data-centre traffic control.

Importing this package registers the environment ids and nothing more: no emulator, no learning
library and no shared object is loaded before something asks for it.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
from typing import TYPE_CHECKING, Any

from dcgym._version import __version__

if TYPE_CHECKING:
    from dcgym.envs.factory import make_env, make_vec_env, parallel_env
    from dcgym.envs.registration import register_envs
    from dcgym.policies import make_policy
    from dcgym.suites.evaluate import compare, evaluate
    from dcgym.topologies import make_topology
    from dcgym.traffic import make_plan

__all__ = [
    "__version__",
    "compare",
    "evaluate",
    "make_env",
    "make_plan",
    "make_policy",
    "make_topology",
    "make_vec_env",
    "parallel_env",
    "register_envs",
]

_LAZY = {
    "compare": "dcgym.suites.evaluate",
    "evaluate": "dcgym.suites.evaluate",
    "make_env": "dcgym.envs.factory",
    "make_plan": "dcgym.traffic",
    "make_policy": "dcgym.policies",
    "make_topology": "dcgym.topologies",
    "make_vec_env": "dcgym.envs.factory",
    "parallel_env": "dcgym.envs.factory",
    "register_envs": "dcgym.envs.registration",
}


def __getattr__(name: str) -> Any:
    """Load a factory or a package on first use, which keeps ``import dcgym`` cheap."""
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name.startswith("_") or importlib.util.find_spec(f"dcgym.{name}") is None:
        raise AttributeError(f"module 'dcgym' has no attribute {name!r}")
    return importlib.import_module(f"dcgym.{name}")


def __dir__() -> list[str]:
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted({*__all__, *(name for name in found if not name.startswith("_"))})


# The emulator's processes make no environments, and start a quarter faster without Gymnasium.
if "dcgym_emulator" not in sys._xoptions:
    __getattr__("register_envs")()
