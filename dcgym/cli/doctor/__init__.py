"""``dcgym doctor``: what this machine can do."""

from dcgym.cli.doctor.check import Check
from dcgym.cli.doctor.examination import can_emulate, examine, to_records

__all__ = ["Check", "can_emulate", "examine", "to_records"]
