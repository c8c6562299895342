"""Where Mininet is: the distribution's package, not the index's.

The one on the package index is older and brings no ``mnexec``. Only the emulator's process looks in
the system's folder, and last, so that nothing else of the system's Python shadows ours.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys

from dcgym.errors import FeatureNotSupported

__all__ = ["make_importable"]

SYSTEM_PACKAGES = "/usr/lib/python3/dist-packages"


def make_importable() -> None:
    """Let this process import Mininet.

    Raises:
        FeatureNotSupported: Mininet or its mnexec is not installed.
    """
    if SYSTEM_PACKAGES not in sys.path:
        sys.path.append(SYSTEM_PACKAGES)
    if importlib.util.find_spec("mininet") is None or shutil.which("mnexec") is None:
        raise FeatureNotSupported("Mininet", "apt-get install mininet")
    if importlib.util.find_spec("distutils") is None:
        # Mininet 2.3 imports it; Python has none since 3.12, setuptools brings one.
        raise FeatureNotSupported("Mininet's distutils", "pip install setuptools")
