"""One Ray for all trainings of this folder: starting it takes longer than they do."""

import pytest


@pytest.fixture(scope="package")
def shared_ray():
    from dcgym.policies.learned.rllib.library import require_rllib, running_ray

    require_rllib()
    with running_ray(4):
        yield


@pytest.fixture
def library(request):
    """Skip where a learning library is missing, and start what it needs."""
    pytest.importorskip(request.param)
    if request.param == "ray":
        request.getfixturevalue("shared_ray")
    return request.param
