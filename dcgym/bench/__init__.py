"""Benchmarks: a matrix of policies and seeds, each run in a process of its own."""

from dcgym.bench.config import QuickConfig
from dcgym.bench.quick import run_quick
from dcgym.bench.report import write_report
from dcgym.bench.results import load_records

__all__ = ["QuickConfig", "load_records", "run_quick", "write_report"]
