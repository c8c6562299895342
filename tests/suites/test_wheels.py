"""The wheel of what runs here: installed elsewhere, it is the same package."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from dcgym.native import MODULES, PROGRAMS, build_digest, missing_parts, program_path, require
from dcgym.suites.cluster_work import examiner, installation
from dcgym.suites.results import git_commit
from dcgym.suites.wheels import required_packages, write_wheel
from tests.support.killed_sweeps import assert_same_results, sweep_here
from tests.support.source_tree import LINKED, ROOT

SEEN = """
import json, dcgym
from dcgym.native import MODULES, build_digest, missing_parts, not_loadable
from dcgym.suites.results import git_commit
print(json.dumps([dcgym.__file__, build_digest(), git_commit(), missing_parts(),
                  not_loadable(MODULES)]))
"""
EXAMINED = """
import json, sys
from dcgym.suites.cluster_work import Installation, examine_here
print(json.dumps(examine_here(Installation(*json.loads(sys.argv[1])), False)))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def unpacked(wheel: Path, tmp_path: Path) -> Path:
    """Return the wheel as files without permissions, as Ray 2.44 unpacks it."""
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder)
    return folder


def ask(folder: Path, program: str, *words: str) -> Any:
    """Run a program away from the checkout, on the package of a folder."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_installed_wheel_is_the_package_that_made_it(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pip")
    target = tmp_path / "target"
    options = ["--no-deps", "--no-index", "--no-compile", "--target", str(target)]
    subprocess.run([sys.executable, "-m", "pip", "-q", "install", *options, str(wheel)], check=True)
    path, *others = ask(target, SEEN)
    assert Path(path).is_relative_to(target)
    assert others == [build_digest(), git_commit(), missing_parts(), None]
    built = [name for name in PROGRAMS if name not in missing_parts()]
    assert all(os.access(target / "dcgym/native/bin" / name, os.X_OK) for name in built)
    assert all((target / "dcgym" / name / "__init__.py").is_file() for name in LINKED)
    monkeypatch.setenv("PYTHONPATH", str(target))
    told = subprocess.run(
        [target / "bin" / "dcgym", "--version"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert version("dcgym") in told.stdout


@pytest.mark.simulation
def test_runs_of_the_wheel_are_those_of_the_checkout(
    unpacked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    monkeypatch.setenv("PYTHONPATH", f"{unpacked}{os.pathsep}{ROOT}")
    words = [sys.executable, "-m", "tests.support.killed_sweeps", str(there), "2", "1"]
    subprocess.run(words, cwd=tmp_path, check=True)
    sweep_here(here, 2, 0)
    assert_same_results(there, here)


def test_the_wheel_names_each_of_its_files_and_is_the_same_each_time(
    wheel: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
        assert len(files) == len(opened.namelist())
    [record] = [name for name in files if name.endswith(".dist-info/RECORD")]
    rows = [line.rsplit(",", 2) for line in files[record].decode().splitlines()]
    assert [name for name, *_ in rows] == list(files)
    for name, digest, size in rows[:-1]:
        wanted = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).decode()
        assert (digest, int(size)) == (f"sha256={wanted.rstrip('=')}", len(files[name]))
    assert not [name for name in files if "__pycache__" in name]
    assert write_wheel(tmp_path).read_bytes() == wheel.read_bytes()


def test_programs_that_were_unpacked_as_plain_files_can_be_run(unpacked: Path) -> None:
    built = [name for name in PROGRAMS if name not in missing_parts()]
    if not built:
        pytest.skip("no program is built")
    assert os.access(program_path(built[0]), os.X_OK)
    program = unpacked / "dcgym/native/bin" / built[0]
    assert not os.access(program, os.X_OK)
    assert ask(unpacked, EXAMINED, json.dumps(installation())) is None
    assert os.access(program, os.X_OK)


def test_a_machine_that_cannot_load_a_compiled_part_names_it(unpacked: Path) -> None:
    require("_simulation")
    # As the loader finds a module of another architecture.
    [module] = (unpacked / "dcgym/native").glob("_simulation.*.so")
    module.write_bytes(b"\x7fELF")
    reason, mends = ask(unpacked, EXAMINED, json.dumps(installation()))
    assert reason.startswith(f"cannot load {MODULES['_simulation']} (")
    assert "\n" not in reason
    assert not mends


def test_a_machine_without_what_dcgym_needs_names_it() -> None:
    needed = required_packages()
    assert {"numpy", "polars", "pyyaml"} <= set(needed)
    assert "torch" not in needed
    assert examiner(needed)(tuple(installation()), False) is None
    found = examiner([*needed, "no-such-package"])(tuple(installation()), False)
    assert found == ("misses no-such-package, which dcgym needs", False)
