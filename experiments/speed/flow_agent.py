"""What dcgym_agent costs: an ACK in its program, a step of many agents, an action on its way."""

from __future__ import annotations

import contextlib
import ctypes
import struct
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

import dcgym
from dcgym.errors import BackendError
from dcgym.traffic import Flow, Plan
from experiments.speed.empty_control import EMPTY_PROGRAM, empty_flows

__all__ = ["measure_ack_costs", "measure_agents"]

# Name of the program that sees each ACK, as the kernel cuts it to 15 characters.
PROGRAMS = {
    "dctcp": "dctcp_cong_cont",
    "new-vegas": "new_vegas_cong_",
    "swift": "window_cong_con",
    "dcgym_agent": "agent_cong_cont",
}
# Of struct bpf_prog_info (linux/bpf.h).
INFO_BYTES = 256
NAME, RUN_TIME = slice(64, 80), 192
STATS_RUN_TIME = 0
LINK = {"name": "dumbbell", "hosts": 4, "rate": "500Mbit", "queue": "1MB"}
SECONDS = 3.0
LEAST_RUNS = 100
# Windows of the programs' runs; the first ones are of slow start.
WINDOW_S, SETTLED = 0.05, 5

Windows: TypeAlias = "npt.NDArray[np.float64]"
"""Rows of the time in ns, the runs and the misses of each window."""


class Run(NamedTuple):
    """What a program has done since statistics were on.

    Attributes:
        time_ns: In all its runs.
        runs: Number of runs.
        misses: Calls that the kernel left out, because the program was running on that processor.
    """

    time_ns: int
    runs: int
    misses: int


@contextlib.contextmanager
def run_statistics() -> Iterator[None]:
    """Count the run time of BPF programs, for as long as the context is open (BPF_ENABLE_STATS)."""
    descriptor = _libbpf().bpf_enable_stats(STATS_RUN_TIME)
    if descriptor < 0:
        raise BackendError("cannot count the run time of BPF programs")
    try:
        yield
    finally:
        ctypes.CDLL(None).close(descriptor)


def program_runs(name: str) -> Run:
    """Return the runs of all loaded programs of a name.

    Args:
        name: At most 15 characters.
    """
    library, number = _libbpf(), ctypes.c_uint32(0)
    found = [0, 0, 0]
    while library.bpf_prog_get_next_id(number, ctypes.byref(number)) == 0:
        descriptor = library.bpf_prog_get_fd_by_id(number)
        if descriptor < 0:
            continue
        content, size = ctypes.create_string_buffer(INFO_BYTES), ctypes.c_uint32(INFO_BYTES)
        result = library.bpf_obj_get_info_by_fd(descriptor, content, ctypes.byref(size))
        ctypes.CDLL(None).close(descriptor)
        if result == 0 and content.raw[NAME].rstrip(b"\0").decode() == name:
            runs = struct.unpack_from("=QQQ", content.raw, RUN_TIME)
            found = [one + more for one, more in zip(found, runs, strict=True)]
    return Run(*found)


def measure_ack_costs() -> list[dict[str, Any]]:
    """Time the programs that see each ACK while two bulk flows share 500 Mbit/s.

    Returns:
        Rows of congestion control, mean ns an ACK in the quickest of some windows (with the clock
        of the statistics), that less what an empty program takes, which is the clock alone, mean of
        all windows, ACKs a second, and calls left out in parts per million.
    """
    seen = {"empty": _empty_runs()}
    seen |= {control: _runs_of(control, program) for control, program in PROGRAMS.items()}
    rows = [{"congestion control": control, **_ack_costs(runs)} for control, runs in seen.items()]
    clock_ns = rows[0]["ACK (ns)"]
    return [row | {"without the clock": row["ACK (ns)"] - clock_ns} for row in rows]


def _empty_runs() -> Windows:
    with run_statistics(), empty_flows(LINK, SECONDS) as is_sending:
        seen = [program_runs(EMPTY_PROGRAM)]
        while is_sending():
            time.sleep(WINDOW_S)
            seen.append(program_runs(EMPTY_PROGRAM))
    return _windows(seen)


def _runs_of(control: str, program: str) -> Windows:
    env = dcgym.make_env(
        topology=LINK, interval=WINDOW_S, congestion_control=control, preflight=False
    )
    with run_statistics():
        env.reset(seed=1)
        seen, begin_s = [program_runs(program)], time.monotonic()
        while time.monotonic() < begin_s + SECONDS:
            env.step(np.ones(env.action_space.shape, np.float32))
            seen.append(program_runs(program))
    env.close()
    return _windows(seen)


def _windows(seen: list[Run]) -> Windows:
    return np.diff(np.array(seen[SETTLED:], np.float64), axis=0)


def _ack_costs(windows: Windows) -> dict[str, Any]:
    time_ns, runs, misses = windows.sum(axis=0)
    is_whole = windows[:, 1] > LEAST_RUNS
    return {
        "ACK (ns)": float((windows[is_whole, 0] / windows[is_whole, 1]).min()),
        "mean (ns)": float(time_ns / runs),
        "ACKs a second": float(runs / (len(windows) * WINDOW_S)),
        "left out (ppm)": float(1e6 * misses / (runs + misses)),
    }


def measure_agents(counts: tuple[int, ...] = (1, 100, 1000)) -> list[dict[str, Any]]:
    """Time steps in which every flow has an agent, and how long actions are on their way.

    Args:
        counts: Numbers of flows.

    Returns:
        Rows of flows, flows that were steered, and times in us: of a step without an interval, in
        which all flows are read and commanded, and from its begin to the ACK that takes it.
    """
    return [_measure_agents(count) for count in counts]


def _measure_agents(count: int) -> dict[str, Any]:
    flows = [Flow(f"h{number % 2 + 1}", f"h{number % 2 + 3}") for number in range(count)]
    env = dcgym.parallel_env(
        "FlowControl-v1",
        topology=LINK,
        traffic=Plan("many", 0, flows),
        flows=count,
        action="window",
        interval="0ms",
        max_steps=1_000_000,
        info="none",
        preflight=False,
    )
    env.reset(seed=1)
    actions = dict.fromkeys(env.agents, np.array([-0.9], np.float32))
    steps_us: list[float] = []
    latencies_us: list[int] = []
    open_flows = 0
    begin_s = time.monotonic()
    while time.monotonic() < begin_s + 2 * SECONDS:
        written_ns = time.monotonic_ns()
        env.step(actions)
        steps_us.append((time.monotonic_ns() - written_ns) / 1e3)
        # Until most have had an ACK.
        time.sleep(0.1)
        states = env.session.system.running.read().flows[0]
        open_flows = int((states["generation"] > 0).sum())
        taken_us = states["taken_us"][states["taken_us"] >= written_ns // 1000]
        latencies_us += (taken_us - written_ns // 1000).tolist()
    env.close()
    half = len(steps_us) // 2
    return {
        "flows": count,
        "steered": open_flows,
        "step, median (us)": float(np.median(steps_us[half:])),
        "command to ACK, median (us)": float(np.median(latencies_us)) if latencies_us else np.nan,
        "p99 (us)": float(np.percentile(latencies_us, 99)) if latencies_us else np.nan,
    }


def _libbpf() -> ctypes.CDLL:
    return ctypes.CDLL("libbpf.so.1")
