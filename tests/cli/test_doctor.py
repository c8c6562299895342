from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from dcgym.cli import doctor
from dcgym.cli.tables import print_doctor

EXPECTED = {"veth", "tbf", "clsact", "tc program", "mmapable map", "BTF", "struct_ops for TCP"}
EXPECTED |= {"red", "netem", "openvswitch module", "clang", "mininet (Python)", "free memory"}


@pytest.fixture(scope="module")
def checks() -> list[doctor.Check]:
    return doctor.examine()


def test_every_probe_of_the_list_is_there(checks: list[doctor.Check]) -> None:
    assert {check.name for check in checks} >= EXPECTED


def test_every_line_says_what_it_costs_and_how_to_get_it(checks: list[doctor.Check]) -> None:
    assert all(check.found and check.cost and check.remedy for check in checks)


def test_one_missing_requirement_forbids_emulation(checks: list[doctor.Check]) -> None:
    present = [dataclasses.replace(check, ok=True) for check in checks]
    assert doctor.can_emulate(present)
    missing = [dataclasses.replace(c, ok=c.name != "veth") for c in present]
    assert not doctor.can_emulate(missing)


def test_a_missing_option_does_not(checks: list[doctor.Check]) -> None:
    present = [dataclasses.replace(check, ok=check.name != "netem") for check in checks]
    assert doctor.can_emulate(present)


def test_exit_code_and_json_agree() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dcgym", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(done.stdout)["emulation"] is (done.returncode == 0)


def test_the_table_shows_the_extra_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    remedy = "pip install 'dcgym[rllib]'"
    missing = doctor.Check("packages", "ray", False, "not found", False, "no ppo", remedy)
    print_doctor([missing], ready=True)
    assert "pip install 'dcgym[rllib]'" in capsys.readouterr().out
