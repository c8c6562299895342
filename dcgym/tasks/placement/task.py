"""Which switch holds the next VIP."""

from __future__ import annotations

import gymnasium as gym

from dcgym.tasks.common.layout import Column, Layout
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.rows import RowLayout
from dcgym.tasks.placement.drawn import DrawnTask, check_seed, numbered_actions
from dcgym.tasks.placement.observation import COMMON, ROWS
from dcgym.tasks.placement.rewards import PLACEMENT_REWARDS, PlacementInputs
from dcgym.tasks.placement.settings import VipPlacementSettings
from dcgym.traffic.vips import VipTable

__all__ = ["PLACEMENT_COLUMNS", "PLACEMENT_LAYOUT", "VipPlacementTask", "vip_placement"]

PLACEMENT_COLUMNS = (
    Column(
        "switch_share",
        "on switches, %",
        0.01,
        1,
        high=100.0,
        better="high",
        meaning="Share of the VIPs' bytes that switches handle.",
    ),
    Column("mlu", "MLU", 1.0, 3, better="low", meaning="Largest utilisation of a link."),
    Column(
        "hops", "hops", 1.0, 2, better="low", meaning="Mean links from source to DIP, by bytes."
    ),
    Column(
        "muxes",
        "muxes",
        1.0,
        0,
        better="low",
        meaning="Software muxes for unplaced VIPs, failovers and migrations.",
    ),
    Column(
        "latency_us_p50",
        "RTT p50, us",
        1.0,
        0,
        better="low",
        meaning="Median round trip with those muxes.",
    ),
)

PLACEMENT_LAYOUT = Layout(
    columns=(
        Column("return", "return", 1.0, 3, low=None, better="high", meaning="Sum of all rewards."),
        *PLACEMENT_COLUMNS,
        Column("rejected", "infeasible", 1.0, 0, better="low", meaning="Actions that did not fit."),
    ),
    series=(Column("switch_share", "bytes on switches"), Column("link_max", "fullest link")),
)


class VipPlacementTask(DrawnTask[PlacementInputs]):
    """A switch for every VIP; the same for every copy.

    Args:
        settings: The arguments of the environment.

    Attributes:
        data_centre: Switches, links, tables and muxes.
        trace: Where VIPs come from.
        reward: Terms and weights.
        n_candidates: Switches among which an agent chooses; the action after them is the muxes.
        rows: Layout of the observation.

    Raises:
        ConfigError: An argument is not allowed.
    """

    family = "placement"
    options: tuple[str, ...] = ()
    agents = ("controller",)
    metric_names = ("switch_share", "link_max", "memory_max", "placed", "rejected")

    def __init__(self, settings: VipPlacementSettings) -> None:
        self.settings = settings
        self.data_centre = settings.make_data_centre()
        self.trace = settings.make_trace()
        all_switches = self.data_centre.n_switches
        self.n_candidates = settings.candidates or all_switches
        self.rows = RowLayout(self.n_candidates + 1, len(ROWS), len(COMMON), 0)
        super().__init__(Reward(settings.reward, PLACEMENT_REWARDS), PlacementInputs, self.rows)
        self.action_space: gym.Space[object] = gym.spaces.Discrete(self.n_candidates + 1)

    @property
    def to_muxes(self) -> int:
        """The action that leaves a VIP on the muxes."""
        return self.n_candidates

    @property
    def switch_entries(self) -> int:
        """DIPs that one switch can hold."""
        return self.data_centre.switch_entries

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""
        numbers = [f"action{number}" for number in range(self.n_candidates + 1)]
        return [*(f"{one}.{column}" for one in numbers for column in ROWS), *COMMON]

    def actions_of(self, given: object) -> list[int]:
        """Return actions as numbers, one a copy.

        Args:
            given: The actions.

        Raises:
            ConfigError: One is not in the action space.
        """
        return numbered_actions(given, self.n_candidates)

    def draw_table(self, seed: int) -> VipTable:
        """Return the VIPs of an episode.

        Args:
            seed: Its seed.
        """
        return self.trace.draw(check_seed(seed))[0]


