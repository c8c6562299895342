"""The tree is what the packaging and the import rules rely on (docs/design/structure.md)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import networkx
import pytest

from tests.support.source_tree import (
    LINKED,
    ROOT,
    Arrow,
    arrows,
    casts_to,
    classes,
    functions_above,
    ignored_types,
    lines_with_any,
    modules,
    other_names_of_any,
    source_files,
)

HEAVY = ("mininet", "ray", "torch", "stable_baselines3", "matplotlib", "plotly", "polars")
MOST_FILE_LINES = 400
MOST_FUNCTION_LINES = 45
MOST_METHODS = 30
MOST_SYSTEM_LINES = 300
MOST_BACKEND_MEMBERS = 8
MOST_LINES_WITH_ANY = 150
MOST_IGNORED_TYPES = 56

# Rooms from the foundation to the roof. A module lies in the room with the longest name that begins
# its own; the face of a package (`__init__`), which gathers what lies inside, in the highest room
# there. A room imports itself and the layers below it, nothing beside it and nothing above.
LAYERS = (
    ("dcgym._version", "dcgym.errors"),
    ("dcgym.defaults", "dcgym.native", "dcgym.places", "dcgym.processes", "dcgym.units"),
    ("dcgym.config", "dcgym.reading", "dcgym.writing", "dcgym.yaml_text"),
    ("dcgym.containers", "dcgym.files", "dcgym.json_text", "dcgym.registry"),
    ("dcgym.sndlib",),
    ("dcgym.monitors", "dcgym.topologies", "dcgym.traffic"),
    ("dcgym.tasks",),
    ("dcgym.backends", "dcgym.policies"),
    ("dcgym.envs",),
    ("dcgym.policies.learned", "dcgym.testing"),
    ("dcgym.suites",),
    ("dcgym.cli",),
    ("dcgym",),
)
# Of the environment's side, the emulator imports only what the two say to each other.
EMULATION = "dcgym.backends.emulation"
EMULATOR = f"{EMULATION}.emulator"
WIRE = f"{EMULATION}.wire"
SIMULATION = "dcgym.backends.simulation"


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
        "print([n for n in sys.modules if n.startswith('dcgym.native')])\n"
        # Shells ask the command line for names at every press of a key.
        "import dcgym.cli.app\n"
        "print([n for n in sys.modules if n.startswith(('dcgym.suites', 'dcgym.backends'))])"
    )
    assert done.stdout.splitlines() == ["[]", "[]", "[]"], done.stderr


def test_constructing_the_environment_loads_no_learner_and_no_mininet() -> None:
    done = run_python(
        "import sys, dcgym\nenv = dcgym.make_env()\n"
        "print([n for n in ('mininet', 'ray', 'torch') if n in sys.modules])\nenv.close()"
    )
    assert done.stdout.splitlines() == ["[]"], done.stderr


def test_all_names_exist() -> None:
    import dcgym

    for name in dcgym.__all__:
        assert getattr(dcgym, name) is not None


def test_modules_are_attributes_of_the_package() -> None:
    done = run_python(
        "import pkgutil, dcgym\n"
        "names = [m.name for m in pkgutil.iter_modules(dcgym.__path__)]\n"
        "found = {name for name in names if not name.startswith('_')}\n"
        "print(all(getattr(dcgym, name).__name__ == 'dcgym.' + name for name in found))\n"
        "print(set(dir(dcgym)) == {*found, *dcgym.__all__})\n"
    )
    assert done.stdout.splitlines() == ["True", "True"], done.stderr


def test_unknown_name_is_an_attribute_error() -> None:
    import dcgym

    with pytest.raises(AttributeError, match="no_such_name"):
        _ = dcgym.no_such_name


def test_every_module_lies_in_a_room() -> None:
    assert list(modules_without_a_room()) == []


def test_imports_lead_down() -> None:
    assert list(upward_arrows()) == []


def test_the_emulator_imports_nothing_of_the_process_that_starts_it() -> None:
    assert list(arrows_over_the_border()) == []


def test_emulation_and_simulation_do_not_import_each_other() -> None:
    assert list(arrows_between(EMULATION, SIMULATION)) == []


def test_nothing_imports_its_way_round() -> None:
    assert list(circles()) == []


def test_no_file_is_too_long() -> None:
    assert list(long_files()) == []


def test_no_function_is_too_long_without_a_reason() -> None:
    assert list(long_functions()) == []


def test_no_class_has_too_many_functions() -> None:
    assert [str(one) for one in classes() if len(one.functions) > MOST_METHODS] == []


def test_types_say_what_a_value_is() -> None:
    said = list(lines_with_any())
    assert len(said) <= MOST_LINES_WITH_ANY, said
    assert list(other_names_of_any()) == []
    ignored = list(ignored_types())
    assert len(ignored) <= MOST_IGNORED_TYPES, ignored


def test_nothing_is_cast_to_a_protocol() -> None:
    protocols = {one.name for one in classes() if "Protocol" in one.bases}
    assert list(casts_to(protocols)) == []


def test_there_is_one_system() -> None:
    assert [str(one) for one in classes() if "System" in one.bases] == []
    [system] = [one for one in classes() if one.module == "dcgym.envs.system"]
    assert system.lines <= MOST_SYSTEM_LINES


def test_the_protocol_of_backends_is_small() -> None:
    [base] = [
        one for one in classes() if one.module == "dcgym.backends.base" and one.name == "Backend"
    ]
    [shared] = [one for one in classes() if one.module == base.module and one.name in base.bases]
    assert len(base.functions) + len(shared.functions) <= MOST_BACKEND_MEMBERS


def modules_without_a_room() -> Iterator[str]:
    """Yield modules that only the package's own face and command may be: new rooms need a layer."""
    roof = {"dcgym", "dcgym.__main__"}
    yield from (name for name in modules() if room_of(name) == "dcgym" and name not in roof)


