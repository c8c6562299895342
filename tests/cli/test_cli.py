from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

from dcgym import __version__
from dcgym.cli import main
from dcgym.cli.bench import bench_app
from dcgym.envs.registration import BUILT_IN
from dcgym.suites import SUITES, Case, Suite

COMMANDS = ("doctor", "list", "run", "train", "draw", "report", "sweep", "clean")


def dcgym(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process: a start of Python each would take most of the time."""
    out, errors, code = io.StringIO(), io.StringIO(), 0
    settings = {"COLUMNS": "120", "NO_COLOR": "1", **environment}
    with redirect_stdout(out), redirect_stderr(errors), mock.patch.dict(os.environ, settings):
        try:
            main(list(arguments))
        except SystemExit as stopped:
            code = int(stopped.code or 0)
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), errors.getvalue())


@pytest.mark.parametrize(
    "command",
    [
        *((name,) for name in COMMANDS),
        *(("bench", suite) for suite in ("quick", "balancing-classic", "modern-balancing")),
    ],
)
def test_help_shows_an_example(command: tuple[str, ...]) -> None:
    done = dcgym(*command, "--help")
    assert done.returncode == 0
    assert f"Example: dcgym {command[0]}" in done.stdout


def test_version() -> None:
    assert dcgym("--version").stdout.strip() == __version__


def test_a_process_of_its_own_says_the_same() -> None:
    command = [sys.executable, "-m", "dcgym", "run", "--policy", "cubik"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("dcgym: policy: value 'cubik'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--policy", "cubik"), "did you mean 'cubic'"),
        (("run", "--topology", "dumbell"), "did you mean 'dumbbell'"),
        (("run", "--seconds", "-1"), "seconds"),
        (("run", "--seed", "-1"), "seed: value -1"),
        (("train", "--algo", "ppo", "--seed", "-1", "--out", "/tmp"), "seed: value -1"),
        (("train", "--algo", "dpg"), "did you mean 'ddpg'"),
        (("train", "--preset", "iroko-dpg"), "did you mean 'iroko-ddpg'"),
        (("train", "--preset", "iroko-ddpg", "--algo", "ddpg"), "none with --preset"),
        (("train", "--algo", "ppo", "--library", "sb4"), "did you mean 'sb3'"),
        (("train", "--algo", "appo", "--library", "sb3"), "allowed: rllib for appo"),
        (("train", "--resume", "--out", "no-such-folder"), "checkpoint"),
        (("train", "--algo", "cma-es", "--env", "LoadBalancing-v1", "--set", "sigm=1"), "'sigma'"),
        (("run", "--policy", "ppo"), "--checkpoint"),
        (("run", "--policy", "ppo"), "dcgym train --algo ppo"),
        (("run", "--policy", "hlb"), "hlb is for balancing environments"),
        (("bench", "balancing-classic", "--seconds", "60"), "seconds: value 60.0"),
        (("sweep",), "sweep: value 'nothing'"),
        (("bench", "quick", "--policies", "dctpc"), "did you mean 'dctcp'"),
        (("bench", "quick", "--seeds", "0"), "seeds"),
        (("bench", "quick", "--traffic", "web-serch-0.5"), "did you mean 'web-search"),
        (("run", "--traffic", "{apps: {h1: no-such-program}}"), "traffic.apps.h1"),
        (("run", "--generator", "iperf"), "did you mean 'iperf3'"),
        (("bench", "quick", "--generator", "gobn"), "did you mean 'goben'"),
        (("bench", "balancing-classic", "--load", "1.2"), "load"),
        (("bench", "balancing-classic", "--policies", "cubic"), "policies"),
        (("bench", "balancing-quick", "--policies", "hbl"), "did you mean 'hlb'"),
        (("bench", "quick", "--policies", "cubic", "--out", "/proc/none"), "can be written"),
        (("sweep", "--set", "trafic.load=0.2"), "did you mean 'traffic'"),
        (("sweep", "--require-fidelity", "good"), "require_fidelity"),
        (("sweep", "no-such-file"), "sweep: value 'no-such-file'"),
        (("list", "policy"), "kind"),
        (("train", "--algo", "ppo", "--out", "/proc/none"), "out"),
        (("report", "no-such-folder"), "folder"),
        (("draw", "dumbell", "x.svg"), "did you mean 'dumbbell'"),
        (("draw", "dumbbell", "x.svg", "--set", "hosts"), "--set: value 'hosts'"),
        (("draw", "dumbbell", "x.svg", "--set", "host=8"), "did you mean 'hosts'"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments: tuple[str, ...], words: str) -> None:
    done = dcgym(*arguments)
    assert done.returncode == 2, done.stderr
    # A progress bar may stand beside it.
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("dcgym: ")]
    assert words in line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("nosuch",), "command: value 'nosuch' is not allowed; allowed: sweep, report, doctor, "),
        (("runn",), "did you mean 'run'?"),
        (("--nosuch",), "option: value '--nosuch' is not allowed; allowed: --version, "),
        (("run", "--sed", "1"), "option: value '--sed' is not allowed; allowed: --env, --policy, "),
        (("run", "--sed", "1"), "did you mean '--seed'?"),
        (("run", "--seed", "x"), "--seed: value 'x' is not allowed; allowed: a whole number (Seed"),
        (("run", "--seed=1.5"), "--seed: value '1.5' is not allowed; allowed: a whole number"),
        (("run", "--seconds", "1o"), "--seconds: value '1o' is not allowed; allowed: a number"),
        (("run", "--seed"), "--seed: a value is missing; allowed: a whole number (Seed of plan"),
        (("run", "--json=3"), "--json: value '3' is not allowed; allowed: no value"),
        (("train",), "algo: value None is not allowed; allowed: ppo, appo, sac, ddpg"),
        (("draw",), "topology: a value is missing; allowed: a text (A name or a file)"),
        (("list", "a", "b"), "list: value 'b' is not allowed; allowed: kind, and nothing more"),
        (("doctor", "x"), "doctor: value 'x' is not allowed; allowed: options only"),
        (("bench", "nosuch"), "command: value 'nosuch' is not allowed; allowed: quick, "),
        (("bench", "quick", "--jobs", "many"), "--jobs: value 'many' is not allowed; allowed: a "),
        (("traffic", "shww"), "did you mean 'show'?"),
        (("traffic", "show"), "plan: a value is missing"),
        (("top", "--period", "often"), "--period: value 'often' is not allowed; allowed: a number"),
    ],
)
def test_usage_errors_look_like_the_others(arguments: tuple[str, ...], line: str) -> None:
    done = dcgym(*arguments)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("dcgym: ") and done.stderr.count("\n") == 1
    assert line in done.stderr


def test_a_group_without_a_command_shows_its_help() -> None:
    done = dcgym("traffic")
    assert done.returncode == 2 and "Usage: dcgym traffic" in done.stdout and not done.stderr


def test_a_run_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    done = dcgym("top", "nosuch", DCGYM_RUN_DIR=str(tmp_path))
    assert done.returncode == 2
    assert "value 'nosuch' is not allowed; allowed: none, as no emulation is" in done.stderr


def test_list_as_json() -> None:
    names = json.loads(dcgym("list", "policies", "--json").stdout)["policies"]
    assert {"cubic", "dctcp", "fair-share", "random", "ppo", "ddpg"} <= set(names)


def test_list_environments() -> None:
    names = json.loads(dcgym("list", "environments", "--json").stdout)
    assert names == {"environments": sorted(BUILT_IN)}


def test_list_suites_says_what_each_is_and_needs() -> None:
    names = json.loads(dcgym("list", "suites", "--json").stdout)["suites"]
    assert {"quick", "balancing-classic", "balancing-quick", "balancing-twin-error"} <= set(names)
    lines = dcgym("list", "suites", COLUMNS="200").stdout.splitlines()
    (quick,) = [line for line in lines if line.split()[0] == "quick"]
    assert "10 Mbit/s bottleneck" in quick and "Needs root" in quick
    (classic,) = [line for line in lines if line.split()[0] == "balancing-classic"]
    assert "in the twin" in classic and "Needs neither root" in classic


def test_every_kind_of_name_has_an_entry() -> None:
    found = json.loads(dcgym("list", "--json").stdout)
    assert {"rules", "learners", "network-backends", "pool-backends", "presets"} <= set(found)
    assert all(found.values())


def test_a_suite_without_options_of_its_own_is_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"backend": "dcgym.testing:FakeBackend", "traffic": "pairs-udp"}
    suite = Suite("small-test", "One case.", (Case(env),), ("cubic", "dctcp"), jobs=0)
    monkeypatch.setattr(bench_app, "registered_commands", list(bench_app.registered_commands))
    SUITES.add(suite.name, suite, suite.description)
    try:
        command = ("bench", "small-test", "--policies", "cubic", "--seeds", "1", "--seconds", "3")
        done = dcgym(*command, "--out", str(tmp_path), "--json")
    finally:
        SUITES.remove(suite.name)
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    assert (record["policy"], record["config"]["steps"]) == ("cubic", 60)


def test_draw_names_its_picture_after_the_topology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert dcgym("draw", "dumbbell").stdout.strip() == "dumbbell.svg"
    assert "<svg" in (tmp_path / "dumbbell.svg").read_text()


def test_draw_writes_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "dumbbell.svg"
    assert dcgym("draw", "dumbbell", str(picture), "--set", "hosts=6").returncode == 0
    assert "<svg" in picture.read_text()


def test_clean_forgets_dead_runs_only(tmp_path: Path) -> None:
    own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    living = {"id": "alive", "pid": os.getpid(), "start_time_ticks": int(own[19])}
    dead = {"id": "dead", "pid": os.getpid(), "start_time_ticks": 1}
    for run in (living, dead):
        entry = {**run, "owner_pid": 1, "owner_start_time_ticks": 0}
        (tmp_path / f"{run['id']}.json").write_text(json.dumps(entry))
    done = dcgym("clean", "--json", DCGYM_RUN_DIR=str(tmp_path))
    assert json.loads(done.stdout) == ["dead"]
    assert [path.name for path in tmp_path.iterdir()] == ["alive.json"]