# Long because its docstring is the page of the environment.
def vip_placement(settings: VipPlacementSettings) -> VipPlacementTask:
    """Choose a switch for every virtual address, so that few are left to software muxes.

    ## Description
    A hybrid load balancer holds virtual addresses (VIPs) in tables of switches, which are fast and
    small, and in software muxes, which are slow and large (Duet, SIGCOMM 2014). All traffic of a
    VIP passes the switch that holds it, on the way from its sources to its servers (DIPs). A step
    is one VIP, the largest first. The agent puts it on one of some candidate switches, or leaves
    it to the muxes. The model is one of flows: every switch splits traffic alike over its next hops
    of equal cost, and loads of links are exact. Time stands still.

    ## Action Space
    `Discrete(N + 1)` for N ``candidates``: the number of a candidate, or N for the muxes. Half of
    the candidates have the least MRU (the largest utilisation of any link or table after the VIP
    is there), a quarter the fewest hops, and the others are the first in a random order; each is
    feasible while there are such. With ``candidates=None`` they are all switches, in the order of
    their numbers. A candidate is feasible where links, less a reserve, and tables hold the VIP. An
    action that is not feasible leaves the VIP to the muxes, and is counted.

    `env.unwrapped.action_masks()` and ``info["action_mask"]`` say which actions are feasible. The
    first is what MaskablePPO of sb3-contrib asks for.

    ## Observation Space
    `Box(0, 1, (12 (N + 1) + 12,))`, float32, of the same size in every data centre: a row for each
    action, the muxes last, then what concerns all of them.

    | column of a row | meaning |
    |---|---|
    | link, memory, mru | half the utilisation with the VIP there: of the links that it would use, |
    | | of the switch's entries for DIPs, the largest of everything |
    | hops | mean links between source and DIP over 8 |
    | own_sources, own_dips | share of the VIP's bytes and DIPs in the same rack |
    | nearby_sources, nearby_dips | the same in the same container |
    | is_rack, is_agg, is_core | 1 for the tier of the switch; the muxes have none |
    | is_feasible | 1 where the action is |

    | common position | meaning |
    |---|---|
    | vip_rate | rate r of the VIP over that of a rack's links, as r / (1 + r) |
    | vip_share | its share of the bytes that are not placed yet |
    | vip_dips | its DIPs over the entries of a switch |
    | vip_internet | share of its bytes from the Internet |
    | vip_source_racks, vip_dip_racks | racks with its sources and DIPs over all racks |
    | link_max, link_mean, memory_max | half the utilisation of links and tables now |
    | placed_share | share of all bytes on switches |
    | entries_left | share of the host table that is free |
    | vips_left | share of the VIPs that have no place yet |

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.placement.rewards`. By default the share of all
    bytes that the step put on a switch, minus a tenth of the rise of the MRU, minus 0.01 for an
    action that is not feasible. The return is then the share of bytes on switches, less a tenth of
    the last MRU.

    ## Starting State
    All VIPs on the muxes, and the first one. A synthetic trace is drawn for each episode: the same
    seed gives every policy the same VIPs. A trace of a file begins with an epoch that the seed
    chooses.

    ## Episode End
    Terminates when each VIP has its place, or when the host tables are full: VIPs that are left
    then stay on the muxes. Nothing truncates unless ``max_steps`` or Gymnasium's
    `max_episode_steps` says so.

    ## Information
    Time stands still: all times are 0.

    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | switch_share, link_max, memory_max, placed (VIPs), rejected (infeasible actions) |
    | vip | number, rate_bps, dips of the VIP to be placed; rank: VIPs before it |
    | candidates | of each: switch, link, memory, hops, mru, scan, which is its place in a random |
    | | order; utilisations are of capacities less the reserve |
    | action_mask | 1 for each action that is feasible, int8 |
    | times of a step | those of `dcgym.envs.session.STEP_TIMES` |

    ## Arguments
    | name | meaning |
    |---|---|
    | data_centre | name, such as "duet"; mapping, such as |
    | | ``{"preset": "fat-tree-8", "mux_rate": "10Gbit"}``; or a `DataCentre` |
    | vips | fields of `SyntheticVips`, such as ``{"vips": 400, "total": "400Gbit"}``; a .csv or |
    | | .parquet file; or tables |
    | backend | "simulation"; a function that makes a `Placement` of a data centre and a number. |
    | | VIPs in tables of emulated switches are not there yet |
    | interval | None: a step is a VIP |
    | candidates | switches among which to choose; None for all |
    | reward | a term, a list of terms, or a mapping term to weight |
    | render_mode | None or "rgb_array": what switches hold, and loads of links (extra `video`) |
    | randomise | distribution of each field that is drawn at `reset`, by its path; or None |
    | max_steps | steps until truncation, or None |
    | info | "full"; "flat": one level of floats, such as ``metrics/placed``; or "none" |

    ## Version History
    - v0: first version

    Args:
        settings: The arguments above.
    """
    return VipPlacementTask(settings)
