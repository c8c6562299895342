"""Congestion controls that another package has as one header."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError, FeatureNotSupported
from dcgym.tasks.network.controls import CONGESTION_CONTROLS, CongestionControl
from dcgym.topologies import dumbbell
from dcgym.traffic import Flow
from tests.support.packets import MSS, SECOND, START_NS, begin
from tests.support.source_tree import ROOT

HEADER = ROOT / "tests" / "support" / "outside" / "acme_four.h"
CC = "congestion_control"
DELAY_MS = 5

Add = Callable[[Path], CongestionControl]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Add:
    """Return what makes a header the congestion control "acme" until the test ends."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def add(header: Path) -> CongestionControl:
        control = CongestionControl.of_header(header)
        monkeypatch.setitem(CONGESTION_CONTROLS._things, "acme", control)
        return control

    return add


def sent_packets() -> float:
    """Return how many packets a round trip of 30 ms a flow alone sends."""
    twin = begin(dumbbell(2, rate="100Mbit", delay=f"{DELAY_MS}ms"), [Flow("h1", "h2")], "acme")
    seen = []
    for second in (1, 4):
        twin.advance(START_NS + second * SECOND)
        seen.append(float(twin.snapshot().hosts["rx_bytes"].sum()))
    return (seen[1] - seen[0]) / 3 * 6 * DELAY_MS / 1000 / MSS


def test_a_window_sends_as_much_a_round_trip(add: Add) -> None:
    add(HEADER)
    assert sent_packets() == pytest.approx(4, rel=0.01)


def test_a_header_that_has_changed_is_compiled_anew(add: Add, tmp_path: Path) -> None:
    header = tmp_path / "acme_four.h"
    for packets in (4, 8, 4):
        text = HEADER.read_text().replace("(cwnd_packets, 4)", f"(cwnd_packets, {packets})")
        header.write_text(text)
        add(header)
        assert sent_packets() == pytest.approx(packets, rel=0.01)
    assert len([*(tmp_path / "cache" / "dcgym").iterdir()]) == 2


def test_copies_side_by_side_run_it_as_one_alone(add: Add) -> None:
    add(HEADER)
    config = {"env": "CongestionControl-v2", "backend": "simulation", CC: "acme", "max_steps": 8}
    env, copies = dcgym.make_env(config), dcgym.make_vec_env(config, 2)
    alone, together = env.reset(seed=3)[0], copies.reset(seed=[3, 4])[0]
    for _ in range(8):
        np.testing.assert_array_equal(alone, together[0])
        action = env.action_space.high
        alone, together = env.step(action)[0], copies.step(np.stack([action, action]))[0]
    env.close()
    copies.close()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("acme_four.h", "struct dcgym_acme_four { int in_slow_start; };", "dcgym_acme_four_begin"),
        ("acme_four.h", '#include "no_such.h"', "no_such.h"),
        ("acme_four.h", "\xe9", "UTF-8"),
        ("acme-four.h", "", "in C"),
    ],
)
def test_a_header_that_is_no_algorithm_is_refused(
    add: Add, tmp_path: Path, name: str, text: str, said: str
) -> None:
    (tmp_path / name).write_text(text, encoding="latin-1")
    with pytest.raises(ConfigError, match=f"header of a congestion control.*{said}") as error:
        add(tmp_path / name)
        sent_packets()
    assert "\n" not in str(error.value)


def test_a_header_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"header of a congestion control.*in C"):
        CongestionControl.of_header(tmp_path / "missing.h")


@pytest.mark.parametrize(
    ("variable", "value", "made", "said"),
    [
        ("CC", "/no/such", "functions", "compiler /no/such"),
        ("PATH", "/no/such", "object_path", "compiler clang"),
        ("XDG_CACHE_HOME", "/dev/null", "functions", "XDG_CACHE_HOME"),
    ],
)
def test_without_a_compiler_or_a_cache_it_says_what_is_missing(
    add: Add, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, made: str, said: str
) -> None:
    control: Any = add(HEADER)
    monkeypatch.setenv(variable, value)
    with pytest.raises(FeatureNotSupported, match=rf"acme_four\.h.*{said}"):
        getattr(control, made)()
