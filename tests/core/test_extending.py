"""The guide to extending shows code that runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.source_tree import ROOT

pytestmark = pytest.mark.simulation

GUIDE = ROOT / "docs" / "guides" / "extend.md"
# What the names of the page are good for, once all of it has run.
CHECKS = """
import tempfile
from dcgym.policies import LEARNERS, load_policy
from dcgym.testing import check_contract

assert network.host_ports[0].rate_bps == 20_000_000
assert plan.name == "two-steps"
assert len(make_plan("backup-at-night", make_topology("dumbbell"), 1).flows) > 1
for topology, action in (("chain", "log"), ("dumbbell", "log")):
    env = dcgym.make_env(
        topology=topology, action=action, features=["free_queue", "d_free_queue"],
        reward={"mean_queue": 2.0}, backend="fluid", max_steps=3,
    )
    env.reset(seed=1)
    _, reward, _, _, info = env.step(env.action_space.high)
    assert set(info["reward_terms"]) == {"mean_queue"} and reward <= 0.0
    assert np.allclose(info["rate_shares"], 1.0)
    env.close()
features = ["ongoing", "per_flow", "d_busiest"]
check_contract(lambda: dcgym.make_env(env="LoadBalancing-v1", features=features, lead_in="2s"))
assert "half" in POLICIES["congestion"].names()
with tempfile.TemporaryDirectory() as folder:
    trained = LEARNERS["best-share"].train({"backend": "fluid"}, 4, 1, folder)
    assert load_policy(trained).name == "fixed-share"
assert pair.num_envs == 2
check_contract(lambda: dcgym.make_env(env="mine/ShortQueues-v0", backend="fluid"))
assert served > 0.999
check_contract(lambda: dcgym.make_env(env="mine/Sites-v0", max_steps=3))
assert len(records) == 4 and len({record["seed"] for record in records}) == 2
assert "short-queues" in SUITES.names()
print("all of it ran")
"""


def code_blocks(page: Path) -> str:
    """Return the Python of a page as one program, each line where the page has it."""
    lines, is_code = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = line.startswith("```")
        is_code = (line == "```python") if fence else is_code
        lines.append(line if is_code and not fence else "")
    return "\n".join(lines)


def test_the_code_of_the_guide_runs(tmp_path: Path) -> None:
    program = tmp_path / "extend.py"
    program.write_text(code_blocks(GUIDE) + CHECKS, encoding="utf-8")
    # A process of its own: what it registers must not meet other tests.
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["all of it ran"], done.stderr


def test_the_guide_has_a_section_for_every_registry() -> None:
    page = GUIDE.read_text(encoding="utf-8")
    sections = set(re.findall(r"^\| \[[^]]+\]\(#([\w-]+)\)", page, re.MULTILINE))
    headings = {
        title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", page, re.MULTILINE)
    }
    assert sections == headings - {"from-a-package-of-your-own"}
