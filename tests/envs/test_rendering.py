"""Pictures: what stands on them, films of them, and time that drawing must not take from steps."""

import re

import gymnasium as gym
import numpy as np
import pytest

import dcgym
from dcgym.envs.system import System
from dcgym.envs.values import Caption
from dcgym.errors import ConfigError
from dcgym.testing import FakeBackend
from tests.support.source_tree import ROOT

pytest.importorskip("PIL")

from dcgym.envs.render.network import NetworkPainter
from dcgym.envs.render.pool import SERVED, WAITING, WEIGHT, PoolPainter
from dcgym.envs.render.rows import RATES, WEIGHTS

SINGLE = "dcgym/LoadBalancing-v1"
CAPTION = Caption("Name-v0", 1.5, 30, (0.25,))


def make(**config):
    return dcgym.make_env({"backend": FakeBackend, "render_mode": "rgb_array", **config})


def count(picture, colour):
    return int((picture == np.array(colour)).all(axis=2).sum())


def changed(one, other):
    """Return top, bottom, left and right of what differs between two pictures."""
    rows, columns = np.nonzero((one != other).any(axis=2))
    return rows.min(), rows.max(), columns.min(), columns.max()


def painted(env, caption=CAPTION, action=None):
    """Return a picture of a network, with an action in force that it has not run under yet."""
    system = env.unwrapped.system
    if action is not None:
        system.act([[action]], np.zeros(1, np.bool_))
    return system.render(0, caption)


def test_title_time_step_and_reward_stand_in_the_header():
    env = make()
    env.reset(seed=0)
    first = painted(env)
    for other in (
        Caption("Other-v0", 1.5, 30, (0.25,)),
        Caption("Name-v0", 1.55, 30, (0.25,)),
        Caption("Name-v0", 1.5, 31, (0.25,)),
        Caption("Name-v0", 1.5, 30, (0.75,)),
    ):
        top, bottom, left, right = changed(first, painted(env, other))
        assert top > 0 and bottom < 43 and left > 0 and right < 959


def test_the_first_picture_has_no_reward_and_the_next_has_the_last_one(monkeypatch):
    captions = []
    draw = NetworkPainter.draw

    def note(painter, interval, values, caption):
        captions.append(caption)
        return draw(painter, interval, values, caption)

    monkeypatch.setattr(NetworkPainter, "draw", note)
    env = make(traffic="pairs-udp", interval="50ms")
    env.reset(seed=0)
    env.render()
    rewards = [env.step(env.action_space.sample())[1] for _ in range(3)]
    env.render()
    first, last = captions
    assert (first.time_s, first.step, first.rewards) == (0, 0, ())
    assert last.title == "CongestionControl-v2" and last.time_s == pytest.approx(0.15)
    assert last.step == 3 and last.rewards == pytest.approx(rewards[-1:])


@pytest.mark.parametrize("topology", ["dumbbell", {"name": "fat-tree", "k": 4}])
def test_bars_are_as_long_as_the_shares(topology):
    env = make(topology=topology)
    env.reset(seed=0)
    n_hosts = len(env.unwrapped.task.topology.hosts)
    # What is blue anyway is the mark in the legend; the least rate is a hundredth.
    least, half, full = (
        count(painted(env, action=np.full(n_hosts, share)), RATES[0]) for share in (0.01, 0.505, 1)
    )
    assert full - least == pytest.approx(2 * (half - least), rel=0.03) and half > least


def test_both_decisions_of_the_joint_task_are_drawn():
    env = make(env="dcgym/Joint-v2")
    env.reset(seed=0)
    picture = env.render()
    assert count(picture, RATES[0]) > 1000 and count(picture, WEIGHTS[0]) > 1000


@pytest.mark.parametrize("k", [6, 10])
def test_big_networks_are_rows_of_ports_and_columns_of_actions(k):
    env = make(env="dcgym/Joint-v2", topology={"name": "fat-tree", "k": k})
    env.reset(seed=0)
    task = env.unwrapped.task
    first = np.zeros(len(task.uplinks.members))
    first[np.cumsum(task.uplinks.sizes) - task.uplinks.sizes] = 1.0
    rates = np.ones(len(task.topology.hosts))
    idle = painted(env, action={"rates": 0.01 * rates, "weights": first})
    full = painted(env, action={"rates": rates, "weights": 1 - first})
    top, bottom, left, right = changed(idle, full)
    # Nothing but the two action rows and their words, inside of the margins.
    assert top > 330 and bottom < 536 and left >= 16 and right < 944


@pytest.mark.parametrize(("n_servers", "n_balancers"), [(2, 1), (128, 8)])
def test_flows_and_weights_of_any_pool_are_in_proportion(n_servers, n_balancers):
    workers = np.full(n_servers, 2.0)
    names = [f"balancer {number}" for number in range(n_balancers)]
    painter = PoolPainter(workers, names, "pool")
    weights = np.ones((n_balancers, n_servers))
    idle, served, waiting = (
        painter.draw(np.full(n_servers, flows), weights, CAPTION) for flows in (0, 2, 6)
    )
    # In the legend both have the same size; the line of the processors hides a pixel or two.
    legend = count(idle, SERVED)
    height = count(served, SERVED) - legend
    assert count(waiting, SERVED) - legend == height
    assert count(waiting, WAITING) - legend == pytest.approx(2 * height, rel=0.05)
    assert count(idle, WEIGHT[0]) > legend


