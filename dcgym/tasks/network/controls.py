"""Congestion controls of the hosts, by name."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.registry import Registry

__all__ = ["AGENT_CONTROL", "CONGESTION_CONTROLS", "CongestionControl"]

AGENT_CONTROL = "dcgym_agent"
"""Reno whose flows an agent can steer."""


@dataclass(frozen=True)
class CongestionControl:
    """A congestion control.

    Attributes:
        kernel_name: What the kernel calls a module of it.
        bpf_object: Our program for kernels without the module, if there is one.
        is_in_linux: Whether Linux has a module of it.
        is_in_twin: Whether the packet twin has it.
        needs_marks: Whether switches should mark where hosts run it.
    """

    kernel_name: str
    bpf_object: str | None = None
    is_in_linux: bool = False
    is_in_twin: bool = False
    needs_marks: bool = False


CONGESTION_CONTROLS: Registry[CongestionControl] = Registry(
    "congestion controls", "congestion_control"
)
"""The congestion controls by name."""


def _add(
    name: str,
    description: str,
    kernel_name: str | None = None,
    bpf_object: str | None = None,
    *,
    is_in_linux: bool = False,
    needs_marks: bool = False,
) -> None:
    control = CongestionControl(kernel_name or name, bpf_object, is_in_linux, True, needs_marks)
    CONGESTION_CONTROLS.add(name, control, description)


_add("cubic", "Linux's default (RFC 9438)", is_in_linux=True)
_add("reno", "NewReno, as Linux has it (RFC 5681)", is_in_linux=True)
_add("bbr", "BBR version 1, as Linux has it", is_in_linux=True)
_add("dctcp", "RFC 8257", bpf_object="dctcp", is_in_linux=True, needs_marks=True)
_add("new-vegas", "TCP-NV", "nv", "new_vegas", is_in_linux=True)
_add("swift", "delay against a target (SIGCOMM 2020)", bpf_object="swift")
_add("timely", "gradient of the delay (SIGCOMM 2015)", bpf_object="timely")
_add("theta-powertcp", "power of the delay (NSDI 2022)", "theta", "theta_powertcp")
_add("copa", "delay against a rate (NSDI 2018)", bpf_object="copa")
_add(AGENT_CONTROL, "Reno whose flows an agent can steer", "agent", "dcgym_agent")
