"""Tasks of BenchMARL: each algorithm gets agents that it can train, or is refused in one line."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import gymnasium as gym
import numpy as np
import pytest

from dcgym.envs.parallel import TaskParallelEnv
from dcgym.envs.registry import ENVIRONMENTS
from dcgym.errors import ConfigError
from dcgym.policies.learned.environments import training_form
from dcgym.tasks.balancing.actions import WEIGHT_ACTIONS, DiscreteWeights
from dcgym.tasks.flows.actions import FLOW_ACTIONS

pytest.importorskip("benchmarl")

pytestmark = [pytest.mark.learning, pytest.mark.simulation, pytest.mark.timeout(300)]

POOL = {"env": "LoadBalancing-v1", "scenario": "testbed-7", "max_steps": 6, "lead_in": 0}
FLOWS = {
    "env": "FlowControl-v1",
    "backend": "simulation",
    "traffic": "pairs",
    "flows": 2,
    "max_steps": 6,
}
BOTH = ["mappo", "ippo", "masac", "isac"]
CONTINUOUS, DISCRETE = ["maddpg", "iddpg"], ["qmix", "vdn", "iql"]
N_BALANCERS, N_SERVERS = 2, 7


def experiment(name: str, task: Any, folder: Path, **settings: object) -> Any:
    """Return an experiment of two batches of 12 steps."""
    from benchmarl import algorithms
    from benchmarl.experiment import Experiment, ExperimentConfig
    from benchmarl.models.mlp import MlpConfig

    config = ExperimentConfig.get_from_yaml()
    own = {
        "max_n_iters": 2,
        "max_n_frames": None,
        "on_policy_collected_frames_per_batch": 12,
        "on_policy_n_envs_per_worker": 2,
        "on_policy_n_minibatch_iters": 1,
        "on_policy_minibatch_size": 12,
        "off_policy_collected_frames_per_batch": 12,
        "off_policy_n_envs_per_worker": 2,
        "off_policy_n_optimizer_steps": 1,
        "off_policy_train_batch_size": 6,
        "off_policy_memory_size": 100,
        "evaluation": False,
        "loggers": [],
        "create_json": False,
        "save_folder": str(folder),
    }
    for key, value in {**own, **settings}.items():
        assert hasattr(config, key)
        setattr(config, key, value)
    return Experiment(
        task=task,
        algorithm_config=getattr(algorithms, f"{name.title()}Config").get_from_yaml(),
        model_config=MlpConfig.get_from_yaml(),
        critic_model_config=MlpConfig.get_from_yaml(),
        seed=0,
        config=config,
    )


def task_of(config: dict[str, Any], **arguments: Any) -> Any:
    from dcgym.envs.benchmarl import benchmarl_task

    return benchmarl_task(**{**config, **arguments})


@contextmanager
def weight_action(name: str, space: gym.Space[Any]) -> Iterator[None]:
    """Add actions of a space that stand for weights as those of the published agents do."""

    class Weights(DiscreteWeights):
        def __init__(self, n_weights: int) -> None:
            self.space = space  # type: ignore[assignment]

    WEIGHT_ACTIONS.add(name, Weights)
    try:
        yield
    finally:
        WEIGHT_ACTIONS.remove(name)


@pytest.mark.parametrize(
    ("name", "arguments", "agents"),
    [
        *((name, {}, {"balancer": N_BALANCERS}) for name in BOTH + CONTINUOUS),
        *((name, {}, {"head": N_BALANCERS * N_SERVERS}) for name in DISCRETE),
        *((name, {"action": "discrete"}, {"head": 14}) for name in ["mappo", "isac", "qmix"]),
    ],
)
def test_every_algorithm_trains_on_balancers(
    name: str, arguments: dict[str, str], agents: dict[str, int], tmp_path: Path
) -> None:
    one = experiment(name, task_of(POOL, **arguments), tmp_path)
    assert {group: len(names) for group, names in one.group_map.items()} == agents
    one.run()
    assert one.total_frames == 24 and np.isfinite(one.mean_return)


@pytest.mark.parametrize("name", ["mappo", "iddpg"])
def test_all_flows_share_a_network(name: str, tmp_path: Path) -> None:
    one = experiment(name, task_of(FLOWS), tmp_path)
    assert one.group_map == {"flow": ["flow0", "flow1"]}
    one.run()
    assert one.total_frames == 24 and np.isfinite(one.mean_return)


@pytest.mark.parametrize("name", ["mappo", "masac"])
def test_an_algorithm_of_both_kinds_takes_levels_where_it_is_told_to(
    name: str, tmp_path: Path
) -> None:
    one = experiment(name, task_of(POOL), tmp_path, prefer_continuous_actions=False)
    assert list(one.group_map) == ["head"] and one.action_spec["head", "action"].space.n == 3
    one.run()


def test_levels_reach_the_balancers_server_by_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarl.experiment import Callback

    told: list[dict[str, Any]] = []
    step = TaskParallelEnv.step

    def listen(self: TaskParallelEnv, actions: dict[str, Any]) -> Any:
        told.append(actions)
        return step(self, actions)

    batches: list[Any] = []

    class Keep(Callback):  # type: ignore[misc]
        def on_batch_collected(self, batch: Any) -> None:
            batches.append(batch["head", "action"].numpy().copy())

    one = experiment("qmix", task_of(POOL), tmp_path, off_policy_n_envs_per_worker=1)
    keep = Keep()
    keep.experiment = one
    one.callbacks.append(keep)
    monkeypatch.setattr(TaskParallelEnv, "step", listen)
    one.run()
    chosen = np.concatenate([batch.reshape(-1, N_BALANCERS, N_SERVERS) for batch in batches])
    got = np.array([[each["balancer_0"], each["balancer_1"]] for each in told[: len(chosen)]])
    assert len(chosen) == 24 and set(chosen.ravel()) == {0, 1, 2}
    np.testing.assert_array_equal(got, chosen)


def test_copies_meet_traffic_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from torchrl.envs import SerialEnv

    makers = [task_of(POOL).get_env_fun(3, False, 3, "cpu") for _ in range(2)]
    copies = [SerialEnv(3, make) for make in makers]
    seen = [one.rollout(1)["head", "observation"][:, 0].numpy() for one in copies]
    for one in copies:
        one.close()
    assert len({each.tobytes() for each in seen[0]}) == 3
    np.testing.assert_array_equal(*seen)
    # As the fifth, sixth and seventh process that this one starts.
    workers = []
    for number in (5, 6, 7):
        make = task_of(POOL).get_env_fun(3, False, 3, "cpu")
        monkeypatch.setattr(
            "dcgym.envs.benchmarl.current_process", lambda own=number: Mock(_identity=(own,))
        )
        env = make()
        workers.append(env.rollout(1)["head", "observation"][0].numpy().tobytes())
        env.close()
        monkeypatch.undo()
    assert set(workers) == {each.tobytes() for each in seen[0]}


@pytest.mark.parametrize(("config", "name"), [(POOL, "qmix"), (POOL, "mappo"), (FLOWS, "ippo")])
def test_an_experiment_is_evaluated_filmed_saved_and_read_again(
    config: dict[str, Any], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("PIL")
    from benchmarl.experiment import Experiment
    from torchrl.record.loggers.csv import CSVLogger

    films: list[tuple[int, ...]] = []

    def keep(self: Any, name: str, video: Any, step: int | None = None, **_: Any) -> None:
        films.append(tuple(video.shape))

    # The library's own writer needs a function that torchvision no longer has.
    monkeypatch.setattr(CSVLogger, "log_video", keep)
    told = {
        "evaluation": True,
        "evaluation_interval": 12,
        "evaluation_episodes": 1,
        "loggers": ["csv"],
        "create_json": True,
        "checkpoint_interval": 12,
    }
    one = experiment(name, task_of(config, render_mode="rgb_array"), tmp_path, **told)
    assert one.max_steps == 6
    one.run()
    assert films and {film[1] for film in films} == {5} and films[0][2] == 3
    returns = sorted(tmp_path.glob("*/*/scalars/eval_reward_episode_reward_mean.csv"))
    assert returns and all(np.isfinite(np.loadtxt(each, delimiter=",")).all() for each in returns)
    first, _ = sorted(glob.glob(f"{tmp_path}/*/checkpoints/*.pt"))
    again = Experiment.reload_from_file(first)
    assert again.task == one.task and again.n_iters_performed == 1
    again.run()
    assert again.total_frames == 24


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"env": "FlowControl-v0"}, "dcgym/FlowControl-v1"),
        ({"env": "CongestionControl-v2"}, "one with several agents"),
        ({**POOL, "action": "levels"}, "continuous, discrete"),
        ({**FLOWS, "action": "discrete"}, "orca"),
        ({**POOL, "info": "full"}, "flat or none"),
        ({**POOL, "render_mode": "human"}, "rgb_array"),
    ],
)
def test_what_no_algorithm_can_train_on_is_refused_in_one_line(
    config: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        task_of(config)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        (POOL, [True, True]),
        *(({**POOL, "action": name}, [name == "continuous", name == "discrete"])
          for name in ("continuous", "discrete")),
        *(({**FLOWS, "action": name}, [True, False]) for name in FLOW_ACTIONS.names()),
    ],
)  # fmt: skip
def test_a_task_says_which_actions_it_has(config: dict[str, Any], kinds: list[bool]) -> None:
    task = task_of(config)
    assert [task.supports_continuous_actions(), task.supports_discrete_actions()] == kinds
    for is_continuous in (True, False):
        if kinds[not is_continuous]:
            env = task.get_env_fun(1, is_continuous, 0, "cpu")()
            (group,) = env.group_map
            assert env.full_action_spec[group, "action"].dtype.is_floating_point == is_continuous
            env.rollout(2)
            env.close()


def test_every_environment_with_several_agents_has_a_case() -> None:
    several = {name for name, one in ENVIRONMENTS.items() if one.agents is not None}
    assert several == {f"dcgym/{config['env']}" for config in (POOL, FLOWS)}


@pytest.mark.parametrize(
    "space",
    [
        gym.spaces.MultiDiscrete([2] * (N_SERVERS - 1) + [3]),
        gym.spaces.MultiDiscrete([3] * (N_SERVERS + 1)),
        gym.spaces.MultiBinary(N_SERVERS),
        gym.spaces.Dict({"weights": gym.spaces.Discrete(3)}),
    ],
    ids=str,
)
def test_actions_of_no_kind_that_is_known_are_refused_in_one_line(space: gym.Space[Any]) -> None:
    with weight_action("odd", space), pytest.raises(ConfigError, match="action") as caught:
        task_of(POOL, action="odd")
    assert "\n" not in str(caught.value)


def test_other_levels_have_heads() -> None:
    with weight_action("five", gym.spaces.MultiDiscrete([5] * N_SERVERS)):
        env = task_of(POOL, action="five").get_env_fun(1, False, 0, "cpu")()
        assert env.full_action_spec["head", "action"].space.n == 5
        env.close()


def test_heads_of_draws_read_rows_as_learners_do() -> None:
    config = {**POOL, "scenario": {"preset": "two-speeds"}, "action": "discrete"}
    loads = {**config, "randomise": {"scenario.load": [0.5, 0.7]}}
    env = task_of(loads).get_env_fun(1, False, 0, "cpu")()
    assert env.rows == training_form(loads, 1).rows
    env.close()
    # Levels have one size; what has several is left to algorithms for numbers.
    sizes = {**loads, "randomise": {"scenario.servers": {"integers": [3, 6]}}}
    with pytest.raises(ConfigError, match="draws of one size"):
        task_of(sizes)
    del sizes["action"]
    task = task_of(sizes)
    assert task.supports_continuous_actions() and not task.supports_discrete_actions()
    with pytest.raises(ConfigError, match="continuous_actions"):
        task.get_env_fun(1, False, 0, "cpu")


def test_episodes_without_an_end_are_evaluated_for_the_steps_of_the_default() -> None:
    for config in (POOL, FLOWS):
        task = task_of(config, max_steps=None)
        env = task.get_env_fun(1, True, 0, "cpu")()
        assert task.max_steps(env) == type(env.settings)().max_steps
        env.close()
