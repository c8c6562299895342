"""Public test tools: the contracts of environments and backends, and networks for tests."""

from dcgym.testing.backend_contract import check_network, check_networks, check_pool
from dcgym.testing.contract import check_contract, check_no_dead_feature
from dcgym.testing.device_contract import check_device_pool
from dcgym.testing.fake_backend import FakeBackend
from dcgym.testing.one_network import OneNetwork

__all__ = [
    "FakeBackend",
    "OneNetwork",
    "check_contract",
    "check_device_pool",
    "check_network",
    "check_networks",
    "check_no_dead_feature",
    "check_pool",
]
