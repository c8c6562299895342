"""The costs of rules of messages are those of decisions with messages."""

from __future__ import annotations

import pytest

from dcgym.errors import BackendError
from experiments.speed import balancer_messages as messages

pytestmark = pytest.mark.native


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("RUNS", 24), ("REPETITIONS", 1), ("POOLS", (8,))):
        monkeypatch.setattr(messages, name, value)


def test_each_rule_of_messages_is_timed_with_them() -> None:
    rows = messages.measure_told_flows()
    assert [row["rule"] for row in rows] == [*messages.RULES_OF_MESSAGES, *messages.WITH_PROBES]


@pytest.mark.parametrize(("rule", "kind"), [("prequal", "ANSWER"), ("jiq", "IDLE")])
def test_decisions_without_messages_are_noticed(
    monkeypatch: pytest.MonkeyPatch, rule: str, kind: str
) -> None:
    # The balancer takes no message of this kind.
    monkeypatch.setattr(messages, kind, 200)
    # Of 24 decisions at random none goes to the four silent servers in one case of 16 million.
    with pytest.raises(BackendError, match=f"^{rule}: not every decision"):
        messages.measure_told_flows()
