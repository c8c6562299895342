"""JSON that is written is JSON that every program reads."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.json_text import json_text, measured
from tests.support.json_files import strict
from tests.support.source_tree import ROOT, source_files

# Words between processes of ours, which end with them and may need NaN; texts of which a digest is
# made, which must stay as they are; and copies. All else is for people and for programs of theirs.
NOT_FOR_OTHERS = {
    "dcgym/backends/emulation/emulator/device_agents.py",
    "dcgym/backends/emulation/emulator/nodes.py",
    "dcgym/backends/emulation/session/runs.py",
    "dcgym/backends/emulation/wire/channel.py",
    "dcgym/suites/matrix.py",
    "dcgym/suites/work.py",
    "docs/_scripts/preset_page.py",
    "experiments/golden/__main__.py",
    "experiments/speed/balancer_forwarding.py",
    "experiments/speed/hmux.py",
    "experiments/speed/path_rules.py",
    "traffic/generators/adapter.py",
    "traffic/generators/app_engine.py",
    "traffic/plans/applications.py",
    "traffic/plans/plan.py",
}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([math.nan, math.inf, -math.inf, 0.5], [None, None, None, 0.5]),
        ({"a": {"b": (1, math.nan)}}, {"a": {"b": [1, None]}}),
        ([np.float64("nan"), np.float32(0.5), np.int64(7), np.bool_(True)], [None, 0.5, 7, True]),
        (np.array([[1.0, np.inf], [np.nan, 2.0]]), [[1.0, None], [None, 2.0]]),
        (np.array(math.nan), None),
        (np.arange(3), [0, 1, 2]),
        ({1: 2, np.int64(3): 4, None: 5, math.nan: 6}, {"1": 2, "3": 4, "null": 5, "nan": 6}),
        ([Path("runs"), "NaN", None, True, 10**30], ["runs", "NaN", None, True, 10**30]),
    ],
)
def test_numbers_that_json_does_not_have_are_null(value: Any, expected: Any) -> None:
    assert strict(json_text(value)) == expected
    assert strict(json_text(value, indent=None)) == expected


def test_what_is_written_is_not_changed() -> None:
    value = {"metrics": {"p99": math.nan}, "curve": [1.0, math.inf]}
    json_text(value)
    assert math.isnan(value["metrics"]["p99"]) and value["curve"] == [1.0, math.inf]  # type: ignore[call-overload]


def test_other_values_are_as_the_standard_library_writes_them() -> None:
    value = {"a": [1, 2.5, "é", True, None], "b": {}}
    assert json_text(value) == json.dumps(value, indent=2)


def test_measurements_that_are_null_are_nan_again() -> None:
    found = measured({"mean": None, "drops": 0, "name": "all"})
    assert math.isnan(found.pop("mean"))  # type: ignore[arg-type]
    assert found == {"drops": 0, "name": "all"}


def test_nothing_else_writes_json_for_others() -> None:
    writes = re.compile(r"\bjson\.dumps?\(")
    found = {
        str(path.relative_to(ROOT))
        for path in source_files()
        if "tests" not in path.relative_to(ROOT).parts
        and writes.search(path.read_text(encoding="utf-8"))
    }
    assert found == NOT_FOR_OTHERS | {"dcgym/json_text.py"}
