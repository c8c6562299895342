from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest
from typer.main import get_command

from dcgym import __version__
from dcgym.cli import main
from dcgym.cli.app import app
from dcgym.cli.bench import add_suites, bench_app
from dcgym.envs.registration import BUILT_IN
from dcgym.suites import SUITES, Case, Suite
from dcgym.topologies import dumbbell
from tests.support.json_files import strict


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


def test_every_command_has_an_example() -> None:
    add_suites()
    without = []
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        inner = getattr(command, "commands", {"": command})
        without += [f"{name} {own}" for own, one in inner.items() if "Example: " not in one.help]
    assert without == []
    done = dcgym("bench", "quick", "--help")
    assert done.returncode == 0 and "Example: dcgym bench quick" in done.stdout


def test_version() -> None:
    assert dcgym("--version").stdout.strip() == __version__


def test_a_process_of_its_own_says_the_same() -> None:
    command = [sys.executable, "-m", "dcgym", "run", "--policy", "cubik"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("dcgym: policy: value 'cubik'")


BAD_INPUT = (
    # A name, with its nearest: of a value, of the things of a plan, of an argument by its path.
    ("run --policy cubik", "did you mean 'cubic'"),
    ("train --algo dpg", "did you mean 'ddpg'"),
    ("bench quick --traffic web-serch-0.5", "did you mean 'web-search"),
    ("train --algo cma-es --env LoadBalancing-v1 --set sigm=1", "'sigma'"),
    ("sweep --set trafic.load=0.2", "did you mean 'traffic'"),
    ("draw dumbbell x.svg --set host=8", "did you mean 'hosts'"),
    ("bench quick --generator gobn", "did you mean 'goben'"),
    ("list policy", "kind"),
    ("sweep --require-fidelity good", "require_fidelity"),
    # A number out of its range.
    ("run --seconds -1", "seconds"),
    ("run --seed -1", "seed: value -1"),
    ("bench balancing-classic --load 1.2", "load"),
    ("bench quick --seeds 0", "seeds"),
    # Options that contradict each other, or the environment.
    ("train --preset iroko-ddpg --algo ddpg", "none with --preset"),
    ("train --algo appo --library sb3", "allowed: rllib for appo"),
    ("run --policy hlb", "hlb is for balancing environments"),
    ("bench balancing-classic --policies cubic", "policies"),
    ("sweep --seconds 1 --warmup 2", "seconds: value 1.0"),
    # What another option must bring, and the command that makes it.
    ("run --policy ppo", "--checkpoint"),
    ("run --policy ppo", "dcgym train --algo ppo"),
    ("train", "algo: value None is not allowed; allowed: ppo, appo, sac, ddpg"),
    ("sweep", "sweep: value 'nothing'"),
    # A file, a folder or a program that is not there, or cannot be written.
    ("train --resume --out no-such-folder", "checkpoint"),
    ("sweep no-such-file", "sweep: value 'no-such-file'"),
    ("report no-such-folder", "folder"),
    ("bench quick --policies cubic --out /proc/none", "can be written"),
    ("train --algo ppo --out /proc/none", "out"),
    ("run --traffic '{apps: {h1: no-such-program}}'", "traffic.apps.h1"),
    # No pair.
    ("draw dumbbell x.svg --set hosts", "--set: value 'hosts'"),
)


def test_bad_input_is_one_line_and_code_2() -> None:
    wrong = []
    for command, words in BAD_INPUT:
        done = dcgym(*shlex.split(command))
        # A progress bar may stand beside it.
        lines = [line for line in done.stderr.splitlines() if line.startswith("dcgym: ")]
        if done.returncode != 2 or len(lines) != 1 or words not in lines[0]:
            wrong.append((command, done.returncode, done.stderr))
    assert wrong == []


USAGE = (
    ("nosuch", "command: value 'nosuch' is not allowed; allowed: sweep, report, doctor, "),
    ("runn", "did you mean 'run'?"),
    ("bench nosuch", "command: value 'nosuch' is not allowed; allowed: balancing-classic, "),
    ("traffic shww", "did you mean 'show'?"),
    ("--nosuch", "option: value '--nosuch' is not allowed; allowed: --version, "),
    ("run --sed 1", "option: value '--sed' is not allowed; allowed: --env, --policy, "),
    ("run --sed 1", "did you mean '--seed'?"),
    ("run --seed x", "--seed: value 'x' is not allowed; allowed: a whole number (Seed"),
    ("run --seed=1.5", "--seed: value '1.5' is not allowed; allowed: a whole number"),
    ("run --seconds 1o", "--seconds: value '1o' is not allowed; allowed: a number"),
    ("run --seed", "--seed: a value is missing; allowed: a whole number (Seed of plan"),
    ("run --checkpoint=", "--checkpoint: value '' is not allowed; allowed: a path (Of a learned"),
    ("run --json=3", "--json: value '3' is not allowed; allowed: no value"),
    ("draw", "topology: a value is missing; allowed: a text (A name or a file)"),
    ("list a b", "list: value 'b' is not allowed; allowed: kind, and nothing more"),
    ("doctor x", "doctor: value 'x' is not allowed; allowed: options only"),
)


@pytest.mark.parametrize("name", ["../../../evil", "/tmp/evil", ".hidden", "a\\b", "a\nb"])
def test_names_in_a_file_say_of_no_other_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / "a" / "b" / "c" / "d"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    dumbbell().save("net.json")
    content = json.loads(Path("net.json").read_text())
    Path("net.json").write_text(json.dumps({**content, "name": name}))
    policy = ("--policy", name, "--checkpoint", "none", "--out", "out")
    for command in (("draw", "net.json"), ("run", *policy), ("record", *policy)):
        done = dcgym(*command)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert "at most 100 printable characters" in done.stderr
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [deep / "net.json"]
    assert not Path("out").exists()


def test_usage_errors_look_like_the_others() -> None:
    wrong = []
    for command, words in USAGE:
        done = dcgym(*command.split())
        is_line = done.stderr.startswith("dcgym: ") and done.stderr.count("\n") == 1
        if done.returncode != 2 or done.stdout or not is_line or words not in done.stderr:
            wrong.append((command, done.returncode, done.stderr))
    assert wrong == []


def test_a_group_without_a_command_shows_its_help() -> None:
    done = dcgym("traffic")
    assert done.returncode == 2 and "Usage: dcgym traffic" in done.stdout and not done.stderr


def test_a_run_that_is_not_there_is_told_so(tmp_path: Path) -> None:
    done = dcgym("top", "nosuch", DCGYM_RUN_DIR=str(tmp_path))
    assert done.returncode == 2
    assert "value 'nosuch' is not allowed; allowed: none, as no emulation is" in done.stderr


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
    assert found["environments"] == sorted(BUILT_IN)
    assert {"cubic", "dctcp", "fair-share", "random", "ppo", "ddpg"} <= set(found["policies"])
    one_kind = json.loads(dcgym("list", "policies", "--json").stdout)
    assert one_kind == {"policies": found["policies"]}


def test_a_suite_without_options_of_its_own_is_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"backend": "dcgym.testing:FakeBackend", "traffic": "pairs-udp"}
    suite = Suite("small-test", "One case.", (Case(env),), ("cubic", "dctcp"), jobs=0)
    monkeypatch.setattr(bench_app, "registered_commands", list(bench_app.registered_commands))
    SUITES.add(suite.name, suite, suite.description)
    try:
        command = (
            "bench",
            "small-test",
            "--policies",
            "cubic",
            "--seeds",
            "1e0",
            "--seconds",
            "3e0",
        )
        done = dcgym(*command, "--out", str(tmp_path), "--json")
    finally:
        SUITES.remove(suite.name)
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    assert (record["policy"], record["config"]["steps"]) == ("cubic", 60)


