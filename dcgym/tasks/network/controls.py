"""Congestion controls of the hosts, by name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dcgym.native import bpf_object
from dcgym.native.controls import control_functions, control_object, control_symbol
from dcgym.native.tables import read_table
from dcgym.registry import Registry

__all__ = ["AGENT_CONTROL", "CONGESTION_CONTROLS", "CongestionControl"]

AGENT_CONTROL = "dcgym_agent"
"""Reno whose flows an agent can steer."""


@dataclass(frozen=True)
class CongestionControl:
    """A congestion control.

    Attributes:
        kernel_name: What Linux calls its module, or the beginning of what our program is called.
        program: What kernels without the module run: the name of a BPF object of ours, or the path
            of another package's header. Empty where there is none.
        is_in_linux: Whether Linux has a module of it.
        is_in_twin: Whether the packet twin has it.
        needs_marks: Whether switches should mark where hosts run it.
    """

    kernel_name: str
    program: str = ""
    is_in_linux: bool = False
    is_in_twin: bool = False
    needs_marks: bool = False

    @classmethod
    def of_header(cls, header: str | Path) -> CongestionControl:
        """Return the congestion control that is one header, for the kernel and the packet twin.

        Args:
            header: An algorithm of ``dcgym/native/include/window_control.h``. The file is called as
                the algorithm in C. It is compiled when it is first used, by clang for the kernel
                and by the C compiler for the twin.

        Raises:
            ConfigError: There is no such header.
        """
        path = Path(header).resolve()
        return cls(control_symbol(path), str(path), is_in_twin=True)

    @property
    def is_header(self) -> bool:
        """Whether it is another package's header."""
        return self.program.endswith(".h")

    def object_path(self) -> Path:
        """Return the path of the program, which there must be.

        Raises:
            ConfigError: The header cannot be compiled.
            FeatureNotSupported: The object was not built, or there is no compiler.
        """
        return control_object(Path(self.program)) if self.is_header else bpf_object(self.program)

    def functions(self) -> int:
        """Return the address of the functions of another package's header, for the packet twin.

        Raises:
            ConfigError: The header cannot be compiled.
            FeatureNotSupported: There is no compiler.
        """
        return control_functions(Path(self.program))


CONGESTION_CONTROLS: Registry[CongestionControl] = Registry(
    "congestion controls", "congestion_control"
)
"""The congestion controls by name: ``tables/congestion_controls.h``, and what packages add."""

for _row in read_table("congestion_controls"):
    _control = CongestionControl(
        _row["kernel_name"],
        "" if _row["program"] == "NONE" else _row["symbol"],
        is_in_linux=_row["in_linux"] == "MODULE",
        is_in_twin=True,
        needs_marks=_row["marking"] == "MARKS",
    )
    CONGESTION_CONTROLS.add(_row["name"], _control, _row["description"])
