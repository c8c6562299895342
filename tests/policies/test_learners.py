"""Every learner on the kinds of tasks: what it takes, refuses, keeps, and goes on from.

Trainings of RLlib are in `test_trainings.py`, beside the one Ray of all tests.
"""

import json
import shutil

import numpy as np
import pytest

import dcgym
from dcgym.errors import ConfigError, MissingDependency, TrainingError
from dcgym.policies import LEARNERS, RECIPES, TrainingOptions, find_learner, load_policy
from dcgym.policies.learned.flat import action_kind
from dcgym.policies.learned.states import STATE_FOLDER
from dcgym.policies.learned.training import BEST_FOLDER, TrainingJob
from tests.support.simulated import simulated

POOL = {
    "env": "LoadBalancing-v1",
    "scenario": {"preset": "yao-sim-8", "load": 0.85},
    "max_steps": 12,
    "lead_in": 0,
}
JOBS = {"env": "JobAssignment-v0", "max_steps": 12}
ENVS = {
    "congestion": simulated(max_steps=12),
    "paths": simulated("PathBalancing-v2", max_steps=12),
    "joint": simulated("Joint-v2", max_steps=12),
    "pool": POOL,
    "pool-levels": {**POOL, "action": "discrete"},
    "central": {**POOL, "env": "CentralLoadBalancing-v1"},
    "jobs": JOBS,
    "jobs-scores": {**JOBS, "action": "scores"},
}
SB3 = {"batch_size": 8}
REPLAY = {**SB3, "learning_starts": 16}
ROLLOUT = {**SB3, "n_steps": 8, "n_epochs": 1}
SMALL = {
    "ddpg": REPLAY,
    "td3": REPLAY,
    "sac": REPLAY,
    "ppo-sb3": ROLLOUT,
    "recurrent-ppo": ROLLOUT,
    "cma-es": {"population": 4, "episode_steps": 4},
    "reinforce": {"episode_steps": 4, "hidden": 8},
}


def train(name, config, folder, steps=48, seed=0, **options):
    learner = LEARNERS[name]
    if learner.library == "sb3":
        pytest.importorskip("stable_baselines3")
    if name == "recurrent-ppo":
        pytest.importorskip("sb3_contrib")
    if name == "reinforce":
        pytest.importorskip("torch")
    settings = {**SMALL[name], **options.pop("settings", {})}
    options.setdefault("resume", False)
    given = {} if options["resume"] else {"settings": settings}
    told = TrainingOptions(**given, **options)
    n_envs = None if options["resume"] else 2
    return learner.train(config, steps, seed, folder, n_envs=n_envs, options=told)


def note_of(folder):
    return json.loads((folder / "dcgym_policy.json").read_text(encoding="utf-8"))


def weights_of(folder):
    return pytest.importorskip("safetensors.numpy").load_file(folder / "actor.safetensors")


# Each algorithm on each kind of action, each task with one of them at least; CMA-ES on levels is
# below, with a policy for any number of servers.
PAIRS = [
    ("ddpg", "jobs-scores"),
    ("td3", "congestion"),
    ("sac", "joint"),
    ("ppo-sb3", "paths"),
    ("ppo-sb3", "pool-levels"),
    ("ppo-sb3", "jobs"),
    ("recurrent-ppo", "central"),
    ("recurrent-ppo", "jobs"),
    ("cma-es", "congestion"),
    ("cma-es", "pool"),
    ("cma-es", "jobs"),
    ("reinforce", "joint"),
    ("reinforce", "pool-levels"),
    ("reinforce", "jobs"),
]


@pytest.mark.learning
@pytest.mark.simulation
@pytest.mark.parametrize(("name", "task"), PAIRS)
def test_learner_trains_saves_loads_and_acts(name, task, tmp_path):
    folder = train(name, ENVS[task], tmp_path / "run")
    note = note_of(folder)
    assert note["training"]["steps"] >= 48
    assert find_learner(note["algorithm"], note["library"]) is LEARNERS[name]
    assert note["versions"]["numpy"] == np.__version__ and "commit" in note["versions"]
    assert note["env"]["env"] == ENVS[task]["env"] and note["curve"]
    env = dcgym.make_env(ENVS[task])
    for path in (folder, folder / BEST_FOLDER):
        policy = load_policy(path, env)
        observation, info = env.reset(seed=0)
        for _ in range(3):
            action = policy.act(observation, info)
            assert env.action_space.contains(action)
            observation, *_, info = env.step(action)
    env.close()


