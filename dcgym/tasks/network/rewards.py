"""Rewards as named terms with weights.

Symbols: ``a`` is the mean rate share of all hosts, ``q`` the backlog of the fullest switch port
over its queue limit, both measured for the interval after the action. Terms other
than the goodput ones follow Iroko and its thesis (joint_queue is eq. 4.3), traps included:

- ``joint_queue`` and ``action`` count the shares of hosts that send nothing, and do not see
  fairness: one sender at full rate and one at the floor score as well as an even split.
- ``queue``, ``jain`` and ``std_dev`` alone are best served by choking every host: nothing in
  them asks for traffic. Combine them with a term that does.
- ``fair_queue`` takes Jain's index over the shares below one, so that it is 1 where no host is
  limited at all.
- Queues at the hosts' own limiters are not in ``q``: they are in ``info["metrics"]``.

``goodput`` and ``goodput_queue`` use what arrived instead of what was allowed.

``delivery``, the default, is ``D (1 - q / 2 - (1 - J) / 2)``: ``D`` is what arrived at all hosts
over what could have, 0 to 1, and ``J`` Jain's index over what was sent, both about the hosts that
had a flow under way at both ends of the interval. These could have sent at their interfaces' rates,
but no more together than all flows of the plan get under max-min fairness; where there is no such
host, ``D`` and ``J`` are 1. Full links, empty queues and even shares score 1, choking 0, one
starved host of two 0.75, a full queue 0.5. What hosts without traffic are allowed is not in it. For
one flow alone on a path, ``1 - D`` adds up to its completion time beyond what the link's rate
allows. A full queue costs half and not, as in eq. 4.3, twice of what arrives: with web-search flows
at a load of 0.9, hosts held to a fifth of their rate had longer completion times and larger
slowdowns than unlimited ones with full queues, and the higher return.

``alpha_fair_1`` and ``alpha_fair_2`` pay for goodput by the utility of Mo and Walrand (IEEE/ACM
Transactions on Networking 8(5), 2000), ``U(x) = (x^(1 - alpha) - 1) / (1 - alpha)``, which is
``ln x`` where alpha is 1: proportional fairness; alpha 2 is minimum potential delay. ``x`` is what
arrived of a host's bytes over what its interface carries, from 0.01 on, and the mean is over the
hosts with a flow under way: 0 at full rate, and where nobody has a flow. ``queue_delay`` is
``-ln(1 + d / 10 ms)`` of the longest queueing delay ``d`` of a switch port. The sum of the two,
``reward=["alpha_fair_1", "queue_delay"]``, is log goodput less log delay, the objective of Remy
(Winstein and Balakrishnan, SIGCOMM 2013, section 3.3).

The ``uplink_`` terms look at the ports among which paths are balanced, and at nothing else:

- ``uplink_queue`` is minus the fill of the fullest of their queues.
- ``uplink_load`` is minus the utilisation of the busiest. Traffic that does not take what it can
  get, such as UDP, is best served by it; greedy TCP is best served by full links.
- ``uplink_balance`` is Jain's index over the loads within a group, weighted by its bytes: 1 where
  all ports of every group are equally busy, whatever their rates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from dcgym.registry import Registry
from dcgym.tasks.common.lazy import Lazy
from dcgym.tasks.common.statistics import gini_coefficient, jain_index
from dcgym.tasks.network.interval import Interval
from dcgym.tasks.network.totals import Totals

__all__ = ["DELIVERY", "NETWORK_REWARDS", "RewardInputs", "alpha_fair"]

FloatArray = npt.NDArray[np.float64]

DELIVERY = "delivery"
"""The term that needs to know what could have arrived."""

# Iroko's threshold of the step reward, as a fraction of the queue limit.
STEP_QUEUE_THRESHOLD = 0.30
# A hundredth of the interface counts as nothing: a logarithm of 0 would outweigh everything.
LEAST_SHARE = 0.01
DELAY_SCALE_S = 0.010


class RewardInputs:
    """What a reward may look at in E copies of a network, all for the interval after the action.

    A term reduces the last axis, and returns one number a copy, (E,). What no term asks for is not
    worked out.

    Args:
        interval: What ports and hosts did.
        totals: What they did together.
        decided: What works out the inputs that decisions know, by name.
        host_rates_bps: Rate of each host's interface, (H,).
    """

    def __init__(
        self,
        interval: Interval,
        totals: Totals,
        decided: Mapping[str, Callable[[], FloatArray]],
        host_rates_bps: FloatArray,
    ) -> None:
        self._interval, self._totals, self._decided = interval, totals, decided
        self._host_rates_bps = host_rates_bps

    @Lazy
    def shares(self) -> FloatArray:
        """Rate share of each host, 0 to 1, (E, H)."""
        return self._decision(
            "shares", lambda: np.ones_like(self._interval.host_deltas["rx_bytes"])
        )

    @Lazy
    def queues(self) -> FloatArray:
        """Backlog of each switch port over its queue limit, 0 to 1, (E, P)."""
        # Not negative, and np.clip costs several times as much.
        shares = self._interval.ports["backlog_bytes"] / self._interval.queue_limits_bytes
        return np.asarray(np.minimum(shares, 1.0))

    @property
    def queue_peak(self) -> FloatArray:
        """Fill of the fullest queue, 0 to 1, (E,)."""
        return self._totals.queue_peak

    @Lazy
    def goodput_shares(self) -> FloatArray:
        """Application bytes each host received, over its interface rate, 0 to 1, (E, H)."""
        return self._of_capacity(self._interval.host_deltas["rx_bytes"])

    @property
    def delivered(self) -> FloatArray:
        """What arrived at all hosts over what could have, 0 to 1, (E,).

        What the plan's flows get together bounds it where the reward has the term `DELIVERY`.
        """
        return self._totals.delivered

    @property
    def sender_jain(self) -> FloatArray:
        """Jain's index over the bytes of the hosts that had traffic throughout, (E,)."""
        return self._totals.waiting_jain

    @property
    def delivery(self) -> FloatArray:
        """The default reward, (E,); for `DELIVERY` alone."""
        return self._totals.delivery

    @Lazy
    def sender_shares(self) -> FloatArray:
        """Bytes of each host that arrived over what its interface carries, 0 to 1, (E, H).

        Acknowledged ones, for TCP; NaN for hosts without a flow under way.
        """
        arrived_bytes = self._interval.host_deltas["tx_bytes"]
        is_sending = (self._interval.hosts["active_flows"] > 0) | (arrived_bytes > 0)
        return np.where(is_sending, self._of_capacity(arrived_bytes), np.nan)

    @Lazy
    def queue_delay_s(self) -> FloatArray:
        """Longest time that a packet waits in a switch port's queue, (E,)."""
        delays_s = self._interval.ports["backlog_bytes"] * 8 / self._interval.rates_bps
        return np.asarray(np.maximum.reduce(delays_s, axis=-1, initial=0.0))

    @Lazy
    def uplink_loads(self) -> FloatArray:
        """Utilisation of each port among which paths are balanced, 0 to 1, (E, ports)."""
        return self._decision("uplink_loads", self._no_uplinks)

    @Lazy
    def uplink_queues(self) -> FloatArray:
        """Backlog of these ports over their queue limits, 0 to 1, (E, ports)."""
        return self._decision("uplink_queues", self._no_uplinks)

    @Lazy
    def uplink_jain(self) -> FloatArray:
        """Jain's index over the loads within a group, weighted by its bytes, (E,)."""
        return self._decision("uplink_jain", lambda: np.ones(len(self._interval.duration_s)))

    def _no_uplinks(self) -> FloatArray:
        return np.zeros((len(self._interval.duration_s), 0))

    def _decision(self, name: str, otherwise: Callable[[], FloatArray]) -> FloatArray:
        return self._decided.get(name, otherwise)()

    def _of_capacity(self, own_bytes: FloatArray) -> FloatArray:
        capacity_bytes = np.maximum(self._host_rates_bps / 8 * self._interval.duration_s, 1)
        return np.asarray(np.minimum(own_bytes / capacity_bytes, 1.0))


