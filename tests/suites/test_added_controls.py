"""Congestion controls that are added while dcgym runs are policies, for the backends that fit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dcgym.errors import ConfigError
from dcgym.policies import POLICIES
from dcgym.suites.checks import fit_policies
from dcgym.tasks.network.controls import CONGESTION_CONTROLS, CongestionControl

WESTWOOD = CongestionControl("westwood", is_in_linux=True)


@pytest.fixture
def westwood() -> Iterator[str]:
    """Add a congestion control that only Linux has."""
    CONGESTION_CONTROLS.add("westwood", WESTWOOD)
    yield "westwood"
    CONGESTION_CONTROLS.remove("westwood")


def test_what_only_linux_has_fits_the_emulation_alone(westwood: str) -> None:
    policies = ("cubic", westwood)
    assert fit_policies(policies, {"backend": "simulation"}) == ("cubic",)
    assert fit_policies(policies, {"backend": "emulation"}) == policies


def test_its_policy_goes_with_it(westwood: str) -> None:
    assert westwood in POLICIES["congestion"]
    CONGESTION_CONTROLS.remove(westwood)
    assert westwood not in POLICIES["congestion"]
    CONGESTION_CONTROLS.add(westwood, WESTWOOD)
    assert westwood in POLICIES["congestion"]


def test_the_name_of_another_policy_is_refused_and_nothing_is_added() -> None:
    with pytest.raises(ConfigError, match=r"fair-share.*not registered yet"):
        CONGESTION_CONTROLS.add("fair-share", WESTWOOD)
    assert "fair-share" not in CONGESTION_CONTROLS
