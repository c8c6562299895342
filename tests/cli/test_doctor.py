from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from dcgym.cli import doctor
from dcgym.cli.doctor.kernel import check_version
from dcgym.cli.tables import print_doctor
from tests.support.commands import run_here
from tests.support.source_tree import ROOT


@pytest.fixture(scope="module")
def checks() -> list[doctor.Check]:
    return doctor.examine()


def test_every_line_says_what_it_costs_and_how_to_get_it(checks: list[doctor.Check]) -> None:
    assert all(check.found and check.cost and check.remedy for check in checks)


def test_a_missing_requirement_forbids_emulation_and_a_missing_option_does_not(
    checks: list[doctor.Check],
) -> None:
    present = [dataclasses.replace(check, ok=True) for check in checks]
    assert doctor.can_emulate(present)
    for name, is_needed in (("veth", True), ("netem", False)):
        without = [dataclasses.replace(check, ok=check.name != name) for check in present]
        assert without != present and doctor.can_emulate(without) is not is_needed


@pytest.mark.parametrize(
    ("release", "missing"),
    [
        ("6.1.0-31-amd64", ["version", "version for pools", "version for transports"]),
        ("6.5.0-15-generic", ["version for pools", "version for transports"]),
        ("6.8.0", ["version for transports"]),
        ("6.10.0-rc1", []),
        ("7.0.1", []),
    ],
)
def test_each_part_has_the_kernel_it_needs(release: str, missing: list[str]) -> None:
    assert [check.name for check in check_version(release) if not check.ok] == missing


def test_a_user_namespace_cannot_emulate_and_is_named() -> None:
    command = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this kernel gives no user namespaces")
    # One process, as to start Python twice takes seconds.
    code = (
        "from dcgym.cli import main\n"
        "for arguments in (['doctor', '--json'], ['run', '--seconds', '1']):\n"
        "    try:\n        main(arguments)\n"
        "    except SystemExit as ended:\n        assert ended.code == 1, arguments"
    )
    done = subprocess.run(
        [*command, sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert not checks["user namespace"]["ok"]
    assert "root of the machine" in done.stderr


def test_the_page_lists_what_the_kernel_must_have(checks: list[doctor.Check]) -> None:
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    kernel = [c for c in checks if c.group in ("privileges", "kernel", "bpf", "congestion control")]
    assert [c.name for c in kernel if f"| {c.name} |" not in page] == []


def test_exit_code_and_json_agree(capfd: pytest.CaptureFixture[str]) -> None:
    done = run_here(capfd, "doctor", "--json")
    found = json.loads(done.stdout)
    assert found["emulation"] is (done.returncode == 0)
    assert found["checks"]
    offered = json.loads(run_here(capfd, "doctor", "--resources").stdout)
    assert offered == ({"emulation": 1} if found["emulation"] else {})


def test_the_table_shows_the_extra_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    remedy = "pip install 'dcgym[rllib]'"
    missing = doctor.Check("packages", "ray", False, "not found", False, "no ppo", remedy)
    print_doctor([missing], ready=True)
    assert "pip install 'dcgym[rllib]'" in capsys.readouterr().out
