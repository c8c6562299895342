"""Devices, pipes and files beyond all measure are refused in one line, and never read whole."""

from __future__ import annotations

import ast
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from dcgym.containers import check_tensors, open_archive, read_parquet_bytes
from dcgym.errors import ConfigError
from dcgym.files import describe_file, read_text
from dcgym.policies import load_policy
from dcgym.policies.checkpoint import CHECKPOINT_FILE
from dcgym.policies.learned.actor_files import ACTOR_FILE, WEIGHTS_FILE
from dcgym.policies.learned.states import read_state
from dcgym.policies.trained import TRAINED
from dcgym.reading import FLOWS, NOTE, TEXT, Kind, check_folder, read_bytes, reading
from dcgym.suites.results import load_records, read_table
from dcgym.yaml_text import parse_yaml
from tests.core.test_files import DOORS
from tests.support.source_tree import ROOT, source_files

pytestmark = pytest.mark.simulation

PLACES: dict[str, tuple[str, Callable[[Path], object]]] = {
    **{name: (door[0], door[1]) for name, door in DOORS.items() if name != "checkpoint"},
    "note": (CHECKPOINT_FILE, lambda path: load_policy(path.parent)),
    "facts of a network": (ACTOR_FILE, lambda path: load_policy(path.parent)),
    "weights": (WEIGHTS_FILE, lambda path: load_policy(path.parent)),
    "progress": ("state/state.json", lambda path: read_state(path.parents[1])),
    "state": ("x.pt", lambda path: open_archive(path, "resume").__enter__()),
    "folder of a library": ("x.pkl", lambda path: check_folder(path.parent, "resume", TEXT)),
    "record": ("runs/a/summary.json", lambda path: load_records(path.parents[2])),
    "steps": ("steps.parquet", read_table),
}
"""The name of a file, and what reads it, or the folder that it is in."""

HOSTILE: dict[str, tuple[Callable[[Path], object], str]] = {
    "device": (lambda path: path.symlink_to("/dev/zero"), "a regular file; this is a device"),
    "pipe": (os.mkfifo, "a regular file; this is a pipe (FIFO)"),
    "huge": (lambda path: _make_sparse(path, 10**13), "a file of at most "),
    "folder": (Path.mkdir, "a regular file; this is a folder"),
}
NO_FILES = {"folder of a library, folder"}

MAY_OPEN = (
    *("dcgym/reading.py", "dcgym/writing.py", "dcgym/containers.py", "dcgym/processes.py"),
    "dcgym/native/",
    *("dcgym/cli/doctor/", "dcgym/backends/emulation/", "traffic/generators/"),
)
"""Sources that read what the kernel or dcgym itself has written, and the one that writes."""
OWN = {
    "dcgym/suites/workers.py": "the log of a worker",
    "dcgym/suites/results.py": "/proc/cpuinfo, and the package's commit",
    "dcgym/suites/wheels.py": "the files of the package",
    "dcgym/places.py": "a lock",
    "traffic/http/programs.py": "a certificate of its own",
}
OPENERS = {
    *("open", "read_bytes", "read_text", "read_parquet", "scan_parquet", "read_csv", "scan_csv"),
    *("load_file", "safe_open", "read_graphml", "read_gml", "fromfile", "loadtxt"),
}
CHECKED = ("content", "io.BytesIO(content", "read_parquet_bytes(", "f'/proc/self/fd/")


