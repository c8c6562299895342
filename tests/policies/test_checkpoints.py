"""Checkpoints: what they hold, what they need, and that reading one runs nothing of it."""

import base64
import hashlib
import json
import os
import pickle
import subprocess
import sys
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import dcgym
from dcgym.cli import main
from dcgym.errors import ConfigError, MissingDependency
from dcgym.policies import CHECKPOINT_FILE, load_policy
from dcgym.policies.checkpoint import CheckpointNote, read_note, write_note
from dcgym.policies.learned.actor import Actor, Linear
from dcgym.policies.learned.actor_files import ACTOR_FILE, WEIGHTS_FILE, write_actor
from dcgym.tasks.common.rows import RowLayout
from dcgym.testing import FakeBackend
from tests.support.source_tree import ROOT

save = pytest.importorskip("safetensors.numpy").save
FILES = (CHECKPOINT_FILE, ACTOR_FILE, WEIGHTS_FILE)


def actor(inputs=3, outputs=2, rows=None, seed=0):
    generator = np.random.default_rng(seed)

    def draw(*shape):
        return generator.normal(size=shape).astype(np.float32)

    sizes = [inputs, 8, 8, 1 if rows else outputs]
    layers = tuple(Linear(draw(b, a), draw(b)) for a, b in pairwise(sizes))
    low = np.full(rows.n_rows if rows else outputs, -0.5, np.float32)
    return Actor(layers, "tanh", "none", low, low + 2, rows, draw(rows.n_rows if rows else 0))


def write(folder, one=None):
    folder.mkdir(exist_ok=True)
    details = write_actor(folder, one or actor())
    write_note(folder, CheckpointNote("ddpg", "sb3", 3, {"steps": 10}, details))
    return folder


def test_a_checkpoint_whose_writer_was_killed_between_its_files_is_the_old_or_the_new_one(
    tmp_path, monkeypatch
):
    class Killed(BaseException):
        """What nobody catches."""

    replace, first, second = os.replace, actor(seed=1), actor(seed=2)
    for calls in range(10):
        folder, left = write(tmp_path / str(calls), first), iter(range(calls))

        def count(*paths, left=left):
            if next(left, None) is None:
                raise Killed
            replace(*paths)

        monkeypatch.setattr(os, "replace", count)
        try:
            write(folder, second)
            break
        except Killed:
            monkeypatch.setattr(os, "replace", replace)
        loaded = load_policy(folder).actor.layers[0].weight
        assert any(np.array_equal(loaded, one.layers[0].weight) for one in (first, second))
    assert calls > 2
    note = read_note(folder)
    assert list(note.details) == ["sha256"], "a note names what is there, and no more"


def rewrite(folder, name, content):
    """Change a file, and the note's digest with it, as a stranger can."""
    (folder / name).write_bytes(content)
    if name != CHECKPOINT_FILE:
        note = json.loads((folder / CHECKPOINT_FILE).read_bytes())
        note["details"]["sha256"][name] = hashlib.sha256(content).hexdigest()
        (folder / CHECKPOINT_FILE).write_text(json.dumps(note))


def refused(folder):
    with pytest.raises(ConfigError) as caught:
        load_policy(folder)
    assert "\n" not in str(caught.value) and str(folder) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("rows", [None, RowLayout(4, 2, 3, 1)])
def test_what_is_read_acts_as_what_was_written(tmp_path, rows):
    one = actor(2 * 3 + 3 if rows else 5, rows=rows)
    policy = load_policy(write(tmp_path, one))
    assert (policy.name, one.observation_size) == ("ddpg", 4 * 3 + 3 if rows else 5)
    for observation in np.random.default_rng(1).normal(size=(20, one.observation_size)):
        expected = one.act(observation.astype(np.float32))
        np.testing.assert_array_equal(policy.infer(observation.astype(np.float32)), expected)
        assert expected.dtype == np.float32
        assert (one.low <= expected).all() and (expected <= one.high).all()