def test_every_suite_takes_the_common_options_and_those_of_its_maker() -> None:
    add_suites()
    group = get_command(bench_app)
    found = {name: {one.name for one in command.params} for name, command in group.commands.items()}
    assert set(found) >= set(SUITES)
    common = found["rate-sweep"]
    assert common >= {"backend", "train_backend", "require_fidelity", "seconds", "jobs", "address"}
    own = {name: found[name] - common for name in SUITES if found[name] != common}
    assert own == {
        "quick": {"traffic", "generator"},
        "balancing-classic": {"load"},
        "balancing-quick": {"load"},
    }


@pytest.mark.simulation
def test_a_run_too_short_for_some_metrics_prints_json_that_every_program_reads() -> None:
    command = ("run", "--env", "LoadBalancing-v1", "--policy", "sed", "--seconds", "0.5")
    done = dcgym(*command, "--backend", "simulation", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = strict(done.stdout)
    assert record["metrics"]["fct_us_p99"] is None
    assert record["metrics"]["utilisation"] > 0


def test_draw_writes_a_picture_named_as_asked_or_after_the_topology(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert dcgym("draw", "dumbbell").stdout.strip() == "dumbbell.svg"
    assert dcgym("draw", "dumbbell", "six.svg", "--set", "hosts=6").returncode == 0
    four, six = ((tmp_path / f"{name}.svg").read_text() for name in ("dumbbell", "six"))
    assert "<svg" in four and "<svg" in six and four != six


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
