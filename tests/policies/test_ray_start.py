"""The start of Ray on a machine that is too busy for Ray's own limits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dcgym.errors import BackendError
from dcgym.policies.learned.rllib import library
from dcgym.policies.learned.rllib.library import START_TRIES, START_VARIABLE, running_ray
from tests.support.waiting import wait_for


class SlowRay(SimpleNamespace):
    """Starts a service in each try, and gives up in the first ones."""

    def __init__(self, failures: int) -> None:
        super().__init__(failures=failures, services=[], is_up=False)

    def is_initialized(self) -> bool:
        return self.is_up

    def init(self, **_: Any) -> None:
        service = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        self.services.append(service)
        # A program that the kernel has just begun shows no environment yet.
        wait_for(Path(f"/proc/{service.pid}/environ").read_bytes)
        if len(self.services) <= self.failures:
            raise Exception("The current node timed out during startup.\nMore of it.")
        self.is_up = True

    def shutdown(self) -> None:
        self.is_up = False


def started(monkeypatch: pytest.MonkeyPatch, failures: int) -> SlowRay:
    ray = SlowRay(failures)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(library, "START_PAUSE_S", 0.0)
    return ray


def test_a_start_that_takes_too_long_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = started(monkeypatch, failures=2)
    with running_ray(1):
        assert ray.is_up
        # Of the tries that failed nothing runs beside the one that did not.
        wait_for_end(ray.services[:-1])
        assert ray.services[-1].poll() is None
        ray.services[-1].kill()
    assert not ray.is_up
    assert START_VARIABLE not in os.environ


def test_a_start_that_always_fails_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = started(monkeypatch, failures=100)
    with (
        pytest.raises(BackendError, match=r"^Ray did not start in 5 tries: .* startup\.$"),
        running_ray(1),
    ):
        pytest.fail("it has started")
    assert len(ray.services) == START_TRIES
    wait_for_end(ray.services)


def wait_for_end(services: list[subprocess.Popen[bytes]]) -> None:
    """Wait for processes that were killed: they have no environment before they have ended."""
    wait_for(lambda: all(service.poll() is not None for service in services))