def test_a_network_of_known_weights_acts_as_computed_by_hand():
    one = np.ones(1, np.float32)
    layers = (Linear(np.array([[1, -1]], "f4"), 0 * one), Linear(np.array([[0.5]], "f4"), one / 4))
    plain = Actor(layers, "relu", "none", 2 * one, 6 * one, None, np.zeros(0, np.float32))
    # relu(3 - 2) / 2 + 1/4 = 3/4 of -1..1 is 7/8 of 2..6.
    assert plain.act(np.array([3, 2], np.float32)).tolist() == [5.5]
    assert plain.act(np.array([2, 3], np.float32)).tolist() == [4.5]
    assert plain.act(np.array([99, 0], np.float32)).tolist() == [6.0]


def test_acting_needs_no_learning_library(tmp_path):
    env = dcgym.make_env(backend=FakeBackend)
    sizes = env.observation_space.shape[0], env.action_space.shape[0]
    folder = write(tmp_path / "run", actor(*sizes))
    code = (
        "import sys\n"
        "for name in ('torch', 'ray', 'stable_baselines3'): sys.modules[name] = None\n"
        "import dcgym, dcgym.policies\n"
        "from dcgym.testing import FakeBackend\n"
        "env = dcgym.make_env(backend=FakeBackend)\n"
        f"policy = dcgym.policies.load_policy({str(folder)!r}, env)\n"
        "assert policy.act(*env.reset(seed=0)).shape == env.action_space.shape\n"
        "print('acted')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.stdout.splitlines() == ["acted"], done.stderr


def test_a_policy_of_another_environment_is_one_clear_line(tmp_path):
    env = dcgym.make_env(backend=FakeBackend)
    actions = env.action_space.shape[0]
    for sizes, word in (((3, actions), "observations"), ((3, actions + 1), "actions")):
        with pytest.raises(ConfigError, match=word):
            load_policy(write(tmp_path / word, actor(*sizes)), env)


def test_missing_safetensors_names_the_extra(tmp_path, monkeypatch):
    folder = write(tmp_path)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(MissingDependency, match=r"dcgym\[learned\]"):
        load_policy(folder)


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


@pytest.fixture
def bomb(tmp_path):
    """Return a pickle that leaves a mark, proven to do so; fail if a test sets it off."""
    mark = tmp_path / "it-ran"
    payload = pickle.dumps(Bomb(mark))
    pickle.loads(payload)
    assert mark.exists()
    mark.unlink()
    yield payload
    assert not mark.exists()


def old_checkpoint(folder, library, payload):
    """Write a checkpoint as older versions did, each of its pickles a bomb."""
    folder.mkdir(exist_ok=True)
    if library == "sb3":
        item = {":type:": "<class 'dict'>", ":serialized:": base64.b64encode(payload).decode()}
        with zipfile.ZipFile(folder / "model.zip", "w") as archive:
            archive.writestr("data", json.dumps({"policy_class": item}))
            archive.writestr("policy.pth", payload)
            archive.writestr("pytorch_variables.pth", payload)
    else:
        for part in ("module", "algorithm"):
            (folder / part).mkdir(exist_ok=True)
            for name in ("class_and_ctor_args.pkl", "module_state.pkl", "algorithm_state.pkl"):
                (folder / part / name).write_bytes(payload)


@pytest.mark.parametrize(("algorithm", "library"), [("ddpg", "sb3"), ("ppo", "rllib")])
def test_pickles_of_an_older_checkpoint_are_refused_and_never_run(
    tmp_path, bomb, algorithm, library
):
    old_checkpoint(tmp_path, library, bomb)
    write_note(tmp_path, CheckpointNote(algorithm, library, 0, {}, {"low": [0.0], "high": [1.0]}))
    assert "train those of older versions anew" in refused(tmp_path)


@pytest.mark.parametrize("library", ["sb3", "rllib"])
def test_pickles_beside_a_checkpoint_are_not_looked_at(tmp_path, bomb, library):
    folder = write(tmp_path / "run")
    old_checkpoint(folder, library, bomb)
    assert load_policy(folder).infer(np.zeros(3, np.float32)).shape == (2,)


@pytest.mark.parametrize("name", FILES)
def test_pickles_in_place_of_a_file_are_refused_and_never_run(tmp_path, bomb, name):
    folder = write(tmp_path / "run")
    rewrite(folder, name, bomb)
    refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_one_clear_line(tmp_path, name):
    folder = write(tmp_path / "run")
    (folder / name).unlink()
    assert name in refused(folder)


@pytest.mark.parametrize("name", [ACTOR_FILE, WEIGHTS_FILE])
def test_every_flipped_bit_of_a_network_is_found(tmp_path, name):
    folder = write(tmp_path / "run")
    content = (folder / name).read_bytes()
    for position in range(0, len(content), 7):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        (folder / name).write_bytes(changed)
        assert name in refused(folder)


def test_a_flipped_bit_of_the_note_is_a_note_or_one_clear_line(tmp_path):
    folder = write(tmp_path / "run")
    expected = load_policy(folder).infer(np.ones(3, np.float32))
    path = folder / CHECKPOINT_FILE
    content = path.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        try:
            policy = load_policy(folder)
        except ConfigError as error:
            assert "\n" not in str(error)
        else:
            np.testing.assert_array_equal(policy.infer(np.ones(3, np.float32)), expected)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", True),
        ("layers", 0),
        ("layers", 10**30),
        ("activation", "eval"),
        ("activation", ["tanh"]),
        ("low", []),
        ("low", "x"),
        ("low", [10**400, 0]),
        ("low", [[0], [0, 1]]),
        ("low", [1e39, 0]),
        ("high", [-9, -9]),
        ("high", [1.0, 1.0, 1.0]),
        ("rows", {"n_rows": 10**12, "row_columns": 1, "common_columns": 1, "action_columns": 0}),
        ("rows", {"n_rows": 2}),
        ("choices", [2]),
        ("choices", [1, 1]),
        ("memory", "rnn"),
        ("view", {"size": 0, "frames": 1, "rows": None, "scaled": False}),
        ("view", {"size": 9, "frames": 1, "rows": None, "scaled": False}),
        ("view", {"size": 3, "frames": 10**9, "rows": None, "scaled": False}),
        ("view", {"size": 3, "frames": 1, "rows": None, "scaled": True}),
        ("surplus", 1),
    ],
)
def test_a_wrong_field_is_one_clear_line(tmp_path, name, value):
    folder = write(tmp_path / "run")
    facts = json.loads((folder / ACTOR_FILE).read_bytes())
    rewrite(folder, ACTOR_FILE, json.dumps({**facts, name: value}).encode())
    assert name.rstrip("s") in refused(folder)