# Reductions of ufuncs: the methods of arrays cost several times as much on so few numbers.
def _mean(values: FloatArray) -> FloatArray:
    return np.asarray(np.add.reduce(values, axis=-1) / values.shape[-1])


def _peak(values: FloatArray) -> FloatArray:
    return np.asarray(np.maximum.reduce(values, axis=-1, initial=0.0))


def _joint_queue(inputs: RewardInputs) -> FloatArray:
    action = _mean(inputs.shares)
    return action - 2 * action * inputs.queue_peak


def _fair_queue(inputs: RewardInputs) -> FloatArray:
    action, queue = _mean(inputs.shares), inputs.queue_peak
    limited = np.where(inputs.shares < 1.0, inputs.shares, np.nan)
    return action - queue * action + jain_index(limited) * (1 - queue)


def _step(inputs: RewardInputs) -> FloatArray:
    queue = inputs.queue_peak
    action = _mean(inputs.shares) * (1 - gini_coefficient(inputs.shares))
    return np.where(queue > STEP_QUEUE_THRESHOLD, -action - queue, action - queue)


def _goodput_queue(inputs: RewardInputs) -> FloatArray:
    goodput = _mean(inputs.goodput_shares)
    return goodput - 2 * goodput * inputs.queue_peak


def alpha_fair(alpha: float) -> Callable[[RewardInputs], FloatArray]:
    """Return the term of the alpha-fair utility of goodput, 0 where all hosts have full rate.

    Args:
        alpha: 0 for the sum of rates, 1 for proportional fairness, 2 for the least potential
            delay; the larger, the more the worst host counts.
    """

    def utility(inputs: RewardInputs) -> FloatArray:
        share = np.maximum(inputs.sender_shares, LEAST_SHARE)
        power = 1.0 - alpha
        own = np.log(share) if power == 0 else (share**power - 1) / power
        is_sending = ~np.isnan(inputs.sender_shares)
        total = np.add.reduce(np.where(is_sending, own, 0.0), axis=-1)
        return np.asarray(total / np.maximum(np.add.reduce(is_sending, axis=-1), 1))

    return utility


