"""The emulator's process: private namespaces, a network inside them, and a command loop.

Started by `EmulatorProcess` as ``python -m dcgym.backends.emulation.emulator.server``. Two
processes: the first owns the namespaces' outside and waits; the second is process 1 of the pid
namespace and does the work.
When either dies, or the environment does, all of it ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import socket
import sys
import threading
import traceback

from dcgym.backends.emulation.emulator.commands import Commands, Part
from dcgym.backends.emulation.emulator.muxes.commands import MuxCommands
from dcgym.backends.emulation.emulator.network_commands import NetworkCommands
from dcgym.backends.emulation.emulator.pod_commands import PodCommands
from dcgym.backends.emulation.emulator.run import run
from dcgym.backends.emulation.emulator.state import EmulatorState
from dcgym.backends.emulation.emulator.traffic_commands import TrafficCommands
from dcgym.backends.emulation.wire.channel import Channel
from dcgym.backends.emulation.wire.message import Descriptor, Message
from dcgym.backends.emulation.wire.messages import Failure, Started
from dcgym.errors import BackendError, CommandError, ConfigError, DcgymError, FeatureNotSupported
from dcgym.native import require

__all__ = ["main"]


def make_commands(run_id: str) -> Commands:
    """Compose the emulator of its parts: whoever adds a system adds a part here.

    Args:
        run_id: Identifier of the emulator.
    """
    state = EmulatorState()
    parts: tuple[Part, ...] = (
        NetworkCommands(state),
        TrafficCommands(state, run_id),
        PodCommands(state),
        MuxCommands(state),
    )
    commands = Commands()
    for part in parts:
        part.register(commands)
    return commands


def serve(channel: Channel, commands: Commands) -> None:
    """Answer requests until the environment closes the channel.

    Args:
        channel: Where they come from.
        commands: Who answers them.
    """
    while True:
        frame = channel.receive()
        request = frame.message()
        task = (channel, commands, frame.number, request)
        if commands.runs_beside(request):
            threading.Thread(target=_answer_beside, args=task, daemon=True).start()
        else:
            _answer(*task)


def _answer(channel: Channel, commands: Commands, number: int, request: Message) -> None:
    try:
        answer = commands.answer(request)
    except Exception as error:
        traceback.print_exc()
        answer = _failure(error)
    finally:
        request.close_descriptors()
    channel.send(answer, number)


def _answer_beside(channel: Channel, commands: Commands, number: int, request: Message) -> None:
    # That the environment has closed the channel ends the emulator elsewhere.
    with contextlib.suppress(BackendError):
        _answer(channel, commands, number, request)


def _failure(error: Exception) -> Failure:
    """Return an error in a form that crosses the channel."""
    details: tuple[object, ...] = ()
    if isinstance(error, ConfigError):
        details = (error.field, repr(error.value), error.allowed, error.hint)
    elif isinstance(error, FeatureNotSupported):
        details = (error.feature, error.hint)
    elif isinstance(error, CommandError):
        details = (error.argv, error.returncode, error.stderr)
    text = str(error) if isinstance(error, DcgymError) else f"{type(error).__name__}: {error}"
    return Failure(text, type(error).__name__, details)


def _first_process(channel_fd: int, owner_pidfd: int, run_id: str) -> None:
    """Body of process 1 of the namespaces."""
    native = require()
    native.die_with_parent()
    native.mount_private()
    native.watch_owner(channel_fd, owner_pidfd)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A pty pair and a shell per node; the machine's own default limit is often 1024.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with socket.socket(fileno=channel_fd) as sock:
        channel = Channel(sock)
        _set_loopback_up()
        channel.send(Started(Descriptor(os.pidfd_open(os.getpid()))))
        serve(channel, make_commands(run_id))


def _set_loopback_up() -> None:
    run("ip", "link", "set", "lo", "up")


def main() -> int:
    """Enter the namespaces and run the emulator; returns its exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channel-fd", type=int, required=True)
    parser.add_argument("--owner-pid", type=int, required=True)
    parser.add_argument("--run-id", required=True)
    arguments = parser.parse_args()
    owner_pidfd = os.pidfd_open(arguments.owner_pid)
    if os.getppid() != arguments.owner_pid:
        return 1  # The environment died before we could watch it.
    require().unshare_namespaces()
    child = os.fork()
    if child == 0:
        try:
            _first_process(arguments.channel_fd, owner_pidfd, arguments.run_id)
        except BackendError:
            os._exit(0)  # The environment closed the channel.
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(arguments.channel_fd)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) & 0xFF


if __name__ == "__main__":
    sys.exit(main())
