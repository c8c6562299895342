"""What a training leaves in the system's folder of temporary files: nothing, whatever ends it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.emulators import Machine
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.simulation, pytest.mark.learning]

START_S = 600.0  # Ray on a busy machine.
END_S = 120.0
ROOT = Path(__file__).parents[2]


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder whose name is short enough for the sockets in it."""
    with tempfile.TemporaryDirectory(prefix="", dir="/tmp") as folder:
        yield Path(folder)


@contextmanager
def training(
    temporary: Path, out: Path, algorithm: str, limit: str
) -> Iterator[subprocess.Popen[str]]:
    """The command."""
    words = ["train", "--algo", algorithm, "--env", "LoadBalancing-v1", *limit.split()]
    hidden = ("RAY_TMPDIR", "TORCHINDUCTOR_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    with subprocess.Popen(
        [sys.executable, "-m", "dcgym", *words, "--out", str(out)],
        env={**kept, "TMPDIR": str(temporary)},
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.timeout(700)
@pytest.mark.parametrize(
    "algorithm",
    ["cma-es", "ddpg", "reinforce", pytest.param("ppo", marks=pytest.mark.ray), "mappo"],
)
def test_a_training_that_ends_leaves_nothing(
    algorithm: str, temporary: Path, tmp_path: Path
) -> None:
    pytest.importorskip({"ppo": "ray", "mappo": "benchmarl"}.get(algorithm, "stable_baselines3"))
    with training(temporary, tmp_path / "run", algorithm, "--steps 40") as process:
        _, said = process.communicate(timeout=START_S)
    assert process.returncode == 0, said
    assert not list(temporary.iterdir())


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    ("algorithm", "place"),
    [
        ("ddpg", ".dcgym-training-*"),
        # While Ray starts.
        pytest.param("ppo", ".dcgym-training-*/ray", marks=pytest.mark.ray),
    ],
)
def test_what_a_killed_training_leaves_is_removed_by_the_next_command(
    algorithm: str, place: str, temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({"ppo": "ray"}.get(algorithm, "stable_baselines3"))
    (tmp_path / "runs").mkdir()
    monkeypatch.setenv("DCGYM_RUN_DIR", str(tmp_path / "runs"))
    machine = Machine(tmp_path / "runs")
    with training(temporary, tmp_path / "run", algorithm, "--seconds 300") as process:
        wait_for(lambda: any(temporary.glob(place)), START_S, 0.01)
        process.kill()
    wait_for(lambda: not machine.our_processes(), END_S, 0.2)
    (left,) = temporary.iterdir()
    assert left.name.startswith(".dcgym-training-")
    clean = [sys.executable, "-m", "dcgym", "clean"]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(clean, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and str(left) in done.stdout
    assert not list(temporary.iterdir())
