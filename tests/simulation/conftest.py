from __future__ import annotations

import pytest

from dcgym.native import simulation_available


@pytest.fixture(autouse=True, scope="session")
def needs_simulation() -> None:
    if not simulation_available():
        pytest.skip("the compiled simulation is not built; run 'make setup'")
