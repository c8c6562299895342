"""What a shell is told after the tabulator key, in the protocol that its script speaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from dcgym.backends.emulation.session.runs import record_run
from dcgym.backends.names import named_runs
from tests.cli.test_cli import dcgym


def offered(line: str, **environment: str) -> list[str]:
    """Return what bash offers for the last word of a line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = dcgym(**asked, _DCGYM_COMPLETE="complete_bash", **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# One of each kind of name, after commands and options that each have it of their own.
OFFERED = (
    ("dcgym swe", {"sweep"}),
    ("dcgym run --pol", {"--policy"}),
    ("dcgym run --env Load", {"LoadBalancing-v1"}),
    ("dcgym run --env dcgym/Load", {"dcgym/LoadBalancing-v1"}),
    ("dcgym run --policy dctcp", {"dctcp", "dctcp+ecmp", "dctcp+wcmp"}),
    ("dcgym run --traffic web-search", {"web-search-incast"}),
    ("dcgym train --algo pp", {"ppo"}),
    ("dcgym draw fat", {"fat-tree"}),
    ("dcgym traffic show pairs", {"pairs", "pairs-udp"}),
    ("dcgym list polic", {"policies"}),
    ("dcgym bench balancing-", {"balancing-quick", "balancing-classic", "balancing-twin-error"}),
    ("dcgym bench quick --policies cubic,dct", {"cubic,dctcp"}),
    ("dcgym sweep --policies fair", {"fair-share"}),
    ("dcgym sweep --topology fat", {"fat-tree"}),
)


def test_names_are_completed() -> None:
    wrong = []
    for line, expected in OFFERED:
        found, last = offered(line), line.split(" ")[-1]
        if not expected <= set(found) or not all(word.startswith(last) for word in found):
            wrong.append((line, found))
    assert wrong == []
    # A policy is offered once.
    assert "cubic,cubic" not in offered("dcgym bench quick --policies cubic,cub")


def test_running_emulations_are_completed(tmp_path: Path) -> None:
    directory = {"DCGYM_RUN_DIR": str(tmp_path)}
    assert offered("dcgym top ", **directory) == []
    before = os.environ.get("DCGYM_RUN_DIR")
    os.environ |= directory
    try:
        with named_runs("cubic-0"):
            record_run("aaaaaa", os.getpid())
        with named_runs("twice-0"):
            record_run("bbbbbb", os.getpid())
            record_run("cccccc", os.getpid())
    finally:
        del os.environ["DCGYM_RUN_DIR"]
        os.environ |= {} if before is None else {"DCGYM_RUN_DIR": before}
    assert offered("dcgym top ", **directory) == ["cubic-0", "bbbbbb", "cccccc"]
    assert offered("dcgym shell cu", **directory) == ["cubic-0"]


def test_the_shell_that_asks_gets_its_script() -> None:
    # The last command keeps bash from making way for the first one.
    command = f"{sys.executable} -m dcgym --show-completion && true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "_DCGYM_COMPLETE=complete_bash" in done.stdout
    assert "complete -o default -F _dcgym_completion dcgym" in done.stdout
