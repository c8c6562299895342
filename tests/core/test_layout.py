"""The tree is what the packaging and the import rules rely on."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("topologies", "traffic", "monitors", "policies")
LEAVES = ("errors", "units", "config")
HEAVY = ("mininet", "ray", "torch", "stable_baselines3", "matplotlib", "plotly", "polars")


@pytest.mark.parametrize("name", LINKED)
def test_link_is_relative_and_leads_to_the_folder(name: str) -> None:
    link = ROOT / "dcgym" / name
    assert link.is_symlink()
    assert os.readlink(link) == f"../{name}"
    assert (ROOT / name / "__init__.py").is_file()


@pytest.mark.parametrize("name", LINKED)
def test_folder_refuses_a_second_identity(name: str) -> None:
    done = run_python(f"import {name}")
    assert done.returncode == 1
    assert "ImportError" in done.stderr.splitlines()[-1]


def test_import_loads_nothing_heavy() -> None:
    done = run_python(
        "import sys, dcgym\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "print([n for n in sys.modules if n.startswith('dcgym.native')])"
    )
    assert done.stdout.splitlines() == ["[]", "[]"], done.stderr


def test_constructing_the_environment_loads_no_learner_and_no_mininet() -> None:
    done = run_python(
        "import sys, dcgym\nenv = dcgym.make_env()\n"
        "print([n for n in ('mininet', 'ray', 'torch') if n in sys.modules])\nenv.close()"
    )
    assert done.stdout.splitlines() == ["[]"], done.stderr


@pytest.mark.parametrize("name", LINKED)
def test_linked_packages_import_only_leaves_and_themselves(name: str) -> None:
    allowed = (*LEAVES, name)
    for path, module in imports_of(ROOT / name):
        parts = module.split(".")
        if parts[0] == "dcgym":
            # The generator's executable is found through dcgym.native, which imports only errors.
            assert len(parts) > 1 and parts[1] in (*allowed, "native"), f"{path}: {module}"


@pytest.mark.parametrize("name", LEAVES)
def test_leaves_import_only_leaves(name: str) -> None:
    path = ROOT / "dcgym" / f"{name}.py"
    ours = {module for _, module in imports_of(path) if module.startswith("dcgym")}
    assert ours <= {f"dcgym.{leaf}" for leaf in LEAVES}


def test_backends_do_not_import_environments_policies_or_commands() -> None:
    forbidden = ("dcgym.envs", "dcgym.policies", "dcgym.cli", "dcgym.suites")
    for folder in ("emulation", "native", "monitors"):
        for path, module in imports_of(ROOT / "dcgym" / folder):
            assert not module.startswith(forbidden), f"{path}: {module}"


def test_nothing_imports_experiments() -> None:
    for folder in ("dcgym", *LINKED):
        for path, module in imports_of(ROOT / folder):
            assert module.split(".")[0] != "experiments", path


def test_all_names_exist() -> None:
    import dcgym

    for name in dcgym.__all__:
        assert getattr(dcgym, name) is not None


def test_unknown_name_is_an_attribute_error() -> None:
    import dcgym

    with pytest.raises(AttributeError, match="no_such_name"):
        _ = dcgym.no_such_name


def imports_of(place: Path) -> Iterator[tuple[Path, str]]:
    """Yield each module that sources import at run time; imports for type checkers are free."""
    paths = [place] if place.is_file() else sorted(place.rglob("*.py"))
    for path in paths:
        for node in run_time_nodes(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                yield path, node.module
            elif isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)


def run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from run_time_nodes(child)


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
