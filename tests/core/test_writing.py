"""What no file or folder can be written at is refused in one line, before anything is run."""

from __future__ import annotations

import ast
import errno
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dcgym.envs.session import Session
from dcgym.errors import ConfigError
from dcgym.policies import LEARNERS
from dcgym.policies.checkpoint import CheckpointNote, write_note
from dcgym.suites import RunSpec, rollout
from dcgym.suites.congestion import quick
from dcgym.suites.recordings import RecordingSpec, record_dataset
from dcgym.suites.reports.exports import exporting
from dcgym.suites.reports.html import write_page
from dcgym.suites.results import write_json
from dcgym.suites.runner import run_suite
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan
from dcgym.traffic.analysis.drawing import draw_plan
from dcgym.traffic.http.files import save_requests
from dcgym.traffic.http.results import RequestResults
from dcgym.traffic.plans.applications import App, AppPlan
from dcgym.traffic.vips.files import write_vips
from dcgym.traffic.vips.table import VipTable
from dcgym.writing import (
    LONGEST_FOLDER_BYTES,
    check_output,
    open_output,
    prepare_folder,
    real_path,
    write_file,
    write_table,
)
from tests.support.graphs import a_triangle
from tests.support.source_tree import ROOT, source_files
from tests.traffic.http.test_plans import make as make_requests

pytestmark = pytest.mark.simulation

POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 2}
SUITE = replace(quick(), policies=("cubic",), seeds=1, jobs=0)
DUMBBELL = make_topology("dumbbell")
PLAN = make_plan("all-to-all", DUMBBELL, 0)


def _write_results(path: Any) -> None:
    plan = make_requests()
    results = RequestResults(plan, plan.clients)
    try:
        results.write(path)
    finally:
        results.close()


def _export(path: Any) -> None:
    with exporting(path, Path("results")):
        pass


FILES: dict[str, tuple[str, Callable[[Any], object]]] = {
    "topology": (".yaml", lambda path: a_triangle().save(path)),
    "graph": (".graphml", lambda path: a_triangle().save(path)),
    "drawing": (".svg", lambda path: a_triangle().draw(path)),
    "plan": (".json", PLAN.save),
    "plan, table": (".parquet", PLAN.save),
    "plan, picture": (".pdf", partial(draw_plan, PLAN, DUMBBELL)),
    "requests": (".csv", lambda path: save_requests(make_requests(), path)),
    "results": (".parquet", _write_results),
    "vips": (".csv", lambda path: write_vips(path, [VipTable.of([{0: 1.0}], [{0: 1}])])),
    "markdown": (".md", lambda path: check_output(path, "markdown")),
    "table": (".parquet", lambda path: write_table(path, "out", pl.DataFrame({"a": [1]}))),
    "content": ("", lambda path: write_file(path, "out", b"new")),
}
"""What ends the name of a file, and what writes one."""

FOLDERS: dict[str, Callable[[Any], object]] = {
    "suite": lambda path: run_suite(SUITE, path),
    "run": lambda path: rollout.run_episode(RunSpec(env=POOL, policy="sed", steps=2, folder=path)),
    "recording": lambda path: record_dataset(RecordingSpec(env=POOL, policy="sed", out=path)),
    "training": lambda path: LEARNERS["cma-es"].train(POOL, 1, 0, path),
    "export": _export,
    "output of applications": lambda path: AppPlan(
        "apps", 0, [App("h1", ("true",))], path
    ).check_machine(),
    "experiment": prepare_folder,
}
"""What writes into a folder."""


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


Make = Callable[[Path], object]


# What lies at a path or is in its place; the path that is given; what the line says.
class _Failing:
    """An object that is a path and does not say which."""

    def __fspath__(self) -> str:
        raise ArithmeticError("asked")


BAD: dict[str, tuple[Make, Callable[[Path], object], str]] = {
    "loop": (lambda path: path.symlink_to(path), Path, "levels of symbolic links"),
    "in a file": (lambda path: path.touch(), lambda path: path / path.name, "Not a directory"),
    "deep": (lambda path: None, lambda path: Path("a/" * 2000, path.name), ""),
    "long name": (lambda path: None, lambda path: path.with_name("n" * 300 + path.name), "too lo"),
    "long": (lambda path: None, lambda path: Path(*(["n" * 200] * 25), path.name), ""),
    "no text": (lambda path: None, lambda path: path.with_name("\udcff" + path.name), "UTF-8"),
    "leads to no text": (
        lambda path: path.symlink_to(path.with_name("\udcff" + path.name)),
        Path,
        "names in UTF-8 only",
    ),
    "null character": (lambda path: None, lambda path: f"{path.parent}/\0{path.name}", "null"),
    "empty": (lambda path: None, lambda path: "", "a path (text)"),
    "bytes": (lambda path: None, os.fsencode, "a path (text)"),
    "number": (lambda path: None, lambda path: 7, "a path (text)"),
    "object": (lambda path: None, lambda path: object(), "a path (text)"),
    "failing": (lambda path: None, lambda path: _Failing(), "a path (text)"),
    "scalar": (lambda path: None, lambda path: np.void(b"x"), "a path (text)"),
    "pipe": (os.mkfifo, Path, ""),
    "device": (lambda path: path.symlink_to("/dev/null"), Path, ""),
    "full device": (lambda path: path.symlink_to("/dev/full"), Path, ""),
    "socket": (_socket, Path, ""),
}


