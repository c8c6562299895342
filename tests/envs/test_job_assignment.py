"""Job assignment: Park's environment, in every form, against a model of its own."""

from __future__ import annotations

import copy
from collections import deque
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import pytest
from gymnasium.utils.env_checker import check_env

import dcgym
from dcgym.backends.records import SUMMARY
from dcgym.errors import ConfigError
from dcgym.policies import make_policy, policy_names
from dcgym.suites import Case, Suite, run_suite
from dcgym.suites.park import PARK_POLICIES, park
from dcgym.testing import check_contract
from tests.support.suites import leave_figures_empty

pytestmark = pytest.mark.simulation

ID = "dcgym/JobAssignment-v0"
VECTOR = {"vectorization_mode": "vector_entry_point"}
SPEEDS = 0.15 + 0.1 * np.arange(10)
# Two servers, of speeds 1 and 2; jobs of 100 ms of work at 0, 20, 60 and 70 ms.
TWO = {
    "pool": {
        "groups": [
            {"name": "slow", "count": 1, "workers": 1},
            {"name": "fast", "count": 1, "workers": 1, "cpu_speed": 2},
        ],
        "balancers": 1,
    },
    "workload": {
        "applications": [{"name": "job", "stages": [{"resource": "cpu", "time": "100ms"}]}],
        "arrivals": {"name": "recorded", "times": [0.01, 0.03, 0.07, 0.08]},
        "allow_overload": True,
    },
    "data_plane": {"latency_ns": [0, 0], "packet_interval_ns": 0, "probe_interval_ns": 0},
}


class ParkModel:
    """Park's ``load_balance`` as its code has it, on jobs that are given, without whole units."""

    def __init__(self, speeds: npt.NDArray[np.float64]) -> None:
        self.now, self.speeds = 0.0, speeds
        self.queues: list[deque[float]] = [deque() for _ in speeds]
        self.ends = np.full(len(speeds), np.inf)

    def observe(self, size: float) -> npt.NDArray[np.float64]:
        waiting = [sum(queue) for queue in self.queues]
        in_service = np.where(np.isinf(self.ends), 0.0, self.ends - self.now)
        return np.append(waiting + in_service, size)

    def place(self, server: int, size: float) -> None:
        self.queues[server].append(size)
        self._begin(server)

    def run(self, until: float) -> float:
        """Go on to a time; returns the reward, minus the jobs in the system times the time."""
        reward = 0.0
        while self.now < until and (np.isfinite(self.ends).any() or np.isfinite(until)):
            server = int(np.argmin(self.ends))
            then = min(float(self.ends[server]), until)
            jobs = np.isfinite(self.ends).sum() + sum(map(len, self.queues))
            reward -= (then - self.now) * jobs
            self.now = then
            if self.ends[server] <= then:
                self.ends[server] = np.inf
                self._begin(server)
        return reward

    def _begin(self, server: int) -> None:
        if np.isinf(self.ends[server]) and self.queues[server]:
            size = self.queues[server].popleft()
            self.ends[server] = self.now + size / self.speeds[server]


def episode(env: gym.Env[Any, Any], choose: Any, seed: int) -> float:
    """Run an episode and return the sum of its rewards."""
    observation, info = env.reset(seed=seed)
    total, is_over = 0.0, False
    while not is_over:
        observation, reward, is_over, _, info = env.step(choose(observation, info))
        total += float(reward)
    return total


def returns(policy: str, seeds: int) -> npt.NDArray[np.float64]:
    """Return the sums of the rewards of a policy, a seed each, of 1000 jobs."""
    overrides = make_policy(policy, family="assignment").env_overrides()
    envs = gym.make_vec(ID, seeds, info="none", autoreset_mode="Disabled", **VECTOR, **overrides)
    observations, _ = envs.reset(seed=0)
    total = np.zeros(seeds)
    for _ in range(1000):
        # Park's greedy rule; where another rule decides, the action is ignored.
        observations, rewards, terminated, _, _ = envs.step(observations[:, :-1].argmin(axis=1))
        total += rewards
    assert terminated.all()
    envs.close()
    return total


