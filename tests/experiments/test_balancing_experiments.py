"""Every balancing experiment runs in tiny form and leaves its table and picture."""

import importlib
import inspect
import json

import pytest

from experiments.papers.yao.common import Args
from tests.support.source_tree import ROOT
from tests.support.suites import leave_comparisons_out, leave_figures_empty

pytestmark = pytest.mark.simulation

TINY = Args(seeds=2, seconds=3.0, warmup_s=1.0, interval_s=1.0, jobs=0)
MAKES_CASES = ("common", "emulated_rules", "update_period")
# Constants of scripts that would take longer than a few seconds otherwise.
SMALLER = {
    "applications": {"CPU_S": (1.0, 0.5)},
    "balancers": {"NUMBERS": (1, 8)},
    "capacity_ratio": {"RATIOS": (1, 4)},
    # Real servers take real time: the twin alone here.
    "emulated_rules": {"BACKENDS": ("simulation",)},
    "distributions": {"MOMENTS_S": ((1.0, 1.0),)},
    "flow_table": {"BUCKETS": (1024, 4096)},
    "load_noise": {"JOBS": 200, "NOISES": (0.0, 2.0)},
    "markov_chain": {"ROOM": 4, "SIMULATED_S": 1500},
    "update_period": {"PERIODS_S": (0.5, 1.0)},
}
SCRIPTS = sorted(
    {path.stem for path in (ROOT / "experiments/papers/yao").glob("*.py")} - {"common"}
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_experiment_runs_in_tiny_form(name, tmp_path, monkeypatch, capsys):
    leave_figures_empty(monkeypatch)
    for maker in MAKES_CASES:
        leave_comparisons_out(monkeypatch, f"experiments.papers.yao.{maker}")
    module = importlib.import_module(f"experiments.papers.yao.{name}")
    for constant, value in SMALLER.get(name, {}).items():
        assert hasattr(module, constant)
        monkeypatch.setattr(module, constant, value)
    takes_args = "args" in inspect.signature(module.main).parameters
    module.main(tmp_path, TINY) if takes_args else module.main(tmp_path)
    rows = json.loads((tmp_path / "results.json").read_text())["rows"]
    assert rows and all(row.keys() == rows[0].keys() for row in rows)
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "published: " in capsys.readouterr().out
