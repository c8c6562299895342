"""Benchmarks: a matrix of policies and seeds, each run in a process of its own."""

from dcgym.bench.balancing import BalancingConfig, BalancingQuickConfig
from dcgym.bench.config import QuickConfig
from dcgym.bench.report import write_report
from dcgym.bench.results import load_records
from dcgym.bench.runner import finished_records, run_suite
from dcgym.bench.sweep import SweepConfig

__all__ = [
    "BalancingConfig",
    "BalancingQuickConfig",
    "QuickConfig",
    "SweepConfig",
    "finished_records",
    "load_records",
    "run_suite",
    "write_report",
]
