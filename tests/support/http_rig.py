"""What the tests of HTTP share: clients inside a namespace, and small plans of requests."""

from __future__ import annotations

import ctypes
import os
import socket
import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dcgym.traffic.generators.generator import Generator
from dcgym.traffic.http import (
    REQUEST_DTYPE,
    REQUEST_OUTCOMES,
    RequestKind,
    RequestPlan,
    RequestResults,
)
from tests.support.pairs import ADDRESSES, LEAD_NS, Pair
from tests.support.threads import Beside
from tests.support.waiting import wait_for

PENDING, FINISHED, CUT, REFUSED, RESET, TIMED_OUT, REJECTED, FAILED, LOST = range(
    len(REQUEST_OUTCOMES)
)
CLIENT, SERVER = ADDRESSES
MS = 1_000_000
PATIENCE_S = 30.0
CLONE_NEWNET = 0x40000000  # linux/sched.h
LIBC = ctypes.CDLL(None, use_errno=True)

Result = TypeVar("Result")


def inside(pair: Pair, work: Callable[[], Result], side: int = 0) -> Result:
    """Run a function in a thread that lives in the namespace of one side."""

    def run() -> Result:
        with open(f"/proc/{pair.holders[side].pid}/ns/net", encoding="ascii") as namespace:
            if LIBC.setns(namespace.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
        return work()

    # Each step of the work has its own patience.
    return Beside(run).result(10 * PATIENCE_S)


def connect(port: int = 8000) -> socket.socket:
    return socket.create_connection((SERVER, port), timeout=PATIENCE_S)


def exchange(raw: bytes, port: int = 8000) -> bytes:
    """Send bytes and return everything that comes back; b"" where the connection is reset."""
    with connect(port) as client:
        try:
            client.sendall(raw)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while part := client.recv(65_536):
                answer += part
        except ConnectionError:
            return b""
        return answer


def plan_of(demands_ns: Any, starts_ns: Any = 0, port: int = 8000, **options: Any) -> RequestPlan:
    """Requests with one CPU stage from h1."""
    demands = np.atleast_1d(np.asarray(demands_ns, np.int64))
    requests = np.zeros(len(demands), REQUEST_DTYPE)
    requests["start_ns"] = starts_ns
    kinds = options.pop("kinds", (RequestKind("work"),))
    return RequestPlan("test", 0, ("h1",), ((SERVER, port),), kinds, requests, demands, **options)


def run_requests(generator: Generator, plan: RequestPlan) -> RequestResults:
    results = generator.load_requests(plan)
    generator.start(time.monotonic_ns() + LEAD_NS)
    return results


def cpu_seconds(pid: int) -> float:
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def completed(generator: Generator, plan: RequestPlan) -> np.ndarray[Any, np.dtype[np.void]]:
    results = run_requests(generator, plan)
    wait_for(lambda: results.finished, PATIENCE_S)
    records = results.records()
    results.close()
    return records