@pytest.mark.simulation
def test_an_action_space_that_an_algorithm_cannot_take_is_one_line(tmp_path):
    for task in ("jobs", "pool-levels"):
        space = dcgym.make_env(ENVS[task]).action_space
        others = [one for one in LEARNERS.values() if action_kind(space) not in one.actions]
        assert others
        for learner in others:
            with pytest.raises(ConfigError) as caught:
                learner.train(ENVS[task], 10, 0, tmp_path / "run")
            line = str(caught.value)
            assert "\n" not in line and f"algo: value '{learner.algorithm}'" in line
            assert str(space) in line
            assert f"{learner.library} takes {' and '.join(learner.actions)} ones" in line
            assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("ppo-sb3", "stable_baselines3", "stable-baselines3"),
        ("recurrent-ppo", "sb3_contrib", "sb3-contrib"),
        ("appo", "ray", r"ray\[rllib\]"),
        ("reinforce", "torch", "torch"),
    ],
)
def test_a_library_that_is_not_installed_is_one_line(name, module, package, tmp_path, monkeypatch):
    import sys

    if name == "recurrent-ppo":
        pytest.importorskip("stable_baselines3")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency, match=rf"^{package} is not installed; .*dcgym\["):
        LEARNERS[name].train(simulated(), 10, 0, tmp_path / "run")


@pytest.mark.learning
def test_options_are_saved_with_the_policy(tmp_path):
    folder = train("cma-es", simulated(max_steps=12), tmp_path / "run", frames=3, normalise=True)
    env = dcgym.make_env(simulated())
    policy = load_policy(folder, env)
    view = policy.actor.view
    assert (view.frames, view.is_scaled) == (3, True)
    observation, info = env.reset(seed=0)
    first = policy.act(observation, info)
    later = [policy.act(observation * 0.5, {"steps": 1}) for _ in range(3)]
    assert not np.array_equal(later[0], later[1]), "two of three observations are the first one"
    # No step so far: an episode begins.
    np.testing.assert_array_equal(policy.act(observation, info), first)
    env.close()


@pytest.mark.learning
@pytest.mark.simulation
@pytest.mark.parametrize(("name", "task"), [("cma-es", "jobs"), ("reinforce", "congestion")])
def test_a_training_of_ours_goes_on_bit_for_bit(name, task, tmp_path):
    # Generations of 16 steps, episodes of 8.
    whole = train(name, ENVS[task], tmp_path / "whole", steps=64, seed=5)
    train(name, ENVS[task], tmp_path / "parts", steps=32, seed=5)
    # Seed and environments side by side are those of the checkpoint.
    parts = train(name, ENVS[task], tmp_path / "parts", steps=32, resume=True)
    expected, found = weights_of(whole), weights_of(parts)
    assert expected.keys() == found.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(found[key], array)
    notes = note_of(whole), note_of(parts)
    assert notes[0]["training"]["steps"] == notes[1]["training"]["steps"] == 64
    steps = [[point[1] for point in one["curve"]] for one in notes]
    assert steps[0] == steps[1], "the curve goes on"
    # It is written at the first report and at the end, of either part here.
    best = note_of(parts / BEST_FOLDER)["training"]["reward_mean"]
    assert best == max(point[2] for point in notes[1]["curve"])


