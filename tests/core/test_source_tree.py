"""The layout test can fail: it sees every way to import, and what is too long."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.core import test_layout
from tests.support import source_tree

# Each on one line, with what it imports; None for what the program computes.
IMPORTS = (
    ("import dcgym.cli.app", "dcgym.cli.app"),
    ("from dcgym.cli import app", "dcgym.cli.app"),
    ("from dcgym.cli.app import main", "dcgym.cli.app"),
    ("from ..cli import app", "dcgym.cli.app"),
    ("def f(): from dcgym.cli import app", "dcgym.cli.app"),
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
)
NO_IMPORTS = (
    "'''See dcgym.cli.app.'''",
    "def f(): 'dcgym.cli.app'",
    "if TYPE_CHECKING: from dcgym.cli import app",
    "GROUP = 'dcgym.plugins'",
    "import_module(user_name)",
    "import_module(f'plotly.{name}')",
    "import numpy",
)


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


def test_every_import_that_does_not_lead_down_is_found(tree: Path) -> None:
    write(tree, "envs/factory", "\n".join([*(code for code, _ in IMPORTS), *NO_IMPORTS]))
    write(tree, "envs/single", "from dcgym.errors import ConfigError")
    found = {int(arrow.place.rpartition(":")[2]): arrow for arrow in test_layout.upward_arrows()}
    targets = {number: arrow.target for number, arrow in found.items()}
    assert targets == {number: target for number, (_, target) in enumerate(IMPORTS, start=1)}
    assert len(source_tree.arrows()) == len(IMPORTS) + 1
    # Not even the roof imports experiments, or what it computes.
    write(tree, "envs/factory", "")
    write(tree, "__init__", "import experiments.speed\nimport_module(f'dcgym.{name}')")
    assert len(list(test_layout.upward_arrows())) == 2


def test_circles_and_long_functions_are_found(tree: Path) -> None:
    # The face of a package may gather what lies inside.
    write(tree, "envs/__init__", "from dcgym.envs.render import network")
    write(tree, "envs/render/network", "from dcgym.envs.task.rates import one")
    write(tree, "envs/task/rates", "import dcgym.envs.task.weights")
    write(tree, "envs/task/weights", "")
    assert list(test_layout.upward_arrows()) == list(test_layout.circles()) == []
    write(tree, "envs/task/weights", "def f():\n    import dcgym.envs.render.network")
    modules, folders = test_layout.circles()
    for circle in (modules, folders):
        assert "dcgym.envs.render.network -> dcgym.envs.task.rates" in circle
        assert "dcgym.envs.task.weights -> dcgym.envs.render.network" in circle
        assert "__init__" not in circle
    # Folders make one where no modules do.
    write(tree, "envs/task/weights", "import dcgym.envs.render.other")
    write(tree, "envs/render/other", "")
    write(tree, "envs/task/rates", "")
    assert len(list(test_layout.circles())) == 1
    # Two modules of a folder do where one needs the other for its types alone.
    write(tree, "envs/task/weights", "from dcgym.envs.task.rates import one")
    write(tree, "envs/task/rates", "if TYPE_CHECKING:\n    import dcgym.envs.task.weights")
    assert all("dcgym.envs.task.rates -> " in circle for circle in test_layout.circles())
    assert list(test_layout.circles())
    body = "    x = 1\n" * 50
    # A function in a text does not end the one around it.
    cut = "    x = 1\n" * 20 + '    y = """\ndef g(): ...\n"""\n' + "    x = 1\n" * 25
    code = f"def plain():\n{body}\n\n# Long because it is.\ndef fine():\n{body}\ndef cut():\n{cut}"
    code += "class A:\n    def short(self):\n        pass\n" + "X = 1\n" * 50
    write(tree, "errors", code)
    assert [line.split(" ")[1] for line in test_layout.long_functions()] == ["plain:", "cut:"]


def test_types_that_say_nothing_are_found(tree: Path) -> None:
    code = """
        from typing import Any, cast
        JSON: TypeAlias = Any
        Pairs = dict[str, Any]
        def f(one: Any, two: "str", three: typing.Any) -> Any: return cast("list[Shape]", one)
        class Any2: any = cast(Shapes, 1)
        x = 1  # type: ignore[arg-type]
    """
    write(tree, "errors", code)
    lines = [int(place.rpartition(":")[2]) for place in source_tree.lines_with_any()]
    assert lines == [3, 4, 5]
    assert list(source_tree.other_names_of_any()) == ["dcgym/errors.py:3"]
    assert list(source_tree.casts_to({"Shape"})) == ["dcgym/errors.py:5"]
    assert list(source_tree.ignored_types()) == ["dcgym/errors.py:7"]
