"""Import every module of the package; without Mininet, all but those that need it."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil

import dcgym
from dcgym.backends.emulation.emulator.mininet_path import make_importable
from dcgym.errors import FeatureNotSupported


def main() -> None:
    """Raise the error of a module that cannot be imported."""
    with contextlib.suppress(FeatureNotSupported):
        make_importable()
    for module in pkgutil.walk_packages(dcgym.__path__, "dcgym."):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if error.name != "mininet":
                raise


if __name__ == "__main__":
    main()
