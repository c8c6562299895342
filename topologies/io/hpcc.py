"""Topologies of HPCC's simulator (Li et al., SIGCOMM 2019), in its file of numbers."""

from __future__ import annotations

from pathlib import Path

from dcgym.config import as_name
from dcgym.errors import ConfigError
from dcgym.units import parse_duration, parse_rate, read_number

__all__ = ["hpcc_content"]

_HEADER = "nodes, switches and links, three whole numbers"
_LINK = "source, destination, rate, delay and loss, such as: 0 4 100Gbps 1000ns 0"


def hpcc_content(text: str, path: Path) -> dict[str, object]:
    """Return the network of a file as plain data, without queues.

    Three numbers come first: of nodes, of switches and of links. Then come the numbers of the
    switches, and for each link its ends, rate, delay and the share of packets that it loses, in
    either direction. The simulator counts nodes from 0; node n is h{n+1} here, or s{n+1}.

    Args:
        text: What the file holds.
        path: The file, after which the network is called.

    Raises:
        ConfigError: A number is missing, left over or wrong.
    """
    words = [
        (word, f"{path.name}, line {number}")
        for number, line in enumerate(text.splitlines(), 1)
        for word in line.split()
    ]
    end = len(words)
    if end < 3:
        raise ConfigError(f"{path.name}", end, _HEADER)
    n_nodes, n_switches, n_links = (_whole(*word, _HEADER) for word in words[:3])
    if end != 3 + n_switches + 5 * n_links:
        allowed = f"numbers of {n_switches} switches, and {n_links} links of 5 each, after the 3"
        raise ConfigError(f"{path.name}, values", end, allowed)
    switches = {
        _whole(*word, f"a node from 0 to {n_nodes - 1}", n_nodes - 1)
        for word in words[3 : 3 + n_switches]
    }
    names = [f"{'s' if node in switches else 'h'}{node + 1}" for node in range(n_nodes)]
    nodes = [
        {"name": name, "role": "switch" if node in switches else "host"}
        for node, name in enumerate(names)
    ]
    rows = [words[start : start + 5] for start in range(3 + n_switches, end, 5)]
    return {
        "name": as_name(path.stem),
        "nodes": nodes,
        "links": [_link(row, names) for row in rows],
    }


def _link(row: list[tuple[str, str]], names: list[str]) -> dict[str, object]:
    (rate, where), (delay, _), (lost, _) = row[2:]
    ends = [_whole(*word, _LINK, len(names) - 1) for word in row[:2]]
    loss = read_number(lost)
    if loss is None or not 0 <= loss <= 1:
        raise ConfigError(f"{where}, loss", lost, "a share of packets, 0 to 1")
    return {
        "a": names[ends[0]],
        "b": names[ends[1]],
        "rate_bps": parse_rate(rate, f"{where}, rate"),
        "delay_ns": parse_duration(delay, f"{where}, delay"),
        "loss_probability": loss,
    }


def _whole(word: str, where: str, allowed: str, most: int = 10**6) -> int:
    if not word.isdecimal() or int(word) > most:
        raise ConfigError(where, word, allowed)
    return int(word)
