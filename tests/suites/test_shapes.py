"""Expected shapes: verdicts by hand, what they are read from, and where they are shown."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dcgym.cli.verdicts import print_verdicts
from dcgym.errors import ConfigError
from dcgym.suites import Case, Check, Shape, Suite, Term, modern_balancing
from dcgym.suites.checks import check_suite
from dcgym.suites.matrix import Matrix
from dcgym.suites.progress import progress_bars
from dcgym.suites.reports.verdicts import verdicts_section
from dcgym.suites.results import SUITE_FILE, write_json
from dcgym.suites.shapes import shape_from_dict
from dcgym.suites.verdicts import VERDICTS_FILE, judge, write_verdicts
from dcgym.suites.workers import Workers

LEFT, RIGHT = Term("fct_us_p99", "sed", "low"), Term("fct_us_p99", "lsq", "low")


def runs(values: Mapping[str, list[float]], case: str = "low") -> list[dict[str, Any]]:
    """Return a record for each policy and seed."""
    return [
        {"scenario": case, "policy": policy, "seed": seed, "metrics": {"fct_us_p99": value}}
        for policy, own in values.items()
        for seed, value in enumerate(own)
    ]


def shape_of_suite() -> Shape:
    return Shape("s", "c", "ours", (Check(Term("rejected", "sed", "speeds"), "<=", 0),))


def verdict_of(check: Check, values: Mapping[str, list[float]]) -> str:
    return judge(Shape("s", "claim", "ours", (check,)), runs(values)).verdict


@pytest.mark.parametrize(
    ("left", "relation", "right", "verdict"),
    [
        # Differences 5, 6, 7: 6 +- 4.303 * 1 / sqrt(3) = 2.484.
        ([1, 2, 3], "<", [6, 8, 10], "holds"),
        ([1, 2, 3], ">", [6, 8, 10], "fails"),
        # Differences 1, 2, 3: from -0.484 to 4.484.
        ([1, 2, 3], "<", [2, 4, 6], "within noise"),
        ([1, 2, 3], ">=", [2, 4, 6], "within noise"),
        # Equal in every seed: not less, and not more.
        ([1, 2, 3], "<", [1, 2, 3], "fails"),
        ([1, 2, 3], "<=", [1, 2, 3], "holds"),
        # One seed decides nothing.
        ([1], "<", [100], "within noise"),
        ([1, math.nan], "<", [100, 100], "within noise"),
        ([1, 2, 3], "<", [], "not run"),
        ([math.nan], "<", [1], "not run"),
    ],
)
def test_verdicts_by_hand(
    left: list[float], relation: str, right: list[float], verdict: str
) -> None:
    assert verdict_of(Check(LEFT, relation, RIGHT), {"sed": left, "lsq": right}) == verdict


def test_numbers_factors_and_what_was_found() -> None:
    values = {"sed": [1.0, 2.0, 3.0], "lsq": [3.0, 4.0, 8.0]}
    twice = Check(replace(LEFT, factor=2.0), "<=", RIGHT)
    (finding,) = judge(Shape("s", "c", "ours", (twice,)), runs(values)).findings
    # 2, 4, 6 less 3, 4, 8: -1, 0, -2; t 4.303 times 1 / sqrt(3).
    assert (finding.left, finding.right, finding.difference) == (4.0, 5.0, -1.0)
    assert finding.half_width == pytest.approx(4.303 / math.sqrt(3), rel=1e-3)
    assert (finding.verdict, finding.seeds) == ("within noise", 3)
    assert str(twice) == "2 x fct_us_p99 of sed in low <= fct_us_p99 of lsq in low"
    assert verdict_of(Check(LEFT, "<", 5.0), values) == "holds"
    assert verdict_of(Check(LEFT, "<=", 0), {"sed": [0.0, 0.0]}) == "holds"
    assert verdict_of(Check(LEFT, ">", 0), {"sed": [0.0, 0.0]}) == "fails"


def test_a_shape_holds_where_all_of_its_checks_do() -> None:
    holds, noise = Check(LEFT, "<", 9.0), Check(LEFT, "<", 3.0)
    fails, missing = Check(LEFT, "<", -1.0), Check(LEFT, "<", Term("fct_us_p99", "br", "low"))
    for checks, expected in (
        ((holds, holds), "holds"),
        ((holds, noise), "within noise"),
        ((holds, noise, missing), "not run"),
        ((holds, noise, missing, fails), "fails"),
    ):
        found = judge(Shape("s", "c", "ours", checks), runs({"sed": [1.0, 2.0, 3.0]}))
        assert found.verdict == expected
        assert {one.verdict for one in found.decisive} == {expected}


def test_shapes_are_data_and_wrong_ones_are_refused() -> None:
    shape = Shape("s", "c", "ours", (Check(LEFT, "<", RIGHT), Check(LEFT, ">=", 2.0)))
    assert shape_from_dict(json.loads(json.dumps(asdict(shape)))) == shape
    with pytest.raises(ConfigError, match=r"shape.relation: value '=='"):
        Check(LEFT, "==", 1.0)
    with pytest.raises(ConfigError, match="checks of shape empty"):
        Shape("empty", "c", "ours", ())
    suite = modern_balancing()
    for wrong, field in (
        (replace(LEFT, case="low"), "case of shape s: value 'low'"),
        (Term("fct_us_p99", "cubic", "speeds"), "policy of shape s: value 'cubic'"),
    ):
        with pytest.raises(ConfigError, match=field):
            check_suite(replace(suite, shapes=(Shape("s", "c", "ours", (Check(wrong, "<", 1),)),)))
    with pytest.raises(ConfigError, match=r"shapes: .* each name once"):
        check_suite(replace(suite, shapes=(shape_of_suite(),) * 2))


def test_verdicts_are_written_printed_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shapes = (
        Shape("good", "SED is below 9", "ours", (Check(LEFT, "<", 9.0),)),
        Shape("bad", "SED is below 0", "a paper", (Check(LEFT, "<", -9.0),)),
    )
    records = runs({"sed": [1.0, 2.0, 3.0]})
    assert write_verdicts(tmp_path, records) == []
    assert verdicts_section(tmp_path, records) == ""
    write_json(tmp_path / SUITE_FILE, {"shapes": [asdict(shape) for shape in shapes]})
    print_verdicts(write_verdicts(tmp_path, records))
    # Cells are folded as the terminal needs it.
    printed = " ".join(capsys.readouterr().out.split())
    assert "good holds SED is below 9 (ours)" in printed
    # Why a shape does not hold stands below it.
    assert "bad fails SED is below 0 (a paper)" in printed and "2 against -9" in printed
    written = json.loads((tmp_path / VERDICTS_FILE).read_text())
    assert [one["verdict"] for one in written] == ["holds", "fails"]
    page = verdicts_section(tmp_path, records)
    assert '"ok">holds' in page and '"beyond">fails' in page


def test_a_case_may_have_policies_of_its_own(tmp_path: Path) -> None:
    env = {"env": "LoadBalancing-v1"}
    cases = (Case(env, "all"), Case(env, "few", policies=("lsq",)))
    suite = Suite("s", "two cases", cases, ("sed", "lsq"), seeds=2)
    found = [str(run) for run in Matrix(suite, tmp_path, Workers(), progress_bars()).runs()]
    assert found == ["all-sed-0", "all-lsq-0", "all-sed-1", "all-lsq-1", "few-lsq-0", "few-lsq-1"]
