"""dcgym: Gymnasium environments for data-centre traffic control.

Importing this package registers the environment ids and nothing more: no emulator, no learning
library and no shared object is loaded before something asks for it.
"""

from __future__ import annotations

import importlib
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
_MODULES = {
    "backends": "dcgym.backends",
    "cli": "dcgym.cli",
    "config": "dcgym.config",
    "containers": "dcgym.containers",
    "defaults": "dcgym.defaults",
    "envs": "dcgym.envs",
    "errors": "dcgym.errors",
    "files": "dcgym.files",
    "json_text": "dcgym.json_text",
    "monitors": "dcgym.monitors",
    "native": "dcgym.native",
    "policies": "dcgym.policies",
    "places": "dcgym.places",
    "processes": "dcgym.processes",
    "reading": "dcgym.reading",
    "registry": "dcgym.registry",
    "sndlib": "dcgym.sndlib",
    "suites": "dcgym.suites",
    "tasks": "dcgym.tasks",
    "testing": "dcgym.testing",
    "topologies": "dcgym.topologies",
    "traffic": "dcgym.traffic",
    "units": "dcgym.units",
    "writing": "dcgym.writing",
    "yaml_text": "dcgym.yaml_text",
}


def __getattr__(name: str) -> Any:
    """Load a factory or a module on first use, which keeps ``import dcgym`` cheap."""
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name not in _LAZY:
        raise AttributeError(f"module 'dcgym' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


# The emulator's processes make no environments, and start a quarter faster without Gymnasium.
if "dcgym_emulator" not in sys._xoptions:
    __getattr__("register_envs")()
