"""The command channel: messages, descriptors by name, callers of several threads."""

from __future__ import annotations

import array
import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from dcgym.backends.emulation.emulator.commands import Commands
from dcgym.backends.emulation.emulator.server import serve
from dcgym.backends.emulation.session.calls import Calls
from dcgym.backends.emulation.wire.channel import CUT_OFF, Channel
from dcgym.backends.emulation.wire.message import Descriptor, Message, pack, unpack
from dcgym.backends.emulation.wire.messages import (
    Done,
    Execute,
    Failure,
    LostPairs,
    Output,
    PingAllPairs,
    PodBuilt,
    SetMarking,
    Started,
)
from dcgym.errors import BackendError
from tests.support.threads import Beside
from tests.support.waiting import DEADLINE_S, wait_for

MOST_FDS = 600  # over two messages of unix(7)
CALLERS = 20
TOO_LATE = "did not answer within its deadline"


def memory(content: bytes) -> Descriptor:
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    os.write(fd, content)
    return Descriptor(fd)


def content_of(fd: int) -> bytes:
    return os.pread(fd, 100, 0)


def deadline(left_s: float = DEADLINE_S) -> float:
    return time.monotonic() + left_s


def ask(calls: Calls, name: str, left_s: float = DEADLINE_S) -> Beside[Message]:
    """Let another thread call; `Output` of the same name is its answer."""
    return Beside(lambda: calls.call(Execute(name, (), 1.0), deadline(left_s)))


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    ours, theirs = (Channel(sock) for sock in socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


def test_descriptors_arrive_under_their_names(ends: tuple[Channel, Channel]) -> None:
    sent = PodBuilt(
        targets=(("10.0.0.1", 80), ("10.0.0.1", 81)),
        regions=(memory(b"region 0"), memory(b"region 1")),
        counters=(),
        generator_memory=memory(b"memory"),
        generator_process=memory(b"process"),
    )
    ends[0].send(sent)
    got = ends[1].receive().message()
    assert isinstance(got, PodBuilt) and got.targets == sent.targets and got.counters == ()
    assert [content_of(fd) for fd in got.regions] == [b"region 0", b"region 1"]
    assert content_of(got.generator_memory) == b"memory"
    assert content_of(got.generator_process) == b"process"
    assert sorted(got.descriptors()) == sorted(
        {*got.regions, got.generator_memory, got.generator_process}
    )
    for message in (sent, got):
        message.close_descriptors()
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(message.generator_memory)


def test_many_descriptors_keep_their_order(ends: tuple[Channel, Channel]) -> None:
    regions = tuple(memory(str(number).encode()) for number in range(MOST_FDS // 2))
    sent = PodBuilt((), regions, regions, regions[0], regions[1])
    ends[0].send(sent)
    got = ends[1].receive().message()
    assert isinstance(got, PodBuilt)
    assert [content_of(fd) for fd in got.counters] == [content_of(fd) for fd in regions]
    got.close_descriptors()
    for fd in regions:
        os.close(fd)


def test_a_message_without_descriptors_is_the_same_at_the_other_end() -> None:
    for message in (
        Done(),
        SetMarking(True),
        LostPairs((("h1", "h2"), ("h2", "h1"))),
        Failure("no", "CommandError", (("ping", "h1"), 1, "unreachable")),
    ):
        content, fds = pack(message)
        assert unpack(content, fds) == message and fds == []


def test_an_unknown_message_is_an_error() -> None:
    with pytest.raises(BackendError, match="unknown message 'Explode'"):
        unpack({"message": "Explode", "fields": {}, "fds": {}}, [])


def test_each_kind_of_request_has_one_part_that_answers_it() -> None:
    commands = Commands()

    def ping(_: PingAllPairs) -> Message:
        return LostPairs(())

    commands.add(PingAllPairs, ping)
    assert commands.answer(PingAllPairs()) == LostPairs(())
    with pytest.raises(BackendError, match="unknown command SetMarking"):
        commands.answer(SetMarking(True))
    with pytest.raises(BackendError, match="two parts answer PingAllPairs"):
        commands.add(PingAllPairs, ping)


def test_requests_of_a_kind_that_runs_beside_delay_no_other(ends: tuple[Channel, Channel]) -> None:
    is_over = threading.Event()

    def execute(request: Execute) -> Message:
        assert is_over.wait(DEADLINE_S)
        if request.host == "nobody":
            raise BackendError("no such host")
        return Output(request.host)

    def serve_until_closed() -> None:
        with contextlib.suppress(BackendError):
            serve(ends[1], commands)

    commands = Commands()
    commands.add(Execute, execute, is_beside=True)
    commands.add(PingAllPairs, lambda _: LostPairs(()))
    emulator, calls = Beside(serve_until_closed), Calls(ends[0])
    asked = [ask(calls, name) for name in ("h1", "h2", "nobody")]
    assert calls.call(PingAllPairs(), deadline()) == LostPairs(())
    assert not any(one.is_done for one in asked)
    is_over.set()
    assert [one.result() for one in asked] == [
        *(Output("h1"), Output("h2")),
        Failure("no such host", "BackendError", ()),
    ]
    ends[0].close()
    emulator.result()


def test_answers_in_another_order_find_their_callers(ends: tuple[Channel, Channel]) -> None:
    calls = Calls(ends[0])
    for _ in range(5):
        asked = {name: ask(calls, name) for name in (f"h{number}" for number in range(CALLERS))}
        requests = [ends[1].receive(deadline()) for _ in asked]
        for frame in reversed(requests):
            request = frame.message()
            assert isinstance(request, Execute)
            ends[1].send(Output(request.host), frame.number)
        assert {name: one.result() for name, one in asked.items()} == {
            name: Output(name) for name in asked
        }


def test_an_answer_after_its_deadline_is_dropped(ends: tuple[Channel, Channel]) -> None:
    calls, (readable, writable) = Calls(ends[0]), os.pipe()
    with pytest.raises(BackendError, match=TOO_LATE):
        ask(calls, "h1", 0.05).result()
    ends[1].send(Started(Descriptor(writable)), ends[1].receive(deadline()).number)
    os.close(writable)
    asked = ask(calls, "h2")
    ends[1].send(Output("h2"), ends[1].receive(deadline()).number)
    assert asked.result() == Output("h2")
    assert is_closed_elsewhere(readable)


def is_closed_elsewhere(readable: int) -> bool:
    """Tell whether nobody has the other end of a pipe, and close this one."""
    os.set_blocking(readable, False)
    try:
        return os.read(readable, 1) == b""
    except BlockingIOError:
        return False
    finally:
        os.close(readable)


def test_another_thread_takes_over_from_one_that_gives_up(ends: tuple[Channel, Channel]) -> None:
    calls = Calls(ends[0])
    hasty = ask(calls, "h1", 1.0)
    first = ends[1].receive(deadline())
    patient = ask(calls, "h2")
    second = ends[1].receive(deadline())
    with pytest.raises(BackendError, match=TOO_LATE):
        hasty.result()
    ends[1].send(Output("h1"), first.number)
    ends[1].send(Output("h2"), second.number)
    assert patient.result() == Output("h2")


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C be Python's: a shell starts what runs in its background without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_one_call_alone(ends: tuple[Channel, Channel]) -> None:
    calls = Calls(ends[0])

    def interrupt() -> Beside[Message]:
        mine = ends[1].receive(deadline()).number
        # Nothing is lost of what it waits for.
        wait_for(lambda: calls._reader == mine and ends[0]._users)
        asked = ask(calls, "h2")
        other = ends[1].receive(deadline()).number
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        wait_for(lambda: calls._reader == other)
        ends[1].send(LostPairs(()), mine)
        ends[1].send(Output("h2"), other)
        return asked

    interrupting = Beside(interrupt)
    with pytest.raises(KeyboardInterrupt):
        calls.call(PingAllPairs(), deadline())
    assert interrupting.result().result() == Output("h2")


def test_a_frame_in_pieces_survives_readers_that_give_up(ends: tuple[Channel, Channel]) -> None:
    calls, (ours, theirs) = Calls(ends[0]), socket.socketpair()
    content = memory(b"")
    with ours, theirs:
        # An answer to the first call, as it crosses.
        Channel(theirs).send(Started(content), 1)
        text = ours.recv(1000)
    os.close(content)
    for piece in (text[:3], text[3:-4]):
        asked = ask(calls, "h1", 0.2)
        ends[1].receive(deadline())
        ends[1]._socket.send(piece)
        with pytest.raises(BackendError, match=TOO_LATE):
            asked.result()
    asked = ask(calls, "h2")
    number = ends[1].receive(deadline()).number
    ends[1]._socket.send(text[-4:-1])
    readable, writable = os.pipe()
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writable]))
    ends[1]._socket.sendmsg([text[-1:]], [rights])
    os.close(writable)
    ends[1].send(Output("h2"), number)
    assert asked.result() == Output("h2")
    assert is_closed_elsewhere(readable)


