from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dcgym.native import missing_parts

SCENARIOS = Path(__file__).parent / "scenarios"
Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]


@pytest.fixture(autouse=True, scope="session")
def needs_native() -> None:
    """Skip where the kernel cannot be asked; the parts under test must then exist."""
    if os.geteuid() != 0:
        pytest.skip("needs root for BPF and network namespaces")
    needed = {"_native", "fabric", "l4lb", "l4lb_server", "dctcp", "new_vegas"}
    missing = needed & set(missing_parts())
    if missing:
        pytest.skip(f"not built: {', '.join(sorted(missing))}; run 'make setup'")


@pytest.fixture(scope="session")
def run_scenario() -> Scenario:
    """Run a script of scenarios/ in a network namespace of its own, JSON in and JSON out."""

    def run(name: str, request: dict[str, Any]) -> dict[str, Any]:
        command = ["unshare", "-n", sys.executable, str(SCENARIOS / f"{name}.py")]
        done = subprocess.run(
            command,
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=60,
            # Installed or not, the scenario imports the dcgym that the tests import.
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    return run
