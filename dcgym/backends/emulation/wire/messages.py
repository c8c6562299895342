"""Every message between an environment and its emulator: requests, and the answers to them."""

from __future__ import annotations

from dataclasses import dataclass

from dcgym.backends.emulation.wire.message import Content, Descriptor, Message

__all__ = [
    "BeginPod",
    "BuildNetwork",
    "BuildPod",
    "ChangeServer",
    "DeadPorts",
    "Done",
    "Drops",
    "Execute",
    "Failure",
    "FlushLinks",
    "Flushed",
    "LostPairs",
    "NetworkBuilt",
    "Output",
    "PingAllPairs",
    "PodBuilt",
    "Prepare",
    "Prepared",
    "ReadApplications",
    "ReadDeadPorts",
    "ReadDrops",
    "ReadEvents",
    "ReadProcesses",
    "ReadTapDrops",
    "Records",
    "SendBurst",
    "SetBalancer",
    "SetCapacity",
    "SetMarking",
    "StartTraffic",
    "Started",
    "StopTraffic",
    "TapDrops",
]


@dataclass(frozen=True)
class Started(Message):
    """First message of an emulator: its namespaces exist.

    Attributes:
        first_process: Process 1 of the namespaces, as a pidfd.
    """

    first_process: Descriptor


@dataclass(frozen=True)
class Done(Message):
    """The request was carried out, and there is nothing to tell."""


@dataclass(frozen=True)
class Failure(Message):
    """The request failed.

    Attributes:
        text: Message of the error.
        kind: Name of its class.
        details: Arguments that make the error again, of a class that both sides know.
    """

    text: str
    kind: str
    details: tuple[object, ...] = ()


@dataclass(frozen=True)
class BuildNetwork(Message):
    """Build a network; answered by `NetworkBuilt`.

    Attributes:
        topology: The network (`Topology.to_dict`).
        switch: Kind of the switches.
        has_flow_matrix: Whether bytes are counted by switch port and source host.
        probes: Ordered pairs of hosts whose round trips are measured.
        path_rule: How switches choose among equal-cost ports.
        relabelling: How senders avoid congested paths, "plb" or "flowbender"; "": they do not.
        flow_entries: Flows that the switches remember; 0 for none.
        generator: What sends the flows.
        host_access: What the hosts' processes may do, one of `HOST_ACCESS`.
    """

    topology: Content
    switch: str
    has_flow_matrix: bool
    probes: tuple[tuple[str, str], ...]
    path_rule: str
    relabelling: str
    flow_entries: int
    generator: str
    host_access: str


@dataclass(frozen=True)
class NetworkBuilt(Message):
    """What the environment works through, without the emulator.

    Attributes:
        port_ifindexes: Interface number of each switch port.
        host_ifindexes: Interface number of each host.
        host_queue_bytes: Limit of the hosts' queues.
        n_queues: Number of queues that the queue program reads.
        rx_slots: For each switch port, the queue of the port at the other end of its link.
        switch_netlink: Routing socket of the switches' namespace.
        host_netlinks: Routing socket of each host's namespace.
        port_counters: Map of the switch ports' counters.
        flow_matrix: Map of the bytes by switch port and source host.
        groups: Map of the next-hop groups.
        fabric_control: Map of the fabric's run-time settings.
        queue_program: Program that reads all queues.
        queues: Map that it fills.
        generator_memory: Memory that the traffic generator shows its counters in.
        generator_process: The traffic generator, as a pidfd.
        relay: Where links delay: the memory that the relay shows its counters in, and the relay as
            a pidfd; else nothing.
    """

    port_ifindexes: tuple[int, ...]
    host_ifindexes: tuple[int, ...]
    host_queue_bytes: int
    n_queues: int
    rx_slots: tuple[int, ...]
    switch_netlink: Descriptor
    host_netlinks: tuple[Descriptor, ...]
    port_counters: Descriptor
    flow_matrix: Descriptor
    groups: Descriptor
    fabric_control: Descriptor
    queue_program: Descriptor
    queues: Descriptor
    generator_memory: Descriptor
    generator_process: Descriptor
    relay: tuple[Descriptor, ...] = ()


@dataclass(frozen=True)
class Prepare(Message):
    """Make the network whole and load an episode; answered by `Prepared`.

    Attributes:
        n_flows: Number of flows in the plan.
        congestion_control: Algorithm of every host.
        controls: Of each algorithm the first fields of its `CongestionControl`: name in Linux,
            program for kernels without the module, whether Linux has one.
        marking: Whether ports with a threshold mark.
        events: What happens to the network, in order.
        plan: Memory file of the plan.
        seed: Of the links' jitter and losses.
    """

    n_flows: int
    congestion_control: dict[str, str]
    controls: dict[str, tuple[str, str, bool]]
    marking: bool
    events: tuple[Content, ...]
    plan: Descriptor
    seed: int = 0


@dataclass(frozen=True)
class Prepared(Message):
    """The episode is loaded.

    Attributes:
        congestion_control: Implementation of each algorithm in use, "kernel" or "bpf".
        agent_maps: The maps of dcgym_agent in the order of `AGENT_MAPS`, the first time that a host
            runs it; else none.
    """

    congestion_control: dict[str, str]
    agent_maps: tuple[Descriptor, ...] = ()