@pytest.mark.learning
@pytest.mark.parametrize("name", ["sac", "ppo-sb3"])
def test_a_training_goes_on_from_networks_optimisers_and_replay(name, tmp_path):
    config = simulated(max_steps=12)
    folder = train(name, config, tmp_path / "run")
    first = weights_of(folder)
    n_steps = note_of(folder)["training"]["steps"]
    state = folder / STATE_FOLDER
    job = TrainingJob(config, 0, 2, SMALL[name], state=state)
    with LEARNERS[name].open_training(job) as trainee:
        model = trainee._model
        assert model.num_timesteps >= n_steps
        trainee.save(tmp_path)
        buffer = getattr(model, "replay_buffer", None)
        assert buffer is None or 2 * buffer.size() >= n_steps
        optimizer = model.policy.optimizer if buffer is None else model.actor.optimizer
        assert optimizer.state_dict()["state"], "moments of Adam"
    for key, array in weights_of(tmp_path).items():
        np.testing.assert_array_equal(first[key], array)
    train(name, config, folder, steps=24, resume=True)
    assert note_of(folder)["training"]["steps"] >= n_steps + 24


@pytest.mark.learning
def test_a_killed_training_fills_its_replay_again(tmp_path):
    folder = train("ddpg", simulated(max_steps=12), tmp_path / "run")
    (folder / STATE_FOLDER / "replay.safetensors").unlink()
    job = TrainingJob(simulated(), 0, 2, SMALL["ddpg"], state=folder / STATE_FOLDER)
    with LEARNERS["ddpg"].open_training(job) as trainee:
        model = trainee._model
        assert model.learning_starts == SMALL["ddpg"]["learning_starts"] + model.num_timesteps


@pytest.mark.learning
def test_what_cannot_be_resumed_is_one_line(tmp_path):
    config = simulated(max_steps=12)
    folder = train("cma-es", config, tmp_path / "run")

    def refused(name="cma-es", env=config):
        with pytest.raises(ConfigError) as caught:
            LEARNERS[name].train(env, 10, 0, folder, n_envs=2, options=TrainingOptions(resume=True))
        assert "\n" not in str(caught.value)
        return str(caught.value)

    assert "a checkpoint of reinforce of dcgym" in refused("reinforce")
    assert "trained in another environment" in refused(env=simulated("PathBalancing-v2"))
    state = folder / STATE_FOLDER
    (state / "evolution.safetensors").write_bytes(b"\xff" * 100)
    assert "a state of cma-es" in refused()
    (state / "state.json").write_text('{"steps": "x"}')
    assert "steps: value 'x'" in refused()
    shutil.rmtree(state)
    assert "left its state" in refused()


@pytest.mark.learning
def test_a_damaged_state_of_a_library_is_one_line(tmp_path):
    folder = train("ppo-sb3", simulated(max_steps=12), tmp_path / "run")
    (folder / STATE_FOLDER / "model.pt").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(ConfigError, match="a state that torch wrote") as caught:
        train("ppo-sb3", simulated(max_steps=12), folder, resume=True)
    assert "\n" not in str(caught.value)


@pytest.mark.learning
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("ddpg", {"learning_rate": 1e30}),
        ("ppo-sb3", {"learning_rate": 1e30}),
        ("reinforce", {"learning_rate": 1e30}),
    ],
)
def test_numbers_that_are_not_finite_end_a_training_in_one_line(name, settings, tmp_path):
    with pytest.raises(TrainingError) as caught:
        train(name, simulated(max_steps=12), tmp_path / "run", steps=4000, settings=settings)
    line = str(caught.value)
    assert "\n" not in line and "not finite" in line
    assert line.endswith(("it has learned nothing yet", "the training can be resumed"))
    if line.endswith("resumed"):
        assert all(np.isfinite(one).all() for one in weights_of(tmp_path / "run").values())


@pytest.mark.learning
@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("ddpg", {"learning_rat": 1}, "did you mean 'learning_rate'"),
        ("ppo-sb3", {"n_steps": "many"}, "settings"),
        ("cma-es", {"sigma": -1}, "sigma: value -1"),
        ("cma-es", {"population": 3}, "population: value 3"),
        ("reinforce", {"gamma": 2}, "gamma: value 2"),
    ],
)
def test_a_wrong_hyper_parameter_is_one_line(name, settings, words, tmp_path):
    with pytest.raises(ConfigError, match=words) as caught:
        train(name, simulated(max_steps=12), tmp_path / "run", settings=settings)
    assert "\n" not in str(caught.value)