def test_a_hand_worked_trace() -> None:
    """All jobs to the slow server but the second: ends at 100, 70 (20 + 50), 200 and 300 ms."""
    env = gym.make(ID, scenario=TWO, jobs=4, record_limit=10)
    observation, info = env.reset(seed=0)
    # At 0 ms: nothing anywhere, a job of 100 ms.
    assert observation.tolist() == [0, 0, 100] and info["time_s"] == 0
    observation, reward, over, _, info = env.step(0)
    # At 20 ms: the first has 80 ms left.
    assert observation.tolist() == [80, 0, 100] and reward == pytest.approx(-20)
    assert info["time_s"] == pytest.approx(0.02) and info["interval_us"] == pytest.approx(20_000)
    observation, reward, over, _, info = env.step(1)
    # At 60 ms: 40 ms later with two jobs; 40 ms left of the first, 10 ms of 50 of the second.
    assert observation == pytest.approx([40, 10, 100]) and reward == pytest.approx(-80)
    observation, reward, over, _, info = env.step(0)
    # At 70 ms: three jobs for 10 ms; the second ends now. Waiting work and time are added up.
    assert observation == pytest.approx([100 + 30, 0, 100]) and reward == pytest.approx(-30)
    assert info["metrics"]["jobs"] == 3 and info["metrics"]["completed"] == 1
    assert info["servers"]["waiting_ms"].tolist() == [100, 0]
    assert not over
    observation, reward, over, truncated, info = env.step(0)
    # 30 ms with three jobs, 100 ms with two, 100 ms with one.
    assert reward == pytest.approx(-(30 * 3 + 100 * 2 + 100)) and over and not truncated
    assert observation.tolist() == [0, 0, 0] and info["metrics"]["completed"] == 3
    assert info["metrics"]["sojourn_ms"] == pytest.approx(100 + 140 + 230)
    records = np.sort(env.unwrapped.flow_records(), order="flow")  # type: ignore[attr-defined]
    assert (records["end_ns"] / 1e6).round(6).tolist() == [100, 70, 200, 300]
    assert records["server"].tolist() == [0, 1, 0, 0]
    env.close()


@pytest.mark.parametrize("rule", ["greedy", "random"])
def test_it_gives_the_observations_and_rewards_of_parks_code(rule: str) -> None:
    env, model = gym.make(ID, jobs=400), ParkModel(SPEEDS)
    generator = np.random.default_rng(3)
    observation, info = env.reset(seed=7)
    is_over, time_ms, rewards, expected = False, 0.0, [], []
    while not is_over:
        size = info["size_ms"]
        np.testing.assert_allclose(observation, model.observe(size), rtol=1e-6, atol=1e-3)
        server = int(observation[:-1].argmin() if rule == "greedy" else generator.integers(10))
        model.place(server, size)
        observation, reward, is_over, _, info = env.step(server)
        time_ms = np.inf if is_over else info["time_s"] * 1e3
        rewards.append(reward)
        expected.append(model.run(time_ms))
    assert len(rewards) == 400
    np.testing.assert_allclose(rewards, expected, rtol=1e-6, atol=1e-3)
    env.close()


def test_the_return_is_the_sum_of_the_sojourn_times_and_no_work_gets_lost() -> None:
    env = gym.make(ID, jobs=500, record_limit=10**4)
    sizes_ms: list[float] = []

    def choose(observation: Any, info: dict[str, Any]) -> int:
        sizes_ms.append(info["size_ms"])
        return len(sizes_ms) % 10

    total = episode(env, choose, 5)
    inner: Any = env.unwrapped
    records, summary = inner.flow_records(), inner.backend.records(SUMMARY, 0)
    sojourn_ns = records["end_ns"] - records["arrival_ns"]
    assert total == pytest.approx(-sojourn_ns.sum() / 1e6)
    assert records["demand_ns"].sum() / 1e6 == pytest.approx(sum(sizes_ms))
    # What each server did in its busy time is the work that it got.
    done_s = np.array(summary.busy_mean) * summary.duration_s * SPEEDS
    given_s = [records["demand_ns"][records["server"] == n].sum() / 1e9 for n in range(10)]
    np.testing.assert_allclose(done_s, given_s, rtol=1e-6)
    env.close()


