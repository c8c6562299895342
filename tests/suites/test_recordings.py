"""Data sets for offline learning: what is written is what the environment did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcgym.cli import main
from dcgym.errors import BackendError, ConfigError
from dcgym.suites.recordings import RecordingSpec, dataset_name, record_dataset
from dcgym.testing import FakeBackend

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")

POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 6}


def load(out: Path, name: str) -> Any:
    return minari.MinariDataset(out / name / "data")


@pytest.mark.simulation
def test_episodes_are_read_back_and_happen_again(tmp_path: Path) -> None:
    spec = RecordingSpec(env=POOL, policy="random", out=tmp_path, episodes=2, seed=7)
    summary = record_dataset(spec)
    assert (summary["name"], summary["steps"]) == ("dcgym/LoadBalancing/random-v0", 12)
    data = load(tmp_path, summary["name"])
    assert (data.total_episodes, data.total_steps) == (2, 12)
    env = data.recover_environment()
    for number, episode in enumerate(data.iterate_episodes()):
        assert len(episode.observations) == len(episode.actions) + 1 == 7
        assert episode.truncations.tolist() == [False] * 5 + [True]
        # The twin is deterministic: the same seed and actions give the same episode.
        observation, _ = env.reset(seed=7 + number)
        np.testing.assert_array_equal(observation, episode.observations[0])
        for step, action in enumerate(episode.actions):
            observation, reward, *_ = env.step(action)
            np.testing.assert_array_equal(observation, episode.observations[step + 1])
            assert reward == episode.rewards[step]
    env.close()


def test_actions_of_several_parts_are_kept_by_name(tmp_path: Path) -> None:
    fake = {"env": "Joint-v2", "backend": "dcgym.testing:FakeBackend", "max_steps": 3}
    spec = RecordingSpec(env=fake, policy="random+random", out=tmp_path, episodes=1, name="mine-v2")
    record_dataset(spec)
    (episode,) = load(tmp_path, "mine-v2").iterate_episodes()
    assert {name: len(part) for name, part in episode.actions.items()} == dict.fromkeys(
        episode.actions, 3
    )
    assert len(episode.actions) == 2


@pytest.mark.simulation
def test_the_command_says_where_it_is_and_refuses_it_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["record", "--env", "LoadBalancing-v1", "--policy", "sed", "--episodes", "1"]
    words += ["--seconds", "1", "--out", "runs/sed", "--json"]
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["folder"] == f"runs/sed/{dataset_name({'env': 'LoadBalancing-v1'}, 'sed')}"
    assert summary["steps"] == 4  # of a quarter of a second
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    # After the bar.
    assert "does not have yet" in capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize(
    "change",
    [{"episodes": 0}, {"name": "no-version"}, {"name": "../up-v0"}, {"policy": "sedd"}],
)
def test_bad_settings_leave_nothing(change: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(ConfigError):
        record_dataset(RecordingSpec(**{"env": POOL, "policy": "sed", "out": out, **change}))
    assert not out.exists()


def test_a_backend_that_dies_leaves_no_data_set(tmp_path: Path) -> None:
    env = {"backend": lambda topology: FakeBackend(topology, fail_at_step=2), "max_steps": 4}
    spec = RecordingSpec(env=env, policy="cubic", out=tmp_path, episodes=1)
    with pytest.raises(BackendError):
        record_dataset(spec)
    assert list(tmp_path.iterdir()) == []