def upward_arrows() -> Iterator[Arrow]:
    """Yield imports of a room beside or above; one that is computed might lead anywhere."""
    layer_of = {room: layer for layer, rooms in enumerate(LAYERS) for room in rooms}
    for arrow in arrows():
        source, target = room_of(arrow.source), room_of(arrow.target or "")
        if source != target and layer_of.get(target, len(LAYERS)) >= layer_of[source]:
            yield arrow


def arrows_over_the_border() -> Iterator[Arrow]:
    """Yield imports of the environment's side of the emulation by the emulator's."""
    for arrow in arrows():
        leaves = lies_in(arrow.source, EMULATOR) and lies_in(arrow.target or "", EMULATION)
        if leaves and not any(lies_in(arrow.target or "", place) for place in (EMULATOR, WIRE)):
            yield arrow


def arrows_between(one: str, other: str) -> Iterator[Arrow]:
    """Yield imports of one package by another, whichever way; those for type checkers too."""
    for arrow in arrows(with_types=True):
        target = arrow.target or ""
        if any(
            lies_in(arrow.source, here) and lies_in(target, there)
            for here, there in ((one, other), (other, one))
        ):
            yield arrow


def circles() -> Iterator[str]:
    """Yield modules, and folders beside each other, that import each other in a circle."""
    graphs: dict[str, networkx.DiGraph] = {}
    example: dict[tuple[str, str], Arrow] = {}
    for arrow in arrows(with_types=True):
        if arrow.target:
            package, source, target = siblings(arrow.source, arrow.target)
            for graph, edge in (("", (arrow.source, arrow.target)), (package, (source, target))):
                graphs.setdefault(graph, networkx.DiGraph()).add_edge(*edge)
                example.setdefault(edge, arrow)
    for graph in graphs.values():
        for ring in networkx.strongly_connected_components(graph):
            if len(ring) > 1:
                edges = sorted(graph.subgraph(ring).edges)
                yield "; ".join(str(example[edge]) for edge in edges)


def siblings(source: str, target: str) -> tuple[str, str, str]:
    """Return the closest package around two modules, and its child in which each of them lies.

    The face of a package (`__init__`) is a child of its own: it may gather what lies beside it.
    """
    a, b = source.split("."), target.split(".")
    depth = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)
    depth = min(len(a), len(b)) if depth is None else depth
    ends = (
        ".".join([*(parts[: depth + 1]), *(["__init__"] if len(parts) == depth else [])])
        for parts in (a, b)
    )
    return ".".join(a[:depth]), next(ends), next(ends)


def long_files() -> Iterator[str]:
    """Yield sources with too many lines."""
    for path in source_files():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MOST_FILE_LINES:
            yield f"{path.relative_to(ROOT)}: {lines} lines"


def long_functions() -> Iterator[str]:
    """Yield functions with too many lines and no comment that says why."""
    for function in functions_above(MOST_FUNCTION_LINES):
        if not function.has_reason:
            yield f"{function.place}: {function.lines} lines"


def room_of(module: str) -> str:
    rooms = [room for rooms in LAYERS for room in rooms]
    inside = [room for room in rooms if lies_in(room, module)]
    if inside:
        return inside[-1]
    return max((room for room in rooms if lies_in(module, room)), key=len, default="")


def lies_in(module: str, place: str) -> bool:
    return module == place or module.startswith(f"{place}.")


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