@pytest.mark.learning
@pytest.mark.parametrize("name", [name for name, one in RECIPES.items() if one.library != "rllib"])
def test_a_published_training_is_what_its_library_takes(name):
    recipe = RECIPES[name]
    learner = find_learner(recipe.algorithm, recipe.library)
    config = ENVS["pool-levels"] if recipe.library == "benchmarl" else simulated(max_steps=12)
    job = TrainingJob(config, 0, 2, recipe.settings)
    if recipe.library != "dcgym":
        learner.require()
    with learner.open_training(job) as trainee:
        if recipe.library == "sb3":
            model = trainee._model
            assert model.tau == recipe.settings["tau"]
            assert model.gradient_steps == recipe.settings["gradient_steps"]
        elif recipe.library == "benchmarl":
            algorithm = trainee._experiment.algorithm
            assert algorithm.mixing_embed_dim == recipe.settings["mixing_embed_dim"]
            assert trainee._experiment.config.polyak_tau == recipe.settings["polyak_tau"]
            assert algorithm.has_rnn
        else:
            assert trainee._settings.learning_rate == recipe.settings["learning_rate"]


@pytest.mark.learning
def test_ctrl_c_keeps_the_last_the_best_and_the_state(tmp_path):
    def interrupt(progress):
        if progress.steps >= 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LEARNERS["cma-es"].train(
            simulated(max_steps=12),
            10_000,
            0,
            tmp_path,
            interrupt,
            n_envs=2,
            options=TrainingOptions(settings=SMALL["cma-es"]),
        )
    assert note_of(tmp_path)["training"]["steps"] == 32
    load_policy(tmp_path), load_policy(tmp_path / BEST_FOLDER)
    train("cma-es", simulated(max_steps=12), tmp_path, steps=16, resume=True)
    assert note_of(tmp_path)["training"]["steps"] == 48


@pytest.mark.learning
@pytest.mark.simulation
def test_a_shared_linear_policy_serves_any_number_of_servers(tmp_path):
    others = {
        "pool": {"preset": "testbed-7"},
        "pool-levels": {"preset": "testbed-7"},
        "jobs": {"preset": "hlb-128", "balancers": 1},
    }
    for task, scenario in others.items():
        folder = train("cma-es", ENVS[task], tmp_path / task)
        other = {**ENVS[task], "scenario": scenario}
        env = dcgym.make_env(other)
        policy = load_policy(folder, env)
        assert env.action_space.contains(policy.act(*env.reset(seed=0)))
        env.close()


def test_a_baseline_of_copies_leaves_what_one_earned_more_than_the_others():
    pytest.importorskip("torch")
    from dcgym.policies.learned.plain.reinforce import advantages_of

    rewards = np.array([[1.0, 3.0], [0.0, 2.0], [4.0, 9.0]])
    running = np.array([[True, True], [True, True], [True, False]])
    # Returns at 1/2: 1 + 0 + 1 = 2 and 3 + 1 = 4; 2 and 2; 4. Less the mean of those that run:
    # -1, 1; 0, 0; 0. Their deviation is sqrt(2/5).
    expected = np.array([[-1, 1], [0, 0], [0, 0]]) / np.sqrt(2 / 5)
    np.testing.assert_allclose(advantages_of(rewards, running, 0.5), expected)
    # One copy: 2, 2, 4 less their mean, 8/3; deviation sqrt(8)/3.
    # What all slots meet alike, however large, changes nothing; a mean over the episode keeps it.
    flows = np.random.default_rng(3).normal(size=(len(rewards), 1)) * 100
    whole = np.ones_like(running)
    driven = advantages_of(rewards + flows, whole, 0.5)
    np.testing.assert_allclose(driven, advantages_of(rewards, whole, 0.5), atol=1e-9)
    own = advantages_of(rewards + flows, whole, 0.5, is_input_driven=False)
    assert abs(own - advantages_of(rewards, whole, 0.5, is_input_driven=False)).max() > 0.1
    alone = advantages_of(rewards[:, :1], running[:, :1], 0.5)
    np.testing.assert_allclose(alone[:, 0], np.array([-2, -2, 4]) / np.sqrt(8))
