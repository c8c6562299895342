"""What tests of whole runs share."""

from __future__ import annotations

import numpy as np
import pytest

from dcgym.envs.session import Session
from dcgym.suites.workers import Workers


@pytest.fixture
def workers():
    """Yield what starts workers; they end with the test."""
    made = Workers()
    yield made
    made.stop()


@pytest.fixture
def taken(monkeypatch):
    """Return what tells the first actions that environments are given during a piece of work."""
    actions = []
    advance = Session.advance

    def spied(session, given=None):
        if given is not None:
            actions.append(np.array(given, np.float64)[0])
        advance(session, given)

    monkeypatch.setattr(Session, "advance", spied)

    def during(work, most=24):
        actions.clear()
        work()
        return np.array(actions[:most])

    return during