def _queue_delay(inputs: RewardInputs) -> FloatArray:
    return np.asarray(-np.log1p(inputs.queue_delay_s / DELAY_SCALE_S))


def _queue(inputs: RewardInputs) -> FloatArray:
    return np.asarray(-np.square(np.add.reduce(inputs.queues, axis=-1)))


NETWORK_REWARDS: Registry[Callable[[RewardInputs], FloatArray]] = Registry(
    "rewards", "reward", re.compile(r"[a-z][a-z0-9_]*")
)
"""Terms of the tasks on networks."""

NETWORK_REWARDS.add_all(
    {
        DELIVERY: lambda inputs: inputs.delivery,
        "joint_queue": _joint_queue,
        "action": lambda inputs: _mean(inputs.shares),
        "queue": _queue,
        "fair_queue": _fair_queue,
        "step": _step,
        "jain": lambda inputs: jain_index(inputs.shares),
        "std_dev": lambda inputs: -inputs.shares.std(axis=-1),
        # Iroko's model of this name rewards the coefficient itself, that is inequality.
        "gini": lambda inputs: 1 - gini_coefficient(inputs.shares),
        "goodput": lambda inputs: _mean(inputs.goodput_shares),
        "goodput_queue": _goodput_queue,
        "alpha_fair_1": alpha_fair(1.0),
        "alpha_fair_2": alpha_fair(2.0),
        "queue_delay": _queue_delay,
        "uplink_load": lambda inputs: -_peak(inputs.uplink_loads),
        "uplink_queue": lambda inputs: -_peak(inputs.uplink_queues),
        "uplink_balance": lambda inputs: inputs.uplink_jain,
    }
)
