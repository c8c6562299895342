"""How the balancers of a scenario work, and the network around them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dcgym.config import check_in, check_int, check_list, check_range, read_numbers
from dcgym.defaults import DefaultCount, DefaultTimes
from dcgym.errors import ConfigError
from dcgym.native.tables import names_of
from dcgym.tasks.balancing.fields import (
    LONGEST_NS,
    Plain,
    build,
    check_bounds,
    parse_fields,
    plain_fields,
)

__all__ = ["FAMILIES", "TRANSPORTS", "DataPlane"]

FAMILIES = ("ipv4", "ipv6")
TRANSPORTS = names_of("transports")
MOST_PROBES = 64.0
"""That a request may cause."""


@dataclass(frozen=True)
class DataPlane:
    """Flow tables, time limits, delays and polling.

    Attributes:
        flow_table_buckets: Buckets of a balancer's flow table, a power of two.
        flow_table_ways: Flows that a bucket holds; one more is not tracked and follows ECMP.
        half_open_limit: Flows of one packet so far that count as ongoing, at most, per front
            end: what a flood opens beyond it the rules do not see. 0: flows count from their second
            packet on, as the sources have it and the presets keep it; where service takes no longer
            than the handshake, rules that count then send whole bursts to one server.
        syn_timeout_ns: Life of a table entry whose handshake is never finished.
        latency_ns: Bounds of the uniform one-way latency between two nodes.
        packet_interval_ns: Mean gap between the packets that a client sends while it is served:
            the instants at which a balancer samples the flow's duration. 0 for none.
        probe_interval_ns: Period of polling the servers' busy workers; 0 for no polling.
        probe_delay_ns: Bounds of the uniform delay of a poll's answer, at most the interval. Where
            nobody gives one of the two, it is as far from the other as by default if 500 ms and
            200 ms do not go with that: the delay up to two fifths of the interval.
        message_loss: Share of the messages between balancers and servers that get lost.
        message_copies: Share of the answers to probes that come twice.
        message_delay_ns: Bounds of the uniform time that a message takes beside the latency.
        prequal_quantile: Of the requests in flight in the pool of answers: servers above it are
            hot. 0: the load alone counts, 1: the latency alone.
        prequal_probes: Probes a request; of a fraction the chance decides.
        prequal_timeout_ns: Later answers are dropped.
        c3_reset_ns: Period after which a balancer under `c3-rank` forgets what it was told of all
            servers; 0: never, and then a server that once was slow may never get a flow again.
        families: Address families of the virtual services, "ipv4", "ipv6" or both: then the flows
            take turns. A matter of the emulation: the twin's flows have no addresses.
        transport: "tcp", or "udp" for requests of one datagram each; likewise.
    """

    flow_table_buckets: int = 65_536
    flow_table_ways: int = 4
    half_open_limit: int = 1024
    syn_timeout_ns: int = 40 * 10**9
    latency_ns: tuple[int, int] = (100_000, 1_000_000)
    packet_interval_ns: int = 250_000_000
    probe_interval_ns: int = DefaultCount(500_000_000)
    probe_delay_ns: tuple[int, ...] = DefaultTimes((50_000_000, 200_000_000))
    message_loss: float = 0.0
    message_copies: float = 0.0
    message_delay_ns: tuple[int, int] = (0, 0)
    prequal_quantile: float = 2**-0.25
    prequal_probes: float = 3.0
    prequal_timeout_ns: int = 3_000_000
    c3_reset_ns: int = 0
    families: tuple[str, ...] = ("ipv4",)
    transport: str = "tcp"

    def __post_init__(self) -> None:
        """Check every field."""
        read_numbers(self)
        buckets = check_int("scenario.flow_table_buckets", self.flow_table_buckets, 1, 2**20)
        if buckets & (buckets - 1):
            raise ConfigError("scenario.flow_table_buckets", buckets, "a power of two")
        check_int("scenario.flow_table_ways", self.flow_table_ways, 1, 255)
        check_int("scenario.half_open_limit", self.half_open_limit, 0, 2**20)
        for field in ("syn_timeout_ns", "packet_interval_ns", "probe_interval_ns", "c3_reset_ns"):
            check_int(f"scenario.{field}", getattr(self, field), 0, LONGEST_NS)
        for field in ("message_loss", "message_copies", "prequal_quantile"):
            check_range(f"scenario.{field}", getattr(self, field), 0.0, 1.0)
        check_range("scenario.prequal_probes", self.prequal_probes, 0.0, MOST_PROBES)
        check_int("scenario.prequal_timeout_ns", self.prequal_timeout_ns, 1, LONGEST_NS)
        for field in ("latency_ns", "probe_delay_ns", "message_delay_ns"):
            bounds = check_bounds(f"scenario.{field}", getattr(self, field))
            if not isinstance(getattr(self, field), DefaultTimes):
                object.__setattr__(self, field, bounds)
        self._check_probes()
        check_in("scenario.transport", self.transport, TRANSPORTS)
        self._check_families()

    def _check_probes(self) -> None:
        """Check that answers are there before the next poll; a default gives way."""
        interval_ns, longest_ns = self.probe_interval_ns, self.probe_delay_ns[1]
        if not interval_ns or longest_ns <= interval_ns:
            return
        if isinstance(self.probe_delay_ns, DefaultTimes):
            # In the proportions of the defaults.
            object.__setattr__(self, "probe_delay_ns", (interval_ns // 10, interval_ns * 2 // 5))
        elif isinstance(interval_ns, DefaultCount):
            object.__setattr__(self, "probe_interval_ns", longest_ns * 5 // 2)
        else:
            allowed = f"at most the probe interval ({interval_ns})"
            raise ConfigError("scenario.probe_delay_ns", longest_ns, allowed)

    def _check_families(self) -> None:
        allowed = f"some of {', '.join(FAMILIES)}"
        families = check_list("scenario.families", self.families, allowed)
        if not families:
            raise ConfigError("scenario.families", families, allowed)
        for family in families:
            check_in("scenario.families", family, FAMILIES)
        if len(set(families)) < len(families):
            raise ConfigError("scenario.families", list(families), "each family once")
        object.__setattr__(self, "families", tuple(families))

    def to_dict(self) -> dict[str, object]:
        """Return the settings as plain data; `from_dict` reads them back."""
        return plain_fields(asdict(self))

    @classmethod
    def from_dict(cls, data: Plain) -> DataPlane:
        """Build the settings from plain data; times may be texts such as "500ms".

        Args:
            data: The fields.

        Raises:
            ConfigError: A field is unknown or not allowed.
        """
        return build(cls, parse_fields(data, cls, "scenario"))