def test_files_of_older_formats_are_read(tmp_path):
    folder = write(tmp_path / "run")
    observation = np.ones(3, np.float32)
    expected = load_policy(folder).infer(observation)
    facts = json.loads((folder / ACTOR_FILE).read_bytes())
    # The second one knew no masks, and one memory.
    del facts["masked"]
    second = {name: value for name, value in facts.items() if name != "memory"}
    rewrite(folder, ACTOR_FILE, json.dumps({**second, "lstm": False, "format": 2}).encode())
    np.testing.assert_array_equal(load_policy(folder).infer(observation), expected)
    for name in ("choices", "memory", "view"):
        del facts[name]
    rewrite(folder, ACTOR_FILE, json.dumps({**facts, "format": 1}).encode())
    note = json.loads((folder / CHECKPOINT_FILE).read_bytes())
    old = {name: note[name] for name in ("algorithm", "library", "seed", "training", "details")}
    (folder / CHECKPOINT_FILE).write_text(json.dumps(old))
    np.testing.assert_array_equal(load_policy(folder).infer(observation), expected)


@pytest.mark.parametrize("name", [CHECKPOINT_FILE, ACTOR_FILE])
def test_a_checkpoint_of_a_newer_version_says_so(tmp_path, name):
    folder = write(tmp_path / "run")
    facts = json.loads((folder / name).read_bytes())
    # Whatever else it has.
    rewrite(folder, name, json.dumps({**facts, "format": 4, "more": 1}).encode())
    assert "a newer dcgym has written it" in refused(folder)