def test_the_published_scores_come_out_within_their_spread() -> None:
    """Medians against those of Park's own code over 24 other seeds (reference: least, most)."""
    published = {
        "random-server": (1.47e7, 1.0e7, 2.6e7),
        "wcmp": (3.7e6, 1.5e6, 1.5e7),
        "lsq": (9.2e5, 5.6e5, 3.1e6),
        "sed": (8.4e5, 4.8e5, 3.9e6),
        "least-work": (7.3e5, 4.9e5, 2.7e6),
    }
    found = {name: -returns(name, 48) for name in published}
    for name, (median, least, most) in published.items():
        assert least < np.median(found[name]) < most
        # A factor of two lies between the medians of halves of such seeds, rarely.
        assert 0.6 < np.median(found[name]) / median < 1.6, name
    order = [np.median(found[name]) for name in ("random-server", "wcmp", "lsq", "least-work")]
    assert order == sorted(order, reverse=True)
    # Paired: the same jobs for every rule.
    assert (found["least-work"] < found["wcmp"]).mean() > 0.95


def test_it_keeps_the_contract_and_gymnasiums() -> None:
    for arguments in (
        {},
        {"observation": "work", "action": "scores"},
        {"observation": "counts"},
    ):
        check_contract(lambda given=arguments: dcgym.make_env(env=ID, **given))
    check_env(gym.make(ID, jobs=30).unwrapped, skip_render_check=True)
    assert not gym.make(ID).spec.nondeterministic


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_slot_gives_what_a_single_environment_gives(mode: str) -> None:
    arguments = {"jobs": 7, "info": "flat"}
    envs = gym.make_vec(ID, 3, autoreset_mode=mode, **VECTOR, **arguments)
    single = gym.vector.SyncVectorEnv(
        [lambda: gym.make(ID, **arguments)] * 3, autoreset_mode=envs.metadata["autoreset_mode"]
    )
    pairs = [envs.reset(seed=5), single.reset(seed=5)]
    for step in range(20):
        actions = (np.arange(3) + step) % 10
        pairs = [envs.step(actions), single.step(actions)]
        for ours, theirs in zip(pairs[0][:4], pairs[1][:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)
        for name in ("metrics/jobs", "size_ms", "time_s"):
            np.testing.assert_array_equal(pairs[0][4][name], pairs[1][4][name])
    envs.close()
    single.close()


def test_copies_on_shared_paths_meet_the_same_jobs() -> None:
    envs = gym.make_vec(ID, 2, paths="shared", info="none", **VECTOR)
    observations, _ = envs.reset(seed=1)
    for step in range(30):
        assert observations[0, -1] == observations[1, -1]
        observations, *_ = envs.step(np.array([step % 10, 9]))
    assert (observations[0] != observations[1]).any()
    envs.close()


def test_a_copy_of_an_environment_goes_on_alike() -> None:
    env = gym.make(ID, jobs=60)
    env.reset(seed=2)
    for step in range(20):
        env.step(step % 10)
    twin = copy.deepcopy(env)
    for step in range(40):
        ours, theirs = env.step(step % 10), twin.step(step % 10)
        np.testing.assert_array_equal(ours[0], theirs[0])
        assert ours[1:4] == theirs[1:4]


def test_scores_give_the_job_to_the_highest() -> None:
    by_score, by_number = gym.make(ID, action="scores"), gym.make(ID)
    by_score.reset(seed=1)
    by_number.reset(seed=1)
    generator = np.random.default_rng(0)
    for _ in range(30):
        scores = generator.uniform(-1, 1, 10).astype(np.float32)
        ours, theirs = by_score.step(scores), by_number.step(int(scores.argmax()))
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_the_mean_gap_is_what_was_asked_for() -> None:
    n_jobs, times_s = 2000, []
    for interval, steps in ((None, n_jobs), ("109ms", n_jobs // 10)):
        env = gym.make(ID, interval=interval, jobs=None, max_steps=steps, info="flat", rule="sed")
        env.reset(seed=0)
        found = [env.step(0) for _ in range(steps)]
        assert [one[3] for one in found] == [False] * (steps - 1) + [True]
        times_s.append([one[4]["time_s"] for one in found])
    own, twice = times_s
    # Of 2000 exponential gaps within 10 %; the same random numbers, twice as far apart.
    assert own[-1] / n_jobs == pytest.approx(0.0545, rel=0.1)
    assert twice == pytest.approx([2 * time_s for time_s in own[: len(twice)]], rel=1e-6)


def test_every_policy_acts() -> None:
    for name in policy_names("assignment"):
        if name in ("ppo", "ddpg") or ("-" in name and name.split("-")[0] in ("ppo", "ddpg")):
            continue
        try:
            policy = make_policy(name, family="assignment")
        except ConfigError:
            continue  # a learner's
        env = gym.make(ID, jobs=20, **policy.env_overrides())
        policy.bind(env)
        assert episode(env, policy.act, 3) < 0
        env.close()


def test_the_suite_records_returns_and_sojourn_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_figures_empty(monkeypatch)
    suite = park(40)
    assert set(PARK_POLICIES) == set(suite.policies) and suite.seeds == 24
    case = Case({"env": ID, "jobs": 40})
    small = Suite("park", "Park.", (case,), ("sed", "least-work"), 2, 40 * 0.0545, 0.0, jobs=0)
    for record in run_suite(small, tmp_path):
        metrics = record["metrics"]
        assert record["config"]["steps"] == 40
        assert metrics["return"] == pytest.approx(-40 * metrics["sojourn_ms_mean"])
        assert metrics["reward_mean"] == pytest.approx(-metrics["sojourn_ms_mean"])
        assert metrics["failed"] == 0
    assert "sojourn" in (tmp_path / "report.html").read_text()


def test_learners_are_shown_a_row_for_each_server_whatever_the_action_is() -> None:
    from dcgym.policies.learned.environments import training_form

    for arguments in ({"env": ID}, {"env": ID, "action": "scores"}):
        form = training_form(arguments, 2)
        assert form.is_vector and form.n_copies == 2
        # One load a server, and the job's size.
        assert form.rows is not None and form.rows.size == form.observation_size == 11
        assert (form.rows.n_rows, form.rows.common_columns) == (10, 1)
        assert str(form.action_space).startswith("Box" if "action" in arguments else "Discrete")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": "emulation"}, "backend: value 'emulation' .*simulation: there each job waits"),
        ({"scenario": "yao-sim-8"}, "scenario.balancers: value 2 .*one dispatcher"),
        ({"interval": "1s", "scenario": TWO}, "interval: value '1s' .*recorded"),
    ],
)
def test_bad_arguments_are_one_clear_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        gym.make(ID, **arguments)
    assert "\n" not in str(caught.value)


def test_bad_actions_change_nothing() -> None:
    env: Any = gym.make(ID, disable_env_checker=True)
    env.reset(seed=0)
    for action in (10, -1, 0.5, [1, 2], None, "0"):
        with pytest.raises(ConfigError, match=r"^action: value"):
            env.step(action)
    # The job still waits.
    other = gym.make(ID)
    other.reset(seed=0)
    np.testing.assert_array_equal(env.step(3)[0], other.step(3)[0])


def test_a_picture_shows_the_servers() -> None:
    env = gym.make(ID, render_mode="rgb_array")
    env.reset(seed=0)
    before = env.render()
    for _ in range(5):
        env.step(9)
    after = env.render()
    assert after.shape == before.shape == (600, 960, 3) and (after != before).any()
