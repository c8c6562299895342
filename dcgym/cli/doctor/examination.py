"""What this machine can do: privileges, kernel features, tools, packages, memory.

Every probe is harmless: kernel features are tried in a network namespace of their own that goes
away with the probing process, and BPF objects are closed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict

from dcgym.cli.doctor.bpf import check_bpf
from dcgym.cli.doctor.check import Check
from dcgym.cli.doctor.kernel import check_congestion_control, check_kernel, check_privileges
from dcgym.cli.doctor.resources import check_resources
from dcgym.cli.doctor.software import check_native_parts, check_packages, check_tools

__all__ = ["can_emulate", "examine", "to_records"]


def examine() -> list[Check]:
    """Run every probe and return the results in the order of the table."""
    groups: Iterable[Callable[[], list[Check]]] = (
        check_privileges,
        check_kernel,
        check_bpf,
        check_congestion_control,
        check_tools,
        check_native_parts,
        check_packages,
        check_resources,
    )
    return [check for group in groups for check in group()]


def can_emulate(checks: Iterable[Check]) -> bool:
    """Tell whether nothing that emulation requires is missing.

    Args:
        checks: What `examine` found.
    """
    return all(check.ok for check in checks if check.required)


def to_records(checks: Iterable[Check]) -> list[dict[str, object]]:
    """Turn the checks into plain dictionaries for ``--json``.

    Args:
        checks: What `examine` found.
    """
    return [asdict(check) for check in checks]
