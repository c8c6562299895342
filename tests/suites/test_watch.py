"""Trainings while they run: scores beside classic policies, logs, and what a refusal leaves."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dcgym.cli import main
from dcgym.errors import ConfigError
from dcgym.suites.rollout import run_episode
from dcgym.suites.spec import RunSpec, TrainingSpec
from dcgym.suites.training import train_policy
from dcgym.suites.watch import LOGS_FOLDER, SCORE_SEED, watching
from dcgym.writing import new_folder

POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 6, "lead_in": 0}


def spec(folder: Path, **changes: Any) -> TrainingSpec:
    settings = {"population": 4, "sigma": 0.1}
    given = {"steps": 4 * 6 * 2, "train_s": None, "envs": 4, "settings": settings, **changes}
    return TrainingSpec(**{"env": POOL, "policy": "cma-es", "folder": str(folder), **given})


def scalars(folder: Path) -> Iterator[tuple[str, int, float]]:
    """Read what TensorBoard would: records of a length, a checksum, an event and a checksum."""
    from tensorboardX.proto.event_pb2 import Event

    for path in sorted(folder.glob("events.out.tfevents.*")):
        content = path.read_bytes()
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            event = Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]
            for value in event.summary.value:
                yield value.tag, event.step, value.simple_value


@pytest.mark.simulation
def test_scores_and_logs_stand_beside_the_classic_policies(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    pytest.importorskip("safetensors")
    notes = []
    with watching(POOL, "cma-es", tmp_path, ("sed", "random"), True, 1e-6) as watch:
        summary = train_policy(spec(tmp_path), lambda _, note: notes.append(note), watch)
    # After each of the reports, and of what is left in the end.
    last = summary["scores"][-1]
    run = RunSpec(env=POOL, policy="sed", steps=6, seed=SCORE_SEED)
    sed = run_episode(run)["metrics"]
    assert last["sed"]["fct_us_mean"] == sed["fct_us_mean"]
    own = run_episode(
        RunSpec(env=POOL, policy="cma-es", steps=6, seed=SCORE_SEED, checkpoint=str(tmp_path))
    )["metrics"]
    assert last["cma-es"]["fct_us_mean"] == own["fct_us_mean"]
    assert any("(sed 0.000, random " in note for note in notes)
    logs = {name: list(scalars(tmp_path / LOGS_FOLDER / name)) for name in ("cma-es", "sed")}
    found = [value for tag, _, value in logs["sed"] if tag == "score/fct_us_mean"]
    assert found == pytest.approx([sed["fct_us_mean"]] * len(found), rel=1e-6)
    rewards = [(step, value) for tag, step, value in logs["cma-es"] if tag == "train/reward_mean"]
    assert [step for step, _ in rewards] == [one[1] for one in summary["curve"]]
    assert len(found) == len(summary["scores"])


def test_no_score_in_real_time_and_none_of_unknown_policies(tmp_path: Path) -> None:
    real = {"env": "CongestionControl-v2", "backend": "dcgym.testing:FakeBackend"}
    for env, name, words in ((real, "cubic", "real time"), (POOL, "cubic", "policy")):
        watch = watching(env, "ppo", tmp_path, (name,), False)
        with pytest.raises(ConfigError, match=words), watch:
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.simulation
@pytest.mark.parametrize(
    "words",
    [
        ("--algo", "cma-es", "--set", "sigma=-1"),
        ("--algo", "cma-es", "--set", "wings=2"),
        ("--algo", "cma-es", "--steps", "0"),
        ("--algo", "cma-es", "--score", "sedd"),
        ("--algo", "cma-es", "--clone-from", "lsq"),
        ("--algo", "cma-es", "--frames", "0"),
    ],
)
def test_a_refused_training_leaves_no_folder(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "deep" / "run"
    with pytest.raises(SystemExit) as ended:
        main(["train", "--env", "LoadBalancing-v1", *words, "--tensorboard", "--out", str(out)])
    assert ended.value.code == 2
    assert capsys.readouterr().err.strip().splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_only_what_was_made_and_is_empty_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    for name, keeps in (("before/new", False), ("kept/new", True)):
        folder = tmp_path / name
        with pytest.raises(OSError, match="full"), new_folder(folder):
            if keeps:
                (folder / "file").touch()
            raise OSError("full")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["before", "kept"]
    assert list((tmp_path / "before").iterdir()) == []