def test_drawing_asks_the_backend_for_nothing_but_the_time(monkeypatch):
    backend = FakeBackend()
    env = make(backend=backend, traffic="pairs-udp")
    env.reset(seed=0)
    env.step(env.action_space.sample())
    first = env.render()
    # The network runs on, and nobody may read it.
    backend.pause(0.3)
    monkeypatch.setattr(FakeBackend, "read", None)
    assert np.array_equal(first, env.render())


def test_the_time_of_drawing_belongs_to_no_interval(monkeypatch):
    backend = FakeBackend()
    env = make(backend=backend, interval="50ms", traffic="pairs-udp")
    env.reset(seed=0)
    # Six intervals: whoever waits for that must begin anew.
    monkeypatch.setattr(System, "render", lambda *_: backend.pause(0.3))
    for _ in range(5):
        env.render()
        drawn_ns = backend.now_ns
        *_, info = env.step(env.action_space.sample())
        assert not info["is_restarted"]
        assert info["interval_us"] == pytest.approx(50_000)
        assert info["action_latency_us"] == pytest.approx(300_000)
        assert backend.now_ns == drawn_ns + 50_000_000


@pytest.mark.emulation
def test_an_emulated_interval_begins_after_its_picture_was_drawn(monkeypatch):
    drawn_ns = []
    draw = System.render

    def note_end(system, number, caption):
        picture = draw(system, number, caption)
        drawn_ns.append(int(system.now_ns()[0]))
        return picture

    monkeypatch.setattr(System, "render", note_end)
    # A picture takes much less than the 80 ms by which an action may come late.
    env = make(backend="emulation", interval="400ms")
    system = env.unwrapped.system
    try:
        env.reset(seed=0)
        for _ in range(5):
            assert env.render().shape == (600, 960, 3)
            *_, info = env.step(env.action_space.sample())
            # Fast or slow, the interval holds nothing of the drawing and is a whole one.
            begun_ns = system.read_ns[0] - round(info["interval_us"] * 1e3)
            assert begun_ns >= drawn_ns[-1]
            assert system.read_ns[0] >= drawn_ns[-1] + system.interval_ns
    finally:
        env.close()


@pytest.mark.simulation
def test_a_film_has_a_frame_a_step_and_runs_in_real_time(tmp_path):
    pytest.importorskip("moviepy")
    from imageio_ffmpeg import count_frames_and_secs, read_frames

    env = gym.make(SINGLE, render_mode="rgb_array")
    film = gym.wrappers.RecordVideo(env, str(tmp_path), episode_trigger=lambda _: True)
    film.reset(seed=0)
    film.action_space.seed(0)
    for _ in range(20):
        film.step(film.action_space.sample())
    film.close()
    (path,) = tmp_path.glob("*.mp4")
    # The picture after the reset is the first one; four steps of 250 ms are a second.
    frames, seconds = count_frames_and_secs(str(path))
    assert frames == 21 and seconds == pytest.approx(21 / 4, abs=0.3)
    assert next(read_frames(str(path)))["source_size"] == (960, 600)


@pytest.mark.parametrize(("interval", "per_second"), [("50ms", 20), ("300ms", 10 / 3), ("2s", 0.5)])
def test_films_run_in_real_time(interval, per_second):
    assert make(interval=interval).metadata["render_fps"] == pytest.approx(per_second)


@pytest.mark.simulation
def test_agents_refuse_a_window_in_one_line():
    pytest.importorskip("pettingzoo")
    with pytest.raises(ConfigError, match=r"render_mode.*rgb_array") as caught:
        dcgym.parallel_env("LoadBalancing-v1", render_mode="human")
    assert "\n" not in str(caught.value)


def test_each_agent_has_its_reward_beside_its_weights():
    painter = PoolPainter(np.ones(4), ["balancer 0", "balancer 1"], "pool")
    rewards = [(0.5, 0.5), (0.25, 0.75)]
    one, other = (
        painter.draw(np.ones(4), np.ones((2, 4)), Caption("Name-v0", 1.5, 30, both))
        for both in rewards
    )
    # Their mean in the header is the same.
    top, bottom, left, right = changed(one, other)
    assert top > 60 and bottom < 250 and left >= 16 and right < 140


def test_the_gallery_shows_every_environment_in_small_files():
    docs = ROOT / "docs"
    page = (docs / "gallery.md").read_text()
    shown = set(re.findall(r"\(images/gallery/(\S+?)\)", page))
    assert shown == {path.name for path in (docs / "images/gallery").iterdir()}
    assert all((docs / "images/gallery" / name).stat().st_size < 100_000 for name in shown)
    about_all = {"formulas", "index", "presets"}
    for env_page in (docs / "envs").glob("*.md"):
        if env_page.stem in about_all:
            continue
        assert f"{env_page.stem}.png" in shown
        assert f"](../images/gallery/{env_page.stem}.png)" in env_page.read_text()
