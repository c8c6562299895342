"""How far a twin is from the emulation: the same runs on both, compared metric by metric."""

from dcgym.suites.twin_error.balancing import twin_error_suite
from dcgym.suites.twin_error.comparison import TwinError, twin_errors
from dcgym.suites.twin_error.congestion import TWIN_CASES, congestion_suite

__all__ = ["TWIN_CASES", "TwinError", "congestion_suite", "twin_error_suite", "twin_errors"]