@pytest.mark.parametrize("name", FILES)
def test_other_content_is_one_clear_line(tmp_path, name):
    for content in (b"", b"[]", b"{", b"\xff", b"[" * 100_000):
        folder = write(tmp_path / "run")
        rewrite(folder, name, content)
        assert name in refused(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays | {"more": np.zeros(1, np.float32)},
        lambda arrays: {name: array for name, array in arrays.items() if name != "constants"},
        lambda arrays: arrays | {"layers.1.weight": np.zeros((8, 9), np.float32)},
        lambda arrays: arrays | {"layers.1.weight": np.zeros((8, 8), np.float64)},
        lambda arrays: arrays | {"layers.1.weight": np.full((8, 8), np.nan, np.float32)},
        lambda arrays: arrays | {"layers.0.weight": np.zeros((8, 0), np.float32)},
        lambda arrays: arrays | {"layers.2.bias": np.zeros(3, np.float32)},
        lambda arrays: arrays | {"constants": np.zeros(2, np.float32)},
    ],
)
def test_weights_that_do_not_fit_are_one_clear_line(tmp_path, change):
    folder = write(tmp_path / "run")
    arrays = pytest.importorskip("safetensors.numpy").load((folder / WEIGHTS_FILE).read_bytes())
    rewrite(folder, WEIGHTS_FILE, save(change(arrays)))
    refused(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("algorithm", 5),
        ("seed", "x"),
        ("training", []),
        ("details", {"sha256": 5}),
        ("details", {"sha256": {ACTOR_FILE: [], WEIGHTS_FILE: None}}),
        ("curve", 5),
        ("surplus", 1),
    ],
)
def test_a_note_of_other_types_is_one_clear_line(tmp_path, name, value):
    folder = write(tmp_path / "run")
    note = json.loads((folder / CHECKPOINT_FILE).read_bytes())
    (folder / CHECKPOINT_FILE).write_text(json.dumps({**note, name: value}))
    refused(folder)


@pytest.mark.parametrize("folder", [5, "a\0b", "x" * 5000])
def test_a_folder_of_another_type_is_one_clear_line(folder):
    for read in (load_policy, read_note):
        with pytest.raises(ConfigError, match="checkpoint"):
            read(folder)


def test_the_command_line_says_it_in_one_line(tmp_path, capsys):
    folder = write(tmp_path / "run")
    (folder / WEIGHTS_FILE).unlink()
    given = ["--env", "LoadBalancing-v1", "--policy", "ddpg", "--checkpoint", str(folder)]
    with pytest.raises(SystemExit) as caught:
        main(["run", *given, "--seconds", "1"])
    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert error.endswith("\n") and "Traceback" not in error
    assert error.splitlines()[-1].startswith("dcgym: checkpoint") and WEIGHTS_FILE in error


@pytest.mark.learning
def test_the_gradient_leads_back_from_beyond_a_bound():
    torch = pytest.importorskip("torch")
    from dcgym.policies.learned.bounds import InvertedGradients

    values = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0], requires_grad=True)
    bounded = InvertedGradients()(values)
    assert bounded.tolist() == [-1.0, -1.0, 0.0, 0.5, 1.0, 1.0]
    # A loss that asks for more: descending it raises a value by minus the gradient.
    (-bounded.sum()).backward()
    assert values.grad.tolist() == [-1.5, -1.0, -0.5, -0.25, 0.0, 1.0]
    values.grad = None
    InvertedGradients()(values).sum().backward()
    assert values.grad.tolist() == [-0.5, 0.0, 0.5, 0.75, 1.0, 2.0]


def test_a_note_that_could_not_be_read_is_not_written(tmp_path: Path) -> None:
    """A network that is written out in the arguments, of a megabyte and more."""
    links = [["s1", f"h{number}"] for number in range(100_000)]
    note = CheckpointNote("ddpg", "sb3", env={"topology": {"links": links}})
    with pytest.raises(ConfigError, match=r"env: .*at most 1,000,000 bytes; a topology may be a"):
        write_note(tmp_path, note)
    assert not [*tmp_path.iterdir()]
