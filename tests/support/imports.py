"""Import every module of a package; without Mininet, all but those that need it."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil

from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.errors import FeatureNotSupported


def main(name: str = "dcgym") -> None:
    """Raise the error of a module that cannot be imported.

    Args:
        name: Name of the package.
    """
    with contextlib.suppress(FeatureNotSupported):
        make_importable()
    for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name != "mininet":
                raise


if __name__ == "__main__":
    main()
