"""The layout test sees every way to import."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from tests.core import test_layout
from tests.support import source_tree


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a checkout of its own."""
    monkeypatch.setattr(source_tree, "ROOT", tmp_path)
    monkeypatch.setattr(source_tree, "source_files", lambda: sorted(tmp_path.rglob("*.py")))
    for name in ("__init__", "cli/__init__", "cli/app", "envs/__init__", "envs/factory", "errors"):
        write(tmp_path, name, "")
    return tmp_path


def write(tree: Path, name: str, code: str) -> None:
    path = tree / "dcgym" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(code), encoding="utf-8")


@pytest.mark.parametrize(
    ("code", "target"),
    [
        ("import dcgym.cli.app", "dcgym.cli.app"),
        ("from dcgym.cli import app", "dcgym.cli.app"),
        ("from dcgym.cli.app import main", "dcgym.cli.app"),
        ("from ..cli import app", "dcgym.cli.app"),
        ("def f():\n    from dcgym.cli import app", "dcgym.cli.app"),
        ("import_module('dcgym.cli.app')", "dcgym.cli.app"),
        ("LATER = {'app': 'dcgym.cli.app:main'}", "dcgym.cli.app"),
        ("run([sys.executable, '-m', 'dcgym.cli'])", "dcgym.cli"),
        ("run([sys.executable, '-c', 'from dcgym.cli import app'])", "dcgym.cli"),
        ("import_module(f'dcgym.{name}')", None),
        ("name = 'dcgym.' + name", None),
        ("import_module('.app', package)", None),
        ("import_module(package + name)", None),
        ("__import__(str(name))", None),
        ("run([sys.executable, '-m', f'{package}.app'])", None),
        ("import dcgym", "dcgym"),
        ("import experiments.speed", "experiments.speed"),
        ("from traffic import plans", "traffic.plans"),
    ],
)
def test_every_import_is_an_arrow(tree: Path, code: str, target: str | None) -> None:
    write(tree, "envs/factory", code)
    assert [arrow.target for arrow in source_tree.arrows()] == [target]
    assert len(list(test_layout.upward_arrows())) == 1


@pytest.mark.parametrize(
    "code",
    [
        "'''See dcgym.cli.app.'''",
        "def f():\n    'dcgym.cli.app'",
        "if TYPE_CHECKING:\n    from dcgym.cli import app",
        "GROUP = 'dcgym.plugins'",
        "import_module(user_name)",
        "import_module(f'plotly.{name}')",
        "import numpy",
    ],
)
def test_what_imports_nothing_of_ours_is_none(tree: Path, code: str) -> None:
    write(tree, "envs/factory", code)
    assert source_tree.arrows() == []


def test_not_even_the_roof_imports_experiments_or_what_it_computes(tree: Path) -> None:
    write(tree, "__init__", "import experiments.speed\nimport_module(f'dcgym.{name}')")
    assert len(list(test_layout.upward_arrows())) == 2


def test_the_face_of_a_package_may_gather_what_lies_inside(tree: Path) -> None:
    write(tree, "policies/__init__", "from dcgym.policies.learned import ppo")
    write(tree, "policies/learned/ppo", "from dcgym.policies.base import Policy")
    write(tree, "policies/base", "")
    assert list(test_layout.upward_arrows()) == list(test_layout.circles()) == []
    write(tree, "policies/base", "from dcgym.policies import ppo")
    assert len(list(test_layout.upward_arrows())) == len(list(test_layout.circles())) == 1


def test_arrows_down_are_allowed(tree: Path) -> None:
    write(tree, "envs/factory", "from dcgym.errors import ConfigError")
    assert len(source_tree.arrows()) == 1
    assert list(test_layout.upward_arrows()) == []


def test_a_circle_of_folders_is_found(tree: Path) -> None:
    write(tree, "envs/render/network", "from dcgym.envs.task.rates import one")
    write(tree, "envs/task/rates", "import dcgym.envs.task.weights")
    write(tree, "envs/task/weights", "def f():\n    import dcgym.envs.render.network")
    write(tree, "envs/__init__", "from dcgym.envs.render import network")
    (circle,) = test_layout.circles()
    assert "dcgym.envs.render.network -> dcgym.envs.task.rates" in circle
    assert "dcgym.envs.task.weights -> dcgym.envs.render.network" in circle
    assert "__init__" not in circle


def test_a_long_function_says_why(tree: Path) -> None:
    body = "    x = 1\n" * 50
    write(tree, "errors", f"def plain():\n{body}\n\n# Long because it is.\ndef fine():\n{body}")
    assert [line.split(": ")[0] for line in test_layout.long_functions()] == [
        "dcgym/errors.py:1 plain"
    ]
    ast.parse((tree / "dcgym/errors.py").read_text())
