"""Clusters of Ray whose nodes are processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

__all__ = ["NODE", "client_address", "kill_head", "ray_cluster"]

ROOT = Path(__file__).parents[2]
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80_000_000}
"""What each node is told."""

# The controllers of Ray tell dead nodes after half a minute.
SOON = {
    "health_check_initial_delay_ms": 500,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}
# What nodes inherit: workers as urgent as what runs beside them (docs/guides/cluster.md); this
# tree; that whoever loses the head says so soon; and time for a server to start on a busy machine.
INHERITED = {
    "RAY_worker_niceness": "0",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "10",
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "300",
}


@contextlib.contextmanager
def ray_cluster(monkeypatch: pytest.MonkeyPatch, **head: Any) -> Iterator[Any]:
    """Yield a cluster of one node, the head, which others can be added to (`NODE`).

    Args:
        monkeypatch: Sets what its processes inherit.
        **head: What the head is told besides.
    """
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    if ray.is_initialized():
        ray.shutdown()
    for name, value in INHERITED.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=":")
    told = {**NODE, "include_dashboard": False, "_system_config": SOON, **head}
    if find_spec("grpc") is not None:
        # Ray tells its client's server the port of this agent before it has one.
        told.update(ray_client_server_port=_free_port(), runtime_env_agent_port=_free_port())
    cluster = Cluster(initialize_head=True, head_node_args=told)
    try:
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def client_address(cluster: Any) -> str:
    """Return the address of a cluster for machines outside of it."""
    pytest.importorskip("grpc")
    return f"ray://127.0.0.1:{cluster.head_node._ray_params.ray_client_server_port}"


def kill_head(cluster: Any) -> None:
    """Kill what all nodes of a cluster ask for each other."""
    for started in cluster.head_node.all_processes["gcs_server"]:
        os.kill(started.process.pid, signal.SIGKILL)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port
