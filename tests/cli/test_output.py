"""Output where it is hard: locales without UTF-8, full disks, readers that have gone."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from dcgym.cli.doctor.check import Check
from dcgym.cli.flows import print_apps
from dcgym.cli.output import write_in_any_locale
from dcgym.cli.tables import print_doctor, print_names
from tests.support.source_tree import ROOT

PLAIN = {
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "ascii",
}


def dcgym(*arguments, stdout=subprocess.PIPE, **environment):
    return subprocess.run(
        [sys.executable, "-m", "dcgym", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        check=False,
    )


def test_signs_become_plain_ones_and_everything_is_written(monkeypatch):
    for encoding, expected in (
        ("ascii", b"-1.5 +- 2 us -> Zurich ? ?"),
        ("latin-1", b"-1.5 \xb1 2 \xb5s -> Z\xfcrich ? ?"),
        ("utf-8", "\u22121.5 ± 2 µs → Zürich 鷺 ?".encode()),
    ):
        written = io.BytesIO()
        stream = io.TextIOWrapper(written, encoding)
        monkeypatch.setattr(sys, "stdout", stream)
        write_in_any_locale()
        # The last sign stands for a byte of a path that is no UTF-8.
        print("\u22121.5 ± 2 µs → Zürich 鷺 \udcff", end="", flush=True)
        assert written.getvalue() == expected
        monkeypatch.undo()


@pytest.mark.simulation
def test_a_sweep_and_its_report_end_well_in_a_plain_locale(tmp_path):
    arguments = ["--env", "LoadBalancing-v1", "--policies", "sed", "--set", "interval=0.5"]
    arguments += ["--seeds", "1", "--seconds", "2", "--jobs", "0", "--out", str(tmp_path / "out")]
    # A folder for temporary files that is missing does not matter either.
    done = dcgym("sweep", *arguments, TMPDIR=str(tmp_path / "nowhere"), **PLAIN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() and done.stdout.count(b"sed") >= 1
    assert "\u2212" in (tmp_path / "out" / "report.html").read_text("utf-8")


def test_a_full_disk_is_one_line():
    with open("/dev/full", "wb") as full:
        done = dcgym("list", "--json", stdout=full)
    assert done.returncode == 1
    assert done.stderr == b"dcgym: [Errno 28] No space left on device\n"


def test_a_reader_that_has_gone_is_told_nothing():
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as closed:
        done = dcgym("list", "policies", stdout=closed)
    assert (done.returncode, done.stderr) == (1, b"")


def test_tables_in_files_are_not_cut(capsys):
    long, longer = "x" * 300, "y" * 500
    print_names({"policy": {long: longer}})
    print_doctor([Check("tools", long, True, longer, True, "", "")], ready=True)
    print_apps([{"host": "h1", "command": long, "start_s": 0.0, "duration_s": 1.0}])
    printed = capsys.readouterr().out
    assert (printed.count(long), printed.count(longer)) == (3, 2)
