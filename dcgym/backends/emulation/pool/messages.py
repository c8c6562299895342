"""Which of a pod's front ends hear of idle servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dcgym.backends.emulation.wire.pod_messages import SetListeners

if TYPE_CHECKING:
    from dcgym.backends.emulation.pool.pod import RunningPod

__all__ = ["PoolMessages"]


class PoolMessages:
    """Messages of an episode."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Start anew: nobody listens."""
        self._listeners: tuple[int, ...] = ()

    def listen(self, pod: RunningPod) -> None:
        """Let idle servers register with the front ends whose rule asks for it.

        Args:
            pod: The running pod.
        """
        rules = [writer.rule for writer in pod.writers]
        listeners = tuple(number for number, rule in enumerate(rules) if rule == "jiq")
        if listeners != self._listeners:
            pod.order(SetListeners(listeners))
            self._listeners = listeners
