"""Do flows on one bottleneck take as long as jobs that share a processor equally?

How to run (root): ``.venv/bin/python -m experiments.speed.processor_sharing``

Poisson arrivals at three loads of a link of 100 Mbit/s. The model has the same arrivals and sizes,
so that its difference from the emulation is no sampling error; its own mean slowdown tends to
1 / (1 - load) in long runs, and is below it in these, which begin with an empty link.

Results to expect: with DCTCP, mean completion times and mean slowdowns within 10 % of the model at
every load (2 to 5 % below it in most runs). CUBIC fills the queue and shares less equally: at 0.7
its mean completion time was 11 % below the model's. Fidelity is ``ok`` where the processors have
nothing else to do; the reasons of another verdict are printed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dcgym.backends.emulation.network import EmulationNetwork
from dcgym.backends.records import FIDELITY
from dcgym.suites.results import machine, write_json
from dcgym.tasks.network.episode import NetworkEpisode
from dcgym.testing import OneNetwork
from dcgym.topologies import make_topology
from dcgym.traffic import make_plan
from dcgym.writing import prepare_folder
from experiments.speed.sharing import measure_sharing

# Of the 1514 bytes of a full packet, 1448 are payload: loads are stated with headers.
PAYLOAD_SHARE = 1448 / 1514
DRAIN_S = 30.0


@dataclass(frozen=True)
class Args:
    """Settings of the comparison."""

    out: Path = Path("runs/processor_sharing")
    transport: str = "dctcp"
    loads: tuple[float, ...] = (0.3, 0.5, 0.7)
    duration_s: float = 30.0
    seed: int = 1
    topology: dict[str, Any] = field(
        default_factory=lambda: {
            "name": "dumbbell",
            "hosts": 8,
            "rate": "200Mbit",
            "core_rate": "100Mbit",
        }
    )
    # Far above one bandwidth-delay product: 30 KB, where the queue marks.
    sizes: dict[str, Any] = field(
        default_factory=lambda: {"name": "lognormal", "mean": "500KB", "sigma": 0.5}
    )


def measure(network: OneNetwork, load: float, args: Args) -> dict[str, Any]:
    """Run one load."""
    spec = {
        "name": "poisson",
        "sizes": args.sizes,
        "load": load * PAYLOAD_SHARE,
        "link": "s1-s2",
        "pairs": "pairs",
        "duration": args.duration_s,
    }
    plan = make_plan(spec, network.topology, args.seed)
    transports = dict.fromkeys((host.name for host in network.topology.hosts), args.transport)
    deadline_s = args.duration_s + DRAIN_S
    is_marking = args.transport == "dctcp"
    episode = NetworkEpisode(plan, congestion_control=transports, marking=is_marking)
    row = measure_sharing(network, episode, "s1-s2", deadline_s)
    fidelity = network.records(FIDELITY)
    return {"asked": load, **row, "fidelity": fidelity.status, "reasons": fidelity.reasons}


def main(args: Args) -> None:
    """Run every load and print a table."""
    prepare_folder(args.out)
    network = OneNetwork(EmulationNetwork(make_topology(args.topology)))
    rows = []
    print("load  1/(1-load)  flows  FCT, ms: measured  model  slowdown: measured  model  fidelity")
    try:
        for load in args.loads:
            row = measure(network, load, args)
            rows.append(row)
            print(
                f"{row['load']:4.2f}  {1 / (1 - row['load']):10.2f}  {row['flows']:5d}"
                f"  {row['fct_ms']:17.1f}  {row['model_fct_ms']:5.1f}"
                f"  {row['slowdown']:18.2f}  {row['model_slowdown']:5.2f}  {row['fidelity']}",
                *row["reasons"],
                flush=True,
            )
    finally:
        network.close()
    write_json(args.out / "results.json", {"rows": rows, "machine": machine()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Args.out)
    parser.add_argument("--transport", default=Args.transport)
    parser.add_argument("--duration", type=float, default=Args.duration_s)
    chosen = parser.parse_args()
    main(Args(out=chosen.out, transport=chosen.transport, duration_s=chosen.duration))