@pytest.fixture(autouse=True)
def deadline() -> Iterator[None]:
    """End a test that waits for the other end of a pipe."""
    signal.alarm(120)
    yield
    signal.alarm(0)


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Fail where a run or a training begins, or another place is written."""
    # Of the class, as modules that are loaded in a test keep the functions that they find.
    monkeypatch.setattr(Session, "begin", lambda *_, **__: pytest.fail("something began"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", FILES)
def test_what_is_no_place_for_a_file_is_refused(place: str, bad: str, tmp_path: Path) -> None:
    suffix, write = FILES[place]
    refusal = _refused(write, bad, tmp_path / f"x{suffix}")
    if bad in ("pipe", "device", "full device", "socket"):
        assert "a regular file or a new one" in refusal


@pytest.mark.parametrize("place", FILES)
def test_a_folder_is_no_place_for_a_file(place: str, tmp_path: Path) -> None:
    suffix, write = FILES[place]
    (tmp_path / f"x{suffix}").mkdir()
    with pytest.raises(ConfigError, match="a regular file or a new one"):
        write(tmp_path / f"x{suffix}")


@pytest.mark.parametrize("place", [one for one in FILES if one not in ("markdown", "content")])
def test_a_suffix_counts_in_capitals_and_others_are_refused(place: str, tmp_path: Path) -> None:
    suffix, write = FILES[place]
    write(tmp_path / f"x{suffix.upper()}")
    assert (tmp_path / f"x{suffix.upper()}").stat().st_size > 0
    with pytest.raises(ConfigError, match=r"^suffix of x\.docx: value '\.docx' is not allowed"):
        write(tmp_path / "x.docx")
    assert [path.name for path in tmp_path.iterdir()] == [f"x{suffix.upper()}"]


@pytest.mark.parametrize("bad", [*BAD, "file"])
@pytest.mark.parametrize("place", FOLDERS)
def test_what_is_no_place_for_a_folder_is_refused(place: str, bad: str, tmp_path: Path) -> None:
    _refused(FOLDERS[place], bad, tmp_path / "x")


def _refused(write: Callable[[Any], object], bad: str, path: Path) -> str:
    """Return what a writer says of a bad path, and check that nothing was left."""
    make, given, words = BAD.get(bad, (Path.touch, Path, ""))
    make(path)
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(ConfigError) as caught:
        write(given(path))
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert sorted(path.parent.rglob("*")) == before
    return str(caught.value)


def test_something_else_in_the_place_of_a_result_is_found_first(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "summary.json")
    with pytest.raises(ConfigError, match="a regular file or a new one"):
        FOLDERS["run"](str(tmp_path))
    (tmp_path / "results.parquet").mkdir()
    with pytest.raises(ConfigError, match="a regular file or a new one"):
        FOLDERS["suite"](tmp_path)
    os.mkfifo(tmp_path / "0-h1.out")
    with pytest.raises(ConfigError, match="a regular file or a new one"):
        FOLDERS["output of applications"](tmp_path)
    (tmp_path / "state").touch()
    with pytest.raises(ConfigError, match="a folder, or nothing"):
        FOLDERS["training"](tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "bench quick --policies cubic --backend simulation --out loop",
        "run --backend simulation --out bad\udcff",
        "run --backend simulation --out=",
        "train --algo cma-es --env LoadBalancing-v1 --out pipe",
        "record --policy sed --env LoadBalancing-v1 --out file",
        "twin-error balancing --markdown pipe",
        "traffic show all-to-all --save pipe.json",
        "traffic show all-to-all --save new.json --plot pipe.svg",
        "draw dumbbell pipe.svg",
        "report file --export loop",
    ],
)
def test_the_command_line_refuses_it_in_one_line(command: str, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").touch()
    for name in ("pipe", "pipe.json", "pipe.svg"):
        os.mkfifo(tmp_path / name)
    before = sorted(tmp_path.iterdir())
    words = [sys.executable, "-m", "dcgym", *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2
    assert [line[:7] for line in done.stderr.splitlines()] == ["dcgym: "], done.stderr
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("place", [one for one in FILES if one != "markdown"])
def test_a_full_disk_leaves_the_old_file(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suffix, write = FILES[place]
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"old")

    def replace(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", replace)
    with pytest.raises(ConfigError, match="No space left on device"):
        write(path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_what_polars_says_of_a_full_disk_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise pl.exceptions.ComputeError("No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(ConfigError, match="No space left on device"):
        write_table(tmp_path / "x.parquet", "out", pl.DataFrame())
    assert list(tmp_path.iterdir()) == []


def test_a_link_stays_and_its_file_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    write_file(tmp_path / "link", "out", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o640
    (tmp_path / "dangling").symlink_to("other")
    write_file(tmp_path / "dangling", "out", b"new")
    assert (tmp_path / "other").read_bytes() == b"new"


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EACCES])
def test_a_file_whose_folder_takes_no_other_is_written_in_place(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x").write_bytes(b"old")

    def replace(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", replace)
    write_file(tmp_path / "x", "out", b"new")
    assert (tmp_path / "x").read_bytes() == b"new"
    with pytest.raises(ConfigError, match="a file that can be written"):
        write_file(tmp_path / "y", "out", b"new")


def test_names_and_folders_at_their_limits_are_written(tmp_path: Path) -> None:
    write_file(tmp_path / ("n" * 255), "out", b"new")
    room = LONGEST_FOLDER_BYTES - len(os.fsencode(tmp_path))
    folder = Path(tmp_path, *(["n" * 99] * ((room - 1) // 100)))
    assert prepare_folder(folder) == folder
    write_json(folder / "runs" / ("n" * 240) / "summary.json", {})
    write_page(folder, "page")
    deep = Path(tmp_path, *"a" * (room // 2 - 1))
    try:
        assert prepare_folder(deep).is_dir()
    finally:
        # Python's own way calls itself for each folder.
        subprocess.run(["rm", "-rf", tmp_path / "a"], check=True)
    with pytest.raises(ConfigError, match="at most 3,000 bytes"):
        real_path(deep / "a" / "b", "out")


def test_a_checkpoint_and_a_log_wait_for_no_pipe(tmp_path: Path) -> None:
    for name in ("dcgym_policy.json", "log.txt"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigError, match="a regular file"):
        write_note(tmp_path, CheckpointNote("ppo", "sb3"))
    with pytest.raises(ConfigError, match="a regular file"):
        open_output(tmp_path / "log.txt", "out")


OWN = {
    "dcgym/writing.py": "what writes",
    "dcgym/suites/recordings.py": "name spaces of Minari, below a folder that was prepared",
    "policies/learned/states.py": "a state, below a folder that was prepared",
    "policies/learned/training.py": "the best checkpoint, below a folder that was prepared",
}
"""Sources that write what no user has named."""
MAY_WRITE = ("dcgym/backends/emulation/", "dcgym/native/", "dcgym/cli/doctor/")
WRITERS = {
    *("mkdir", "makedirs", "write_text", "write_bytes", "touch", "savefig", "to_file"),
    *("write_csv", "write_parquet", "write_graphml", "copyfile", "tofile"),
}
MEMORY = ("to", "buffer", "text")
"""What the sources call the file that `write_file` hands out, and files in memory."""


def test_nothing_writes_by_itself() -> None:
    assert list(writings()) == []


def writings() -> Iterator[str]:
    """Yield calls that write a file or make a folder by its path, outside the sources of `OWN`."""
    for path in source_files():
        name = str(path.relative_to(ROOT))
        is_package = name.startswith(
            ("dcgym/", "topologies/", "traffic/", "monitors/", "policies/")
        )
        if path.suffix != ".py" or not is_package or name in OWN or name.startswith(MAY_WRITE):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _writes(node):
                yield f"{name}:{node.lineno}"


def _writes(call: ast.Call) -> bool:
    """Tell whether a call writes at a path that is not handed out by `write_file`."""
    called = getattr(call.func, "attr", getattr(call.func, "id", ""))
    texts = [one.value for one in ast.walk(call) if isinstance(one, ast.Constant)]
    if called == "open":
        return any(text in ("w", "wb", "a", "ab", "x", "xb", "w+", "r+") for text in texts)
    given = [ast.unparse(one) for one in (call.func, *call.args)]
    return called in WRITERS and not any(one in MEMORY or one.startswith("to.") for one in given)