@pytest.mark.parametrize("end, reason", [(0, "is closed"), (1, "is gone")])
def test_a_close_wakes_all_who_wait(ends: tuple[Channel, Channel], end: int, reason: str) -> None:
    calls = Calls(ends[0])
    asked = [ask(calls, name, 2 * DEADLINE_S) for name in ("h1", "h2", "h3")]
    for _ in asked:
        ends[1].receive(deadline())
    ends[end].close()
    for one in asked:
        with pytest.raises(BackendError, match=f"the emulator {reason}"):
            one.result()
    # None of them reads it any more.
    assert ends[end]._socket.fileno() < 0
    with pytest.raises(BackendError, match=f"the emulator {reason}"):
        calls.call(PingAllPairs(), deadline())


def test_half_a_message_ends_the_channel_for_all(ends: tuple[Channel, Channel]) -> None:
    calls = Calls(ends[0])
    asked = ask(calls, "h1", 2 * DEADLINE_S)
    ends[1].receive(deadline())
    with pytest.raises(BackendError, match=CUT_OFF):
        calls.call(Execute("h1", ("x" * (4 << 20),), 1.0), deadline(0.2))
    with pytest.raises(BackendError, match=CUT_OFF):
        asked.result()
    with pytest.raises(BackendError, match=CUT_OFF):
        calls.call(PingAllPairs(), deadline())