@dataclass(frozen=True)
class StartTraffic(Message):
    """Start the plan and its events; answered by `Done`.

    Attributes:
        start_ns: Time 0 of the plan (CLOCK_MONOTONIC).
    """

    start_ns: int


@dataclass(frozen=True)
class StopTraffic(Message):
    """Cut every flow; answered by `Done`."""


@dataclass(frozen=True)
class FlushLinks(Message):
    """Drop what is under way on links with a delay; answered by `Flushed`."""


@dataclass(frozen=True)
class Flushed(Message):
    """Number of packets that were dropped."""

    packets: int


@dataclass(frozen=True)
class ReadTapDrops(Message):
    """Ask how many packets the relay was too late for; answered by `TapDrops`."""


@dataclass(frozen=True)
class TapDrops(Message):
    """Number of packets in this episode that found no room on their way to the relay."""

    packets: int


@dataclass(frozen=True)
class ReadApplications(Message):
    """Ask what became of the plan's applications; answered by `Records`."""


@dataclass(frozen=True)
class ReadProcesses(Message):
    """Ask which processes of a traffic tool send the plan's flows; answered by `Records`."""


@dataclass(frozen=True)
class ReadEvents(Message):
    """Ask which events have happened, and how the routes recovered; answered by `Records`."""


@dataclass(frozen=True)
class Records(Message):
    """Rows of plain data."""

    records: tuple[Content, ...]


@dataclass(frozen=True)
class ReadDeadPorts(Message):
    """Ask which switch ports the routes avoid; answered by `DeadPorts`."""


@dataclass(frozen=True)
class DeadPorts(Message):
    """Names of the switch ports that the routes avoid."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class SetMarking(Message):
    """Switch the marking of all ports on or off; answered by `Done`."""

    is_on: bool


@dataclass(frozen=True)
class SendBurst(Message):
    """Hand datagrams for one host to the queues of others; answered by `Done`.

    Attributes:
        sources: Names of the senders.
        target: Name of the receiver.
        datagrams: How many each sender sends.
    """

    sources: tuple[str, ...]
    target: str
    datagrams: int


@dataclass(frozen=True)
class Execute(Message):
    """Run a command in a host; answered by `Output`."""

    host: str
    argv: tuple[str, ...]
    timeout_s: float


@dataclass(frozen=True)
class Output(Message):
    """What a command printed."""

    text: str


@dataclass(frozen=True)
class PingAllPairs(Message):
    """Ping between all ordered pairs of hosts; answered by `LostPairs`."""


@dataclass(frozen=True)
class LostPairs(Message):
    """Ordered pairs of hosts between which no answer came."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class ReadDrops(Message):
    """Ask what the fabric refused to forward; answered by `Drops`."""


@dataclass(frozen=True)
class Drops(Message):
    """Packets that the fabric refused to forward, by reason."""

    counts: dict[str, int]


@dataclass(frozen=True)
class BuildPod(Message):
    """Build a pod and open its servers; answered by `PodBuilt`.

    Attributes:
        topology: The network (`Topology.to_dict`).
        scenario: What runs in it (`Scenario.to_dict`).
        server_rows: Map that the servers show their state in.
        consistency, hook: How the balancers work (`PoolOptions`).
        program: What serves (`ServerProgram.to_dict`); nothing for the generator's servers.
    """

    topology: Content
    scenario: Content
    server_rows: Descriptor
    consistency: str
    hook: str
    program: Content


@dataclass(frozen=True)
class PodBuilt(Message):
    """What the environment works through, without the emulator.

    Attributes:
        targets: Address and port of each VIP, in each family; a VIP's lie together.
        regions: Map of each balancer's regions, one for each VIP.
        counters: Map of each balancer's counters.
        generator_memory: Memory that the traffic generator shows its counters in.
        generator_process: The traffic generator, as a pidfd.
    """

    targets: tuple[tuple[str, int], ...]
    regions: tuple[Descriptor, ...]
    counters: tuple[Descriptor, ...]
    generator_memory: Descriptor
    generator_process: Descriptor


@dataclass(frozen=True)
class BeginPod(Message):
    """End the traffic, make servers and balancers as new, load a plan; answered by `Done`.

    Attributes:
        request: What the generator is told about the plan (`RequestResults.request`).
        plan: Memory file of the plan and its results.
    """

    request: str
    plan: Descriptor


@dataclass(frozen=True)
class SetCapacity(Message):
    """Change how fast a server is; answered by `Done`.

    Attributes:
        server: Number of the server.
        speed: Share of its first speed.
        colocated: Number of other processes that share its processors.
    """

    server: int
    speed: float
    colocated: float


@dataclass(frozen=True)
class ChangeServer(Message):
    """Kill, drain or restart a server; answered by `Done`."""

    server: int
    change: str


@dataclass(frozen=True)
class SetBalancer(Message):
    """Kill a balancer with its flow table, or bring it back with an empty one; `Done`."""

    balancer: int
    is_up: bool
