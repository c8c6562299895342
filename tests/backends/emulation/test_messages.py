"""The command channel: typed messages, descriptors by name, parts that answer requests."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from dcgym.backends.emulation.emulator.commands import Commands
from dcgym.backends.emulation.wire.channel import Channel
from dcgym.backends.emulation.wire.message import Descriptor, Message, pack, unpack
from dcgym.backends.emulation.wire.messages import (
    Done,
    Failure,
    LostPairs,
    PingAllPairs,
    PodBuilt,
    SetMarking,
)
from dcgym.errors import BackendError

MOST_FDS = 600  # over two messages of unix(7)


def memory(content: bytes) -> Descriptor:
    fd = os.memfd_create("test", os.MFD_CLOEXEC)
    os.write(fd, content)
    return Descriptor(fd)


def content_of(fd: int) -> bytes:
    return os.pread(fd, 100, 0)


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
    got = ends[1].receive()
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
    got = ends[1].receive()
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
