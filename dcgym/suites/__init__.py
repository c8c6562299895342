"""Comparisons of policies: suites as data, one loop that runs them, results and reports."""

from dcgym.suites.accelerator_testbed import p4hauler_testbed
from dcgym.suites.accelerators import p4hauler, p4mite, p4wise
from dcgym.suites.balancing import balancing_classic, balancing_quick
from dcgym.suites.balancing_rates import rate_sweep_balancing
from dcgym.suites.comparisons import Comparison, compare
from dcgym.suites.congestion import iroko_dumbbell_10m, quick
from dcgym.suites.congestion_rates import rate_sweep_congestion
from dcgym.suites.duet import duet
from dcgym.suites.faults import FailedRuns, Faults
from dcgym.suites.held_out import held_out_balancing, held_out_congestion
from dcgym.suites.modern import modern_balancing
from dcgym.suites.modern_congestion import modern_congestion
from dcgym.suites.park import park
from dcgym.suites.reports.report import write_report
from dcgym.suites.results import load_records
from dcgym.suites.rollout import run_episode
from dcgym.suites.rubik import duet_migration, rubik
from dcgym.suites.runner import finished_records, run_suite
from dcgym.suites.scores import Scoring, find_scores, write_scores
from dcgym.suites.shapes import Check, Shape, Term
from dcgym.suites.spec import RunSpec
from dcgym.suites.suite import SUITES, Case, Published, Suite, Training
from dcgym.suites.sweep import sweep_suite
from dcgym.suites.testbeds import sussex_fairness
from dcgym.suites.twin_error import twin_error_suite
from dcgym.suites.until import Until
from dcgym.suites.verdicts import Verdict, find_verdicts, write_verdicts
from dcgym.suites.yao import (
    capacity_step,
    charon,
    distr_lb_simulation,
    distr_lb_small,
    hlb,
    rate_sweep,
)

__all__ = [
    "SUITES",
    "Case",
    "Check",
    "Comparison",
    "FailedRuns",
    "Faults",
    "Published",
    "RunSpec",
    "Scoring",
    "Shape",
    "Suite",
    "Term",
    "Training",
    "Until",
    "Verdict",
    "balancing_classic",
    "balancing_quick",
    "capacity_step",
    "charon",
    "compare",
    "distr_lb_simulation",
    "distr_lb_small",
    "duet",
    "duet_migration",
    "find_scores",
    "find_verdicts",
    "finished_records",
    "held_out_balancing",
    "held_out_congestion",
    "hlb",
    "iroko_dumbbell_10m",
    "load_records",
    "modern_balancing",
    "modern_congestion",
    "p4hauler",
    "p4hauler_testbed",
    "p4mite",
    "p4wise",
    "park",
    "quick",
    "rate_sweep",
    "rate_sweep_balancing",
    "rate_sweep_congestion",
    "rubik",
    "run_episode",
    "run_suite",
    "sussex_fairness",
    "sweep_suite",
    "twin_error_suite",
    "write_report",
    "write_scores",
    "write_verdicts",
]
