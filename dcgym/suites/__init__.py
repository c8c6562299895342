"""Benchmarks: a matrix of policies and seeds, each run in a process of its own."""

from dcgym.suites.balancing import BalancingConfig, BalancingQuickConfig
from dcgym.suites.config import QuickConfig
from dcgym.suites.report import write_report
from dcgym.suites.results import load_records
from dcgym.suites.runner import finished_records, run_suite
from dcgym.suites.sweep import SweepConfig

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
