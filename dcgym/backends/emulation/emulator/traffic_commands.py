"""The emulator's commands for episodes: their traffic, their events, and what became of them."""

from __future__ import annotations

from dcgym.backends.emulation.emulator.commands import Commands
from dcgym.backends.emulation.emulator.congestion import CongestionControls
from dcgym.backends.emulation.emulator.state import EmulatorState
from dcgym.backends.emulation.wire.message import Descriptor, Message
from dcgym.backends.emulation.wire.messages import (
    Done,
    Prepare,
    Prepared,
    ReadApplications,
    ReadEvents,
    ReadProcesses,
    Records,
    StartTraffic,
    StopTraffic,
)
from dcgym.tasks.network.controls import CongestionControl
from dcgym.tasks.network.events import Event

__all__ = ["TrafficCommands"]


class TrafficCommands:
    """Commands for the traffic of any network, pods included.

    Args:
        state: The network and its generator.
        run_id: Identifier of the emulator, in the names of its congestion controls.
    """

    def __init__(self, state: EmulatorState, run_id: str) -> None:
        self._state = state
        self._congestion = CongestionControls(run_id)

    def register(self, commands: Commands) -> None:
        """Add the commands of this part."""
        commands.add(Prepare, self._prepare)
        commands.add(StartTraffic, self._start)
        commands.add(StopTraffic, self._stop)
        commands.add(ReadApplications, self._read_applications)
        commands.add(ReadProcesses, self._read_processes)
        commands.add(ReadEvents, self._read_events)

    def _prepare(self, request: Prepare) -> Message:
        network = self._state.network
        if network.events is not None:
            network.events.prepare([Event.from_dict(event) for event in request.events])
        if network.delays is not None:
            network.delays.begin(request.seed)
        # Per socket, not per namespace: a namespace may only default to an unrestricted algorithm.
        algorithms = request.congestion_control
        kernel_names = {
            name: self._congestion.kernel_name(
                name,
                CongestionControl(*control),
                network.topology,
                network.relabelling,
                network.fabric.label_map_fd,
            )
            for name, control in request.controls.items()
        }
        names = {host: kernel_names[name] for host, name in algorithms.items()}
        network.forget_path_mtus()
        network.set_marking(request.marking)
        self._state.generator.load_file(request.plan, request.n_flows, names)
        maps = self._congestion.agent_maps()
        return Prepared(
            self._congestion.implementations(algorithms), tuple(Descriptor(fd) for fd in maps)
        )

    def _start(self, request: StartTraffic) -> Message:
        self._state.generator.start(request.start_ns)
        events = self._state.network.events
        if events is not None:
            events.start(request.start_ns)
        return Done()

    def _stop(self, _: StopTraffic) -> Message:
        self._state.generator.stop()
        return Done()

    def _read_applications(self, _: ReadApplications) -> Message:
        return Records(tuple(self._state.generator.app_records()))

    def _read_processes(self, _: ReadProcesses) -> Message:
        return Records(tuple(self._state.generator.process_records()))

    def _read_events(self, _: ReadEvents) -> Message:
        events = self._state.network.events
        return Records(tuple(events.records()) if events is not None else ())
