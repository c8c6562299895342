"""What the sources say about themselves: which module imports which, and how long things are.

An arrow is an import that happens when the program runs, at the top of a module or inside a
function, by statement or by a string that names a module (`import_module("dcgym.x")`,
`python -m dcgym.x`, entry points). Imports for type checkers are arrows only where they are asked
for.
"""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINKED = ("topologies", "traffic", "monitors", "policies")
SUFFIXES = {".py", ".c", ".h", ".cpp", ".hpp"}

_OURS = {"dcgym", "experiments", "tests", *LINKED}
_IMPORTERS = {"__import__", "eval", "exec", "import_module", "run_module", "run_path"}
_MODULE = re.compile(r"((?:dcgym|experiments|tests)(?:\.\w+)+)(?::\w+)?")
_FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef
_DEFINITION = re.compile(r"( *)(?:async )?def ")
_IMPORT = re.compile(r"^\s*(?:from|import) +((?:dcgym|experiments|tests)[\w.]*)", re.MULTILINE)


@dataclass(frozen=True)
class Arrow:
    """One module needs another at run time.

    Attributes:
        source: Module that imports.
        target: Module that is imported; None where the program puts its name together.
        place: File and line, from the root of the checkout.
    """

    source: str
    target: str | None
    place: str

    def __str__(self) -> str:
        return f"{self.place}: {self.source} -> {self.target or 'a computed module'}"


@dataclass(frozen=True)
class Function:
    """A function of Python: where it begins, how many lines it has, and what it says of them."""

    place: str
    lines: int
    has_reason: bool


@dataclass(frozen=True)
class Class:
    """A class of the package.

    Attributes:
        module: Module that it stands in.
        name: Its name.
        bases: Names of the classes that it inherits from, without parameters.
        functions: Names of its functions.
        lines: Number of its lines.
    """

    module: str
    name: str
    bases: tuple[str, ...]
    functions: tuple[str, ...]
    lines: int

    def __str__(self) -> str:
        return f"{self.module}.{self.name}: {len(self.functions)} functions"


def source_files() -> list[Path]:
    """Return every source of the checkout; what builds make is not among them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout
    paths = [ROOT / name for name in names.splitlines()]
    return [path for path in paths if path.suffix in SUFFIXES and path.is_file()]


def modules() -> dict[str, Path]:
    """Return the file of each module of the package, by its name in imports."""
    found = {}
    for path in source_files():
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = ("dcgym", *parts) if parts[0] in LINKED else parts
        if path.suffix == ".py" and parts[0] == "dcgym":
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def arrows(*, with_types: bool = False) -> list[Arrow]:
    """Return every arrow from a module of the package to another, or to anything else of ours.

    Args:
        with_types: Imports for type checkers are arrows too.
    """
    files = tuple(
        (name, path.relative_to(ROOT), path.read_text(encoding="utf-8"))
        for name, path in modules().items()
    )
    return _arrows_of(files, with_types)


# Every rule of the layout asks for them, and to find them takes two seconds.
@lru_cache(maxsize=2)
def _arrows_of(files: tuple[tuple[str, Path, str], ...], with_types: bool) -> list[Arrow]:
    paths = {source: path for source, path, _ in files}
    found = set()
    for source, path, text in files:
        package = source if path.name == "__init__.py" else source.rpartition(".")[0]
        for node in _nodes(ast.parse(text), with_types):
            for name in _names_imported(node, package, paths):
                target = name and _module_of(name, paths)
                if (target or name is None) and target != source:
                    place = f"{path}:{node.lineno}"  # type: ignore[attr-defined]
                    found.add(Arrow(source, target, place))
    return sorted(found, key=str)


def lines_with_any() -> Iterator[str]:
    """Yield the place of each line of the package that says `Any`, imports left out."""
    for path, tree in _trees():
        numbers = {node.lineno for node in ast.walk(tree) if _name(node) == "Any"}
        yield from (f"{path}:{number}" for number in sorted(numbers))


def other_names_of_any() -> Iterator[str]:
    """Yield the place of each name that a module of the package gives to `Any`."""
    for path, tree in _trees():
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and _name(node.value) == "Any":
                yield f"{path}:{node.lineno}"


def casts_to(names: Set[str]) -> Iterator[str]:
    """Yield the place of each cast in the package to a type that names one of these."""
    for path, tree in _trees():
        for node in ast.walk(tree):
            is_cast = isinstance(node, ast.Call) and _name(node.func) == "cast"
            if is_cast and names & set(re.findall(r"\w+", ast.unparse(node.args[0]))):
                yield f"{path}:{node.lineno}"


def ignored_types() -> Iterator[str]:
    """Yield the place of each line of the package whose errors of types are ignored."""
    for path in modules().values():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if "# type: ignore" in line:
                yield f"{path.relative_to(ROOT)}:{number}"


def _trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in modules().values():
        yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def _name(node: ast.AST | None) -> str | None:
    """Return the name that an expression is, without the module before it."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def classes() -> list[Class]:
    """Return every class of the package."""
    return _classes_of(
        tuple((name, path.read_text(encoding="utf-8")) for name, path in modules().items())
    )


