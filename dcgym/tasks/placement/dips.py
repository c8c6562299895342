"""Which racks serve a VIP locally, and which DIPs move there."""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium as gym

from dcgym.tasks.common.layout import Column, Layout
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.rows import RowLayout
from dcgym.tasks.placement.dip_rewards import DIP_REWARDS, DipInputs
from dcgym.tasks.placement.drawn import DrawnTask, check_seed, numbered_actions
from dcgym.tasks.placement.mappings import LocalMappings
from dcgym.tasks.placement.settings import DipPlacementSettings
from dcgym.tasks.placement.task import PLACEMENT_COLUMNS

__all__ = ["DIP_COMMON", "DIP_LAYOUT", "DIP_ROWS", "DipPlacementTask", "dip_placement"]

DIP_ROWS = (
    *("bytes", "vip_bytes", "needed", "here", "arriving", "entries_needed"),
    *("free_entries", "free_slots", "is_feasible"),
)
"""Columns of a row."""

DIP_COMMON = (
    *("vip_share", "vip_internet", "vip_local", "vip_dips", "dip_load", "level"),
    *("local_share", "moves_left", "entries_left", "vips_left"),
)
"""What concerns all rows."""

DIP_COLUMNS = (
    Column(
        "local_share",
        "local, %",
        0.01,
        1,
        high=100.0,
        better="high",
        meaning="Share of the VIPs' bytes that stay in the rack of their source.",
    ),
    *(one for one in PLACEMENT_COLUMNS if one.metric in ("switch_share", "mlu", "hops")),
    Column(
        "moved_share", "moved DIPs, %", 0.01, 2, better="low", meaning="Share of DIPs that moved."
    ),
)

DIP_LAYOUT = Layout(
    columns=(
        Column("return", "return", 1.0, 3, low=None, better="high", meaning="Sum of all rewards."),
        *DIP_COLUMNS,
        Column("rejected", "infeasible", 1.0, 0, better="low", meaning="Actions that did not fit."),
    ),
    series=(Column("local_share", "local bytes"), Column("moved_share", "moved DIPs")),
)


class DipPlacementTask(DrawnTask[DipInputs]):
    """Local mappings and DIPs of all VIPs; the same for every copy.

    Args:
        settings: The arguments of the environment.

    Attributes:
        data_centre: Switches, links, tables and servers.
        limits: What DIPs may carry, and where they may be.
        reward: Terms and weights.
        n_candidates: Racks among which an agent chooses; the action after them is the next VIP.
        rows: Layout of the observation.

    Raises:
        ConfigError: An argument is not allowed.
    """

    family = "dips"
    options: tuple[str, ...] = ()
    agents = ("controller",)
    metric_names = ("local_share", "moved_share", "mlu", "hops", "switch_share", "rejected")

    def __init__(self, settings: DipPlacementSettings) -> None:
        self.settings = settings
        self.data_centre = settings.make_data_centre()
        self.limits = settings.make_limits()
        # Wrong traces must fail here, not in the first episode.
        if not isinstance(settings.vips, Mapping):
            settings.make_services(0)
        else:
            settings.make_trace()
        self.n_candidates = settings.candidates
        self.rows = RowLayout(self.n_candidates + 1, len(DIP_ROWS), len(DIP_COMMON), 0)
        super().__init__(Reward(settings.reward, DIP_REWARDS), DipInputs, self.rows)
        self.action_space: gym.Space[object] = gym.spaces.Discrete(self.n_candidates + 1)

    @property
    def to_next(self) -> int:
        """The action that goes on with the next VIP."""
        return self.n_candidates

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""
        numbers = [f"action{number}" for number in range(self.n_candidates + 1)]
        return [*(f"{one}.{column}" for one in numbers for column in DIP_ROWS), *DIP_COMMON]

    def actions_of(self, given: object) -> list[int]:
        """Return actions as numbers, one a copy.

        Args:
            given: The actions.

        Raises:
            ConfigError: One is not in the action space.
        """
        return numbered_actions(given, self.n_candidates)

    def draw_mappings(self, seed: int) -> LocalMappings:
        """Return the VIPs of an episode, DIPs where they are at its beginning.

        Args:
            seed: Its seed.
        """
        services = self.settings.make_services(check_seed(seed))
        return LocalMappings(self.data_centre, services, self.limits)


