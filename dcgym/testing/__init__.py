"""Public test tools: the contract every environment keeps, and a test double of a network."""

from dcgym.testing.contract import check_contract, check_no_dead_feature
from dcgym.testing.fake_backend import FakeBackend

__all__ = ["FakeBackend", "check_contract", "check_no_dead_feature"]