@lru_cache(maxsize=2)
def _classes_of(files: tuple[tuple[str, str], ...]) -> list[Class]:
    found = []
    for module, text in files:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                functions = [one.name for one in node.body if isinstance(one, _FUNCTIONS)]
                bases = [
                    ast.unparse(one).partition("[")[0].rpartition(".")[2] for one in node.bases
                ]
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                found.append(Class(module, node.name, tuple(bases), tuple(functions), lines))
    return found


def functions_above(most: int) -> Iterator[Function]:
    """Yield every Python function of more lines, with its reason for that if it has one."""
    for path in source_files():
        if path.suffix != ".py":
            continue
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        # To parse all of the checkout takes seconds.
        if not _may_hold_a_function_above(most, lines):
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, _FUNCTIONS):
                continue
            end = node.end_lineno or node.lineno
            if end - node.lineno + 1 > most:
                own = lines[max(0, node.lineno - 2) : end]
                has_reason = any(line.strip().startswith("# Long because ") for line in own)
                place = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                yield Function(place, end - node.lineno + 1, has_reason)


def _may_hold_a_function_above(most: int, lines: list[str]) -> bool:
    """Tell whether more lines lie between a function and the next one that is not inside it."""
    begins: list[tuple[int, int]] = []
    is_text = False
    for number, line in enumerate(lines):
        found = None if is_text else _DEFINITION.match(line)
        is_text ^= (line.count('"""') + line.count("'''")) % 2 == 1
        if found:
            while begins and begins[-1][0] >= len(found[1]):
                begins.pop()
            begins.append((len(found[1]), number))
        if begins and number - begins[0][1] >= most:
            return True
    return False


def _module_of(name: str, paths: dict[str, Path]) -> str | None:
    """Return the module that a dotted name lies in; None if it is not of this checkout."""
    parts = name.split(".")
    if parts[0] != "dcgym":
        return name if parts[0] in _OURS else None
    while ".".join(parts) not in paths:
        parts.pop()
    return ".".join(parts)


def _nodes(node: ast.AST, with_types: bool) -> Iterator[ast.AST]:
    """Yield every node below one, but docstrings, and what only type checkers read if not asked."""
    for child in ast.iter_child_nodes(node):
        is_typing = isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
        if is_typing and not with_types:
            for other in child.orelse:
                yield other
                yield from _nodes(other, with_types)
        elif not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):
            yield child
            yield from _nodes(child, with_types)


def _names_imported(node: ast.AST, package: str, paths: dict[str, Path]) -> Iterator[str | None]:
    """Yield the dotted name of everything that a node imports; None for one that it computes."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = [*(above if node.level else []), *([node.module] if node.module else [])]
        yield from (".".join([*base, alias.name]) for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        match = _MODULE.fullmatch(node.value)
        # A text that names no module, such as an entry-point group, is no import.
        if match and _module_of(match[1], paths) != "dcgym":
            yield match[1]
        yield from _IMPORT.findall(node.value)
    elif _is_computed(node):
        yield None


def _is_computed(node: ast.AST) -> bool:
    """Tell whether a node puts the name of a module together.

    A name that arrives from elsewhere is no arrow here: where it was written it is one.
    """
    if isinstance(node, ast.JoinedStr | ast.BinOp):
        return any(_text(part).split(".")[0] in {"dcgym", "experiments"} for part in _pieces(node))
    if isinstance(node, ast.List | ast.Tuple):
        words = itertools.pairwise(node.elts)
        return any(_text(flag) == "-m" and _is_made_here(name) for flag, name in words)
    if not isinstance(node, ast.Call) or not node.args:
        return False
    called = ast.unparse(node.func).rpartition(".")[2]
    is_relative = _text(node.args[0]).startswith(".")
    return called in _IMPORTERS and (is_relative or _is_made_here(node.args[0]))


def _is_made_here(name: ast.AST) -> bool:
    """Tell whether an expression makes a text of which not even the package is fixed."""
    if isinstance(name, ast.Constant | ast.Name | ast.Attribute | ast.Subscript):
        return False
    return "." not in _text(next(_pieces(name), name))


def _pieces(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.JoinedStr):
        yield from node.values
    elif isinstance(node, ast.BinOp):
        yield from (node.left, node.right)


def _text(node: ast.AST) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""
