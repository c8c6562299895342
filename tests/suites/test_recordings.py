"""Data sets for offline learning: what is written is what the environment did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from dcgym.cli import main
from dcgym.errors import BackendError, ConfigError
from dcgym.suites.recordings import RecordingSpec, dataset_name, record_dataset
from dcgym.testing import FakeBackend

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")

EVENT = {"at": "1s", "kind": "capacity", "target": "strong"}
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


@pytest.mark.simulation
def test_what_a_killed_recording_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = tmp_path / ".dcgym-recording-leftover" / "mine-v0" / "data"
    left.parents[1].mkdir(0o700)
    left.mkdir(parents=True)
    (left / "main_data.hdf5").write_bytes(b"begun")
    record_dataset(RecordingSpec(env=POOL, policy="random", out=tmp_path, episodes=1))
    assert not list(tmp_path.glob(".*"))


def test_actions_of_several_parts_are_kept_by_name(tmp_path: Path) -> None:
    fake = {"env": "Joint-v2", "backend": "dcgym.testing:FakeBackend", "max_steps": 3}
    spec = RecordingSpec(env=fake, policy="random+random", out=tmp_path, episodes=1, name="mine-v2")
    record_dataset(spec)
    (episode,) = load(tmp_path, "mine-v2").iterate_episodes()
    assert {name: len(part) for name, part in episode.actions.items()} == dict.fromkeys(
        episode.actions, 3
    )
    assert len(episode.actions) == 2


RECORDED: dict[str, tuple[dict[str, Any], str]] = {
    "pool": (POOL | {"interval": "5ms"}, "random"),
    "network": (
        {
            "env": "CongestionControl-v2",
            "backend": "simulation",
            "events": [{"at": "60ms", "link": ["s1", "s2"], "action": "down"}],
            "max_steps": 4,
        },
        "random",
    ),
    "draws": (
        {
            "env": "LoadBalancing-v1",
            "scenario": "two-speeds",
            "randomise": {
                "scenario.weights": ["right", "equal"],
                "scenario.events": [[], [{**EVENT, "value": 0.5}], [{**EVENT, "value": 0.2}]],
            },
            "max_steps": 3,
        },
        "random",
    ),
    "placement": ({"env": "VipPlacement-v0", "max_steps": 5}, "first-feasible"),
}


def told(infos: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the values of infos by name, as a data set has them."""
    values = {name: [info[name] for info in infos] for name in infos[0]}
    return {name: told(v) if isinstance(v[0], dict) else v for name, v in values.items()}


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Return values by path as a data set has them: Minari makes a group of what has a slash."""
    made: dict[str, Any] = {}
    for path, values in flat.items():
        group, _, name = path.rpartition("/")
        (made.setdefault(group, {}) if group else made)[name] = values
    return made


def assert_read(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if isinstance(values, dict):
            assert_read(found[name], values)
        elif isinstance(values[0], str):
            assert [text.decode() for text in found[name]] == values
        else:
            np.testing.assert_array_equal(found[name], np.stack(values))


@pytest.mark.simulation
@pytest.mark.parametrize("kind", RECORDED)
def test_infos_are_read_back_as_the_environment_gave_them(kind: str, tmp_path: Path) -> None:
    env, policy = RECORDED[kind]
    spec = RecordingSpec(env=env, policy=policy, out=tmp_path, episodes=2, record_infos=True)
    data = load(tmp_path, record_dataset(spec)["name"])
    again = data.recover_environment()
    for number, episode in enumerate(data.iterate_episodes()):
        infos = [again.reset(seed=number)[1]]
        infos += [again.step(action)[4] for action in episode.actions]
        assert_read(episode.infos, told(infos))
    again.close()


@pytest.mark.simulation
@pytest.mark.parametrize("form", ["full", "flat", "none"])
@pytest.mark.parametrize("kind", RECORDED)
def test_minari_s_own_collector_keeps_infos(
    kind: str, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jax")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    config = dict(RECORDED[kind][0])
    made = gym.make(f"dcgym/{config.pop('env')}", info=form, **config)
    env, given = minari.DataCollector(made, record_infos=True), []
    for seed in range(2):
        infos, is_over = [env.reset(seed=seed)[1]], False
        while not is_over:
            *_, terminated, truncated, info = env.step(some_action(made))
            infos.append(info)
            is_over = terminated or truncated
        given.append(told(infos))
    # Of authors that nobody names.
    with pytest.warns(UserWarning):
        data = env.create_dataset("strangers/run-v0", algorithm_name="random")
    env.close()
    for episode, expected in zip(data.iterate_episodes(), given, strict=True):
        assert_read(episode.infos or {}, nested(expected) if form == "flat" else expected)
    again = data.recover_environment()
    assert again.spec.kwargs == made.spec.kwargs
    again.close()


def some_action(env: gym.Env[Any, Any]) -> Any:
    if not isinstance(env.action_space, gym.spaces.Discrete):
        return env.action_space.sample()
    return np.flatnonzero(env.unwrapped.action_masks())[0]  # type: ignore[attr-defined]


@pytest.mark.simulation
def test_the_command_keeps_infos_where_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["record", "--env", "LoadBalancing-v1", "--policy", "sed", "--episodes", "1"]
    words += ["--seconds", "1", "--out", "out"]
    found = []
    for more in (["--name", "with-v0", "--record-infos"], ["--name", "without-v0"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, *more])
        assert ended.value.code == 0
        (episode,) = load(Path("out"), more[1]).iterate_episodes()
        found.append(episode)
    kept, bare = found
    assert kept.infos["metrics"]["queue"].shape == (5,) and not bare.infos
    np.testing.assert_array_equal(kept.observations, bare.observations)


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
    [
        {"episodes": 0},
        {"name": "no-version"},
        {"name": "../up-v0"},
        {"policy": "sedd"},
        {"record_infos": "yes"},
    ],
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
