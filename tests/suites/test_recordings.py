"""Data sets for offline learning: what is written is what the environment did."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from dcgym.cli import main
from dcgym.envs.registry import ENVIRONMENTS
from dcgym.errors import BackendError, ConfigError
from dcgym.policies import POLICIES
from dcgym.suites.recordings import RecordingSpec, dataset_name, record_dataset
from dcgym.testing import FakeBackend

minari = pytest.importorskip("minari")
pytest.importorskip("h5py")

EVENT = {"at": "1s", "kind": "capacity", "target": "strong"}
POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 6}


def load(out: Path, name: str) -> Any:
    return minari.MinariDataset(out / name / "data")


def twin(env_id: str, **arguments: Any) -> dict[str, Any]:
    """Return the arguments of an environment in the simulation."""
    return {"env": env_id, "backend": "simulation", **arguments}


def cases() -> list[tuple[str, str]]:
    """Return each environment with a policy that draws its actions, and with one that does not."""
    found = []
    for env_id, environment in ENVIRONMENTS.items():
        names = POLICIES.find(environment.family).names()
        draws = "random" if "random" in names else "random+random"
        found += [(env_id, draws), (env_id, next(name for name in names if "random" not in name))]
    return found


def flat(episode: Any) -> dict[str, tuple[Any, bytes]]:
    """Return everything of an episode by name, as types and bytes."""
    found: dict[str, tuple[Any, bytes]] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, one in value.items():
                add(f"{name}/{key}", one)
        elif value is not None:
            array = np.asarray(value)
            is_text = array.dtype == object
            found[name] = (array.dtype, repr(value).encode() if is_text else array.tobytes())

    for name in ("observations", "actions", "rewards", "terminations", "truncations", "infos"):
        add(name, getattr(episode, name))
    return found


def recorded(out: Path, env: dict[str, Any], policy: str, **options: Any) -> Any:
    """Record a data set in a new folder, and load it."""
    folder = out / str(len(list(out.iterdir())) if out.exists() else 0)
    spec = RecordingSpec(env=env, policy=policy, out=folder, **options)
    return load(folder, record_dataset(spec)["name"])


def assert_happens_again(data: Any) -> None:
    """Compare a data set with what its environment does when it is given seeds and actions."""
    env = data.recover_environment()
    metadata = data.storage.get_episode_metadata(range(data.total_episodes))
    for episode, known in zip(data.iterate_episodes(), metadata, strict=True):
        observation, _ = env.reset(seed=known["seed"])
        np.testing.assert_array_equal(observation, episode.observations[0])
        for step in range(len(episode.rewards)):
            result = env.step(at(episode.actions, step))
            np.testing.assert_array_equal(result[0], episode.observations[step + 1])
            told = (episode.rewards, episode.terminations, episode.truncations)
            assert result[1:4] == tuple(values[step] for values in told)
        assert result[2] or result[3]
    env.close()


def at(actions: Any, step: int) -> Any:
    if isinstance(actions, dict):
        return {name: part[step] for name, part in actions.items()}
    return actions[step]


@pytest.mark.simulation
@pytest.mark.parametrize(("env_id", "policy"), cases())
def test_every_environment_is_recorded_and_happens_again(
    env_id: str, policy: str, tmp_path: Path
) -> None:
    env = twin(env_id, max_steps=4)
    options: dict[str, Any] = {"seed": 7, "record_infos": True}
    alone = recorded(tmp_path, env, policy, episodes=3, **options)
    assert_happens_again(alone)
    # Two copies: one of them records the third episode, in which the other repeats one.
    beside = recorded(tmp_path, env, policy, episodes=3, envs=2, **options)
    assert alone.total_episodes == beside.total_episodes == 3
    expected = [flat(episode) for episode in alone.iterate_episodes()]
    assert [flat(episode) for episode in beside.iterate_episodes()] == expected
    # What came before it is nothing to an episode.
    (last,) = recorded(tmp_path, env, policy, episodes=1, **{**options, "seed": 9})
    assert flat(last) == expected[2]


OWN_END = [name for name in ENVIRONMENTS if ENVIRONMENTS[name].single.defaults["max_steps"] is None]


@pytest.mark.simulation
@pytest.mark.parametrize("env_id", OWN_END)
def test_episodes_that_end_by_themselves_need_no_length(env_id: str, tmp_path: Path) -> None:
    data = recorded(tmp_path, twin(env_id), "random", episodes=1)
    (episode,) = data.iterate_episodes()
    assert episode.terminations[-1] and not episode.truncations.any()


@pytest.mark.simulation
@pytest.mark.parametrize(
    "env", [POOL | {"max_steps": None}, {"env": "JobAssignment-v0", "jobs": None}]
)
def test_episodes_without_an_end_are_refused(env: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no end of their own"):
        recorded(tmp_path, env, "random")
    assert not list(tmp_path.iterdir())


@pytest.mark.simulation
def test_copies_do_not_share_the_jobs_of_an_episode(tmp_path: Path) -> None:
    env = {"env": "JobAssignment-v0", "paths": "shared", "max_steps": 20}
    alone, beside = (recorded(tmp_path, env, "random", episodes=2, envs=n) for n in (1, 2))
    expected = [flat(episode) for episode in alone]
    assert [flat(episode) for episode in beside] == expected and expected[0] != expected[1]


class UnsteadyBackend(FakeBackend):
    """A backend that promises no episode twice."""

    capabilities = replace(FakeBackend.capabilities, deterministic=False)


def test_copies_are_refused_where_episodes_do_not_repeat(tmp_path: Path) -> None:
    env = {"backend": UnsteadyBackend, "max_steps": 4}
    with pytest.raises(ConfigError, match=r"envs: value 2 .* do not repeat"):
        recorded(tmp_path, env, "cubic", episodes=2, envs=2)
    assert not list(tmp_path.iterdir())
    assert recorded(tmp_path, env, "cubic", episodes=2).total_steps == 8


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
@pytest.mark.parametrize("form", ["full", "flat"])
@pytest.mark.parametrize("kind", RECORDED)
def test_infos_are_read_back_as_the_environment_gave_them(
    kind: str, form: str, tmp_path: Path
) -> None:
    env, policy = RECORDED[kind]
    options: dict[str, Any] = {"episodes": 3, "record_infos": True, "info": form}
    data = recorded(tmp_path, env, policy, **options)
    again = data.recover_environment()
    for number, episode in enumerate(data.iterate_episodes()):
        infos = [again.reset(seed=number)[1]]
        infos += [again.step(action)[4] for action in episode.actions]
        assert_read(episode.infos, nested(told(infos)) if form == "flat" else told(infos))
    again.close()
    beside = recorded(tmp_path, env, policy, envs=2, **options)
    assert [flat(one) for one in beside] == [flat(one) for one in data]


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
        {"envs": 0},
        {"info": "flat"},
        {"info": "none", "record_infos": True},
        {"format": "csv"},
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
