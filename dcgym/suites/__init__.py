"""Comparisons of policies: suites as data, one loop that runs them, results and reports."""

from dcgym.suites.balancing import balancing_classic, balancing_quick
from dcgym.suites.congestion import quick
from dcgym.suites.modern import modern_balancing
from dcgym.suites.modern_congestion import modern_congestion
from dcgym.suites.park import park
from dcgym.suites.reports.report import write_report
from dcgym.suites.results import load_records
from dcgym.suites.rollout import run_episode
from dcgym.suites.runner import finished_records, run_suite
from dcgym.suites.shapes import Check, Shape, Term
from dcgym.suites.spec import RunSpec
from dcgym.suites.suite import SUITES, Case, Published, Suite, Training
from dcgym.suites.sweep import sweep_suite
from dcgym.suites.testbeds import sussex_fairness
from dcgym.suites.twin_error import twin_error_suite
from dcgym.suites.verdicts import Verdict, find_verdicts, write_verdicts

__all__ = [
    "SUITES",
    "Case",
    "Check",
    "Published",
    "RunSpec",
    "Shape",
    "Suite",
    "Term",
    "Training",
    "Verdict",
    "balancing_classic",
    "balancing_quick",
    "find_verdicts",
    "finished_records",
    "load_records",
    "modern_balancing",
    "modern_congestion",
    "park",
    "quick",
    "run_episode",
    "run_suite",
    "sussex_fairness",
    "sweep_suite",
    "twin_error_suite",
    "write_report",
    "write_verdicts",
]