# Long because its docstring is the page of the environment.
def dip_placement(settings: DipPlacementSettings) -> DipPlacementTask:
    """Choose racks that serve a virtual address locally, so that few bytes cross links.

    ## Description
    In Rubik (USENIX ATC 2015) a rack's switch may hold a local mapping of a virtual address (VIP):
    it sends what its own rack sends to that VIP to servers (DIPs) in the same rack, and no link is
    crossed. All other DIPs are in one residual mapping, on one switch of the data centre, placed by
    Duet's greedy algorithm at the end. An agent chooses local mappings VIP by VIP, and moves DIPs
    there as they are needed. VIPs call each other: DIPs of one are the sources of another. They
    come in an order in which callers are first, so that sources are known; the largest first where
    that leaves a choice. The model is one of flows and exact, and time stands still.

    ## Action Space
    `Discrete(N + 1)` for N ``candidates``: the number of a rack gets a local mapping of the present
    VIP; N goes on with the next VIP. Candidates are the racks that send most to the VIP and have no
    local mapping of it. A local mapping holds the fewest DIPs that carry what the rack sends. DIPs
    that are missing move there from racks that send least. It is feasible where the switch has
    entries and the rack has room for them, moves are left, other DIPs carry the rest, and DIPs stay
    in two racks or more. An action that is not feasible leaves what is left of the VIP to its
    residual mapping, and is counted. VIPs without a feasible candidate are passed over.

    `env.unwrapped.action_masks()` and ``info["action_mask"]`` say which actions are feasible.

    ## Observation Space
    `Box(0, 1, (9 (N + 1) + 10,))`, float32, of the same size in every data centre: a row for each
    action, the next VIP last, then what concerns all of them.

    | column of a row | meaning |
    |---|---|
    | bytes | what the rack sends over a rack's mean b of all VIPs, as r / (1 + r), r = bytes / b |
    | vip_bytes | the same over all that the VIP gets |
    | needed, here | DIPs of the mapping, and those of them already there, over the VIP's DIPs |
    | arriving | DIPs that would move, over the moves that are left |
    | entries_needed, free_entries | entries of the mapping, and free ones, over all of a switch |
    | free_slots | DIPs for which the rack has room, over all it has room for |
    | is_feasible | 1 where the action is |

    | common position | meaning |
    |---|---|
    | vip_share | share of all bytes that the VIP gets, times the number of VIPs, as r / (1 + r) |
    | vip_internet | share of its bytes from the Internet |
    | vip_local | share of its bytes that is local already |
    | vip_dips | its DIPs over the entries of a switch |
    | dip_load | load of its residual DIPs over what they may carry |
    | level | level l in the graph of calls, as l / (1 + l) |
    | local_share | share of all bytes that is local |
    | moves_left | share of the moves that is left |
    | entries_left | share of all racks' entries that is free |
    | vips_left | share of the VIPs that are to come |

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.placement.dip_rewards`. By default the share of all
    bytes that became local; at the end minus half the largest link utilisation; minus 0.01 for an
    action that is not feasible.

    ## Starting State
    No local mapping, and the first VIP that has a feasible candidate. A synthetic trace and its
    calls are drawn for each episode: the same seed gives every policy the same VIPs.

    ## Episode End
    Terminates when no VIP with a feasible candidate is left. Residual mappings are placed then.

    ## Information
    Time stands still: all times are 0.

    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | local_share, moved_share, rejected; mlu, hops and switch_share, 0 before the end |
    | vip | number, rank (VIPs before it), level, rate_bps, dips |
    | candidates | of each: rack, bps, needed, here, arriving |
    | seed | seed of the episode's VIPs |
    | action_mask | 1 for each action that is feasible, int8 |
    | times of a step | those of `dcgym.envs.session.STEP_TIMES` |

    ## Arguments
    | name | meaning |
    |---|---|
    | data_centre | name, such as "rubik-20"; mapping; or a `DataCentre` |
    | vips | fields of `SyntheticVips`; a file with rows of callers (`read_services`); tables; a |
    | | `ServiceGraph` |
    | dips | fields of `DipLimits`: headroom, load, vms_per_server, failure_domains, moves |
    | backend | "simulation"; a function that makes a `Placement` of a data centre and a number |
    | interval | None: a step is a decision |
    | candidates | racks among which to choose |
    | reward | a term, a list of terms, or a mapping term to weight |
    | render_mode | None or "rgb_array": bytes of each switch, and loads of links (extra `video`) |
    | randomise | distribution of each field that is drawn at `reset`, by its path; or None |
    | max_steps | steps until truncation, or None |
    | info | "full"; "flat": one level of floats, such as ``metrics/local_share``; or "none" |

    ## Version History
    - v0: first version

    Args:
        settings: The arguments above.
    """
    return DipPlacementTask(settings)
