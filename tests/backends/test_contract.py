"""Every backend keeps the contract of `dcgym.backends.base`."""

from __future__ import annotations

from functools import partial

import pytest

from dcgym.backends.needs import DeviceNeeds, NetworkNeeds, PoolNeeds
from dcgym.backends.registry import DEVICE_POOLS, NETWORKS, POOLS, make_backend
from dcgym.native import available
from dcgym.tasks.accelerators.presets import make_pool_of_devices
from dcgym.tasks.balancing import make_scenario
from dcgym.testing import FakeBackend, check_device_pool, check_network, check_pool

DEVICES = {"preset": "accelerator-pool", "application": "vgg16", "servers": 2}


def test_the_test_double_keeps_the_contract() -> None:
    check_network(FakeBackend)


@pytest.mark.emulation
def test_emulated_networks_keep_the_contract() -> None:
    check_network(
        lambda topology: make_backend(
            NETWORKS, "emulation", NetworkNeeds(topology=topology), 1, {"preflight": False}
        )
    )


@pytest.mark.skipif(not available("_simulation"), reason="the compiled simulation is not built")
@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("preset", ["yao-sim-8", "testbed-7"])
def test_simulated_pools_keep_the_contract(preset: str, n_envs: int) -> None:
    needs = PoolNeeds(scenario=make_scenario(preset), record_limit=99)
    check_pool(partial(make_backend, POOLS, "simulation", needs, n_envs))


@pytest.mark.emulation
def test_emulated_pools_keep_the_contract() -> None:
    scenario = make_scenario("testbed-7")
    needs = PoolNeeds(scenario=scenario, record_limit=10_000, horizon_ns=30 * 10**9)
    check_pool(partial(make_backend, POOLS, "emulation", needs))


@pytest.mark.skipif(not available("_simulation"), reason="the compiled simulation is not built")
@pytest.mark.parametrize("n_envs", [1, 3])
def test_simulated_pools_of_devices_keep_the_contract(n_envs: int) -> None:
    needs = DeviceNeeds(pool=make_pool_of_devices(DEVICES), record_limit=999)
    check_device_pool(partial(make_backend, DEVICE_POOLS, "simulation", needs, n_envs))


@pytest.mark.emulation
def test_emulated_pools_of_devices_keep_the_contract() -> None:
    pool = make_pool_of_devices(DEVICES)
    needs = DeviceNeeds(pool=pool, record_limit=999, horizon_ns=30 * 10**9)
    check_device_pool(partial(make_backend, DEVICE_POOLS, "emulation", needs), intervals=3)