def test_what_is_no_file_of_sane_size_is_refused(tmp_path: Path) -> None:
    # In a process that may not have much memory: a reader that is left out must not take all.
    command = [sys.executable, "-m", "tests.core.test_reading", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.stderr == ""
    said = json.loads(done.stdout)
    assert {*said} == {f"{place}, {kind}" for place in PLACES for kind in HOSTILE} - NO_FILES
    for case, text in said.items():
        assert HOSTILE[case.rpartition(", ")[2]][1] in text, case
        assert "\n" not in text


def test_the_command_line_refuses_a_device() -> None:
    command = [sys.executable, "-m", "dcgym", "run", "--config", "/dev/zero"]
    limit = (4 * 10**9, 4 * 10**9)
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("dcgym: config: value '/dev/zero' is not")


def test_a_file_at_its_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("1, " * 10)
    (tmp_path / "link").symlink_to(path)
    assert read_bytes(tmp_path / "link", "x", Kind(30)) == path.read_bytes()
    assert read_text(path, "x", kind=Kind(30, 20)) == path.read_text()
    with pytest.raises(ConfigError, match="at most 29 bytes; this one has 30"):
        read_bytes(path, "x", Kind(29))
    with pytest.raises(ConfigError, match="at most 10 words, brackets and commas"):
        read_text(path, "x", kind=Kind(30, 10))
    # A file of /proc says that it is empty.
    assert read_bytes("/proc/self/status", "x", NOTE).startswith(b"Name:")
    with pytest.raises(ConfigError, match="at most 9 bytes; this one has more"):
        read_bytes("/proc/self/status", "x", Kind(9))


@pytest.mark.parametrize("text", ["1,", "[],", "- 1\n", ": \n", '"",', "<a/>", "{: , : },"])
def test_values_are_counted_before_they_are_made(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(text * 1000)
    with pytest.raises(ConfigError, match="at most 900 words, brackets and commas"):
        read_text(path, "x", kind=Kind(10**6, 900))


def test_mappings_that_refer_to_each_other_end() -> None:
    fields = ", ".join(f"k{number}: 1" for number in range(2000))
    with pytest.raises(ConfigError, match=r"<< may bring at most 1,000,000 fields, line 2"):
        parse_yaml(f"a: &a {{{fields}}}\nb: {{<<: [{'*a, ' * 1000}]}}", "x")
    assert parse_yaml("a: &a {k: 1}\nb: {<<: *a, l: 2}", "x") == {
        "a": {"k": 1},
        "b": {"k": 1, "l": 2},
    }


def test_tensors_are_counted() -> None:
    one = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    for count, allowed in ((300_000, "1,000 tensors"), (1_001, "1,000 tensors")):
        head = json.dumps({f"t{number}": one for number in range(count)}).encode()
        file = io.BytesIO(len(head).to_bytes(8, "little") + head)
        with pytest.raises(ConfigError, match=f"at most {allowed}"):
            check_tensors(file, "x", "checkpoint")
    with pytest.raises(ConfigError, match="a head of at most 1,000,000 bytes"):
        check_tensors(io.BytesIO((10**7).to_bytes(8, "little") + bytes(10**7)), "x", "checkpoint")


def test_archives_and_tables_are_measured_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(10**7))
    limit, unpacks = Kind(10**6), "unpacks to at most 1,000,000 bytes"
    with pytest.raises(ConfigError, match=unpacks), open_archive(path, "resume", limit):
        pass
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(10_001):
            archive.writestr(str(number), b"")
    with pytest.raises(ConfigError, match="at most 10,000 entries"), open_archive(path, "resume"):
        pass
    pl.DataFrame({"a": pl.repeat(0, 10**6, eager=True)}).write_parquet(path)
    with pytest.raises(ConfigError, match="at most 999,999 values; this one has 1,000,000"):
        read_parquet_bytes(path, "x", FLOWS._replace(most_values=999_999))
    pl.DataFrame({"a": ["x" * 10**7]}).write_parquet(path)
    with pytest.raises(ConfigError, match=unpacks):
        read_parquet_bytes(path, "x", limit)


@pytest.mark.parametrize("name", ["missing", "null\0character"])
@pytest.mark.parametrize("door", [*(name for name in DOORS if name in PLACES), "state"])
def test_what_cannot_be_read_is_refused_with_the_reason(
    door: str, name: str, tmp_path: Path
) -> None:
    suffix, read = Path(PLACES[door][0]).suffix, PLACES[door][1]
    with pytest.raises(ConfigError, match=r" that can be read \((No such file|embedded null)"):
        read(tmp_path / f"{name}{suffix}")


def test_errors_without_a_number_have_a_reason_too() -> None:
    refused = pytest.raises(ConfigError, match=r"a table that can be read \(cut off\)$")
    with refused, reading("x", "traffic", "a table"):
        raise OSError("cut off")


def test_a_pipe_is_described_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert describe_file(tmp_path / "pipe") == "nothing that can be read (no regular file)"


def test_nothing_opens_files_by_itself() -> None:
    assert [place for place in openings() if not place.startswith(MAY_OPEN)] == []


def openings() -> Iterator[str]:
    """Yield calls that open a file by its path, outside the sources of `OWN`."""
    for path in source_files():
        name = str(path.relative_to(ROOT))
        is_package = name.startswith(
            ("dcgym/", "topologies/", "traffic/", "monitors/", "policies/")
        )
        if path.suffix != ".py" or not is_package or name in OWN:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and _called(node) in OPENERS and not _is_checked(node):
                yield f"{name}:{node.lineno}"


def _called(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _is_checked(call: ast.Call) -> bool:
    """Tell whether a call is one of `dcgym.reading` or `dcgym.files`, or has content."""
    first = ast.unparse(call.args[0]) if call.args else ""
    is_ours = isinstance(call.func, ast.Name) and call.func.id in ("read_bytes", "read_text")
    return is_ours or first.startswith(CHECKED)


def _make_sparse(path: Path, size: int) -> None:
    path.touch()
    os.truncate(path, size)


def _refusals(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what each reader says of each hostile file."""
    for number, (place, (name, read)) in enumerate(PLACES.items()):
        for kind, (make, _) in HOSTILE.items():
            path = folder / str(number) / kind / name
            if name in (ACTOR_FILE, WEIGHTS_FILE):
                shutil.copytree(TRAINED["balancing-v1"], path.parent)
                path.unlink()
            path.parent.mkdir(parents=True, exist_ok=True)
            make(path)
            try:
                read(path)
            except ConfigError as error:
                yield f"{place}, {kind}", str(error)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (4 * 10**9, 4 * 10**9))
    print(json.dumps(dict(_refusals(Path(sys.argv[1])))))
