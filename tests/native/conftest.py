from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.l4lb_rig import Rigs

SCENARIOS = Path(__file__).parent / "scenarios"
SCENARIO_S = 120.0
Scenario = Callable[[str, dict[str, Any]], dict[str, Any]]


class ScenarioServer:
    """A process that runs scenarios, one after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # A scenario makes no environments, and starts in less time without Gymnasium.
            [sys.executable, "-X", "dcgym_emulator", str(SCENARIOS / "server.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Installed or not, the scenario imports the dcgym that the tests import.
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            text=True,
            start_new_session=True,
        )

    def run(self, script: Path, files: list[Path]) -> int:
        """Run a script with its stdin, stdout and stderr, and return its exit status."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps([str(script), *map(str, files)]) + "\n")
        stdin.flush()
        ready, _, _ = select.select([stdout], [], [], SCENARIO_S)
        assert ready, f"{script.name} took more than {SCENARIO_S} s"
        answer = stdout.readline()
        assert answer, "the process that runs scenarios has ended"
        return int(answer)

    def close(self) -> None:
        """End it and what it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


@pytest.fixture(scope="session")
def run_scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    """Run a script of scenarios/ in a network namespace of its own, JSON in and JSON out."""
    folder = tmp_path_factory.mktemp("scenarios")
    files = [folder / what for what in ("stdin", "stdout", "stderr")]
    servers: list[ScenarioServer] = []

    def run(name: str, request: dict[str, Any]) -> dict[str, Any]:
        if not servers:
            servers.append(ScenarioServer())
        for path, content in zip(files, (json.dumps(request), "", ""), strict=True):
            path.write_text(content, encoding="utf-8")
        try:
            status = servers[0].run(SCENARIOS / f"{name}.py", files)
        except BaseException:
            servers.pop().close()
            raise
        assert status == 0, files[2].read_text(encoding="utf-8")
        result: dict[str, Any] = json.loads(files[1].read_text(encoding="utf-8"))
        return result

    yield run
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
def rigs() -> Iterator[Rigs]:
    """Balancers that the tests of a file share."""
    made = Rigs()
    yield made
    made.close()
