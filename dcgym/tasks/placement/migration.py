"""Which VIPs move to other switches as traffic changes."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.errors import ConfigError
from dcgym.tasks.common.actions import action_array
from dcgym.tasks.common.layout import Column, Layout
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.rows import RowLayout
from dcgym.tasks.placement.drawn import DrawnTask, check_seed
from dcgym.tasks.placement.migration_rewards import (
    MIGRATION_REWARDS,
    MigrationInputs,
)
from dcgym.tasks.placement.settings import VipMigrationSettings
from dcgym.tasks.placement.task import PLACEMENT_COLUMNS
from dcgym.tasks.placement.view import AssignmentRule
from dcgym.traffic.vips import VipTable

__all__ = [
    "AFRESH",
    "MARGINS",
    "MIGRATION_COMMON",
    "MIGRATION_LAYOUT",
    "MIGRATION_ROWS",
    "STAY",
    "VipMigrationTask",
    "vip_migration",
]

MARGINS = (None, 0.0, 0.01, 0.02, 0.05, 0.1, 0.2, None)
"""By how much the MRU must fall for a VIP to move: the actions of "margin". The first one assigns
all VIPs afresh, whatever they were on, and the last one moves none."""

AFRESH, STAY = 0, len(MARGINS) - 1

MIGRATION_ROWS = (
    *("bytes", "grew", "dips", "is_on_switch", "is_for_switch", "fits"),
    *("link_here", "link_there", "memory_here", "memory_there", "is_there"),
)
"""Columns of a row: of a VIP that an assignment afresh would move."""

MIGRATION_COMMON = (
    *("link_stay", "memory_stay", "share_stay", "link_afresh", "share_afresh"),
    *("moved_afresh", "vips_on_switches", "total", "epochs_left"),
)
"""What concerns all rows."""

MIGRATION_LAYOUT = Layout(
    columns=(
        Column("return", "return", 1.0, 3, low=None, better="high", meaning="Sum of all rewards."),
        *(one for one in PLACEMENT_COLUMNS if one.metric == "switch_share"),
        Column(
            "moved_share",
            "moved, %",
            0.01,
            1,
            better="low",
            meaning="Bytes of VIPs that left a switch, of an epoch.",
        ),
        Column("link_max", "fullest link", 1.0, 3, better="low", meaning="Of VIPs on switches."),
        Column("muxes", "muxes", 1.0, 0, better="low", meaning="Muxes for the worst of both."),
        Column("rejected", "infeasible", 1.0, 1, better="low", meaning="VIPs that did not fit."),
    ),
    series=(Column("switch_share", "bytes on switches"), Column("moved_share", "moved bytes")),
)


class VipMigrationTask(DrawnTask[MigrationInputs]):
    """Moves of VIPs from epoch to epoch; the same for every copy.

    Args:
        settings: The arguments of the environment.

    Attributes:
        data_centre: Switches, links, tables and muxes.
        trace: Where VIPs come from.
        reward: Terms and weights.
        n_candidates: VIPs that are shown.
        places: Where in the observation things are.
        rows: The same where an action has a part for each row; None where it is one margin.

    Raises:
        ConfigError: An argument is not allowed.
    """

    family = "migration"
    options: tuple[str, ...] = ()
    agents = ("controller",)
    metric_names = ("switch_share", "moved_share", "link_max", "memory_max", "muxes", "rejected")

    def __init__(self, settings: VipMigrationSettings) -> None:
        self.settings = settings
        self.data_centre = settings.make_data_centre()
        self.trace = settings.make_trace()
        self.n_candidates = settings.candidates
        self.chooses_vips = settings.action == "vips"
        places = RowLayout(self.n_candidates, len(MIGRATION_ROWS), len(MIGRATION_COMMON), 0)
        super().__init__(Reward(settings.reward, MIGRATION_REWARDS), MigrationInputs, places)
        self.rows = self.places if self.chooses_vips else None
        self.action_space: gym.Space[object] = (
            gym.spaces.MultiDiscrete([2] * self.n_candidates)
            if self.chooses_vips
            else gym.spaces.Discrete(len(MARGINS))
        )

    @property
    def observation_labels(self) -> list[str]:
        """Name of each position of an observation."""
        numbers = [f"vip{number}" for number in range(self.n_candidates)]
        made = [f"{one}.{column}" for one in numbers for column in MIGRATION_ROWS]
        return [*made, *MIGRATION_COMMON]

    def rule(self, action: int, seed: int) -> AssignmentRule:
        """Return how an action of "margin" places VIPs.

        Args:
            action: Its number.
            seed: Seed of the order of equals.
        """
        if action == STAY:
            return AssignmentRule("none", stops=False)
        return AssignmentRule(stops=False, margin=MARGINS[action] or 0.0, seed=seed)

    def actions_of(self, given: object) -> npt.NDArray[np.int64]:
        """Return actions, (E,) or (E, N).

        Args:
            given: The actions.

        Raises:
            ConfigError: One is not in the action space.
        """
        actions, most = action_array(given), 1 if self.chooses_vips else len(MARGINS) - 1
        allowed = f"whole numbers, 0 to {most}"
        if actions.dtype.kind not in "iu" or actions.size % (
            self.n_candidates if self.chooses_vips else 1
        ):
            raise ConfigError("action", given, allowed)
        for one in actions[(actions < 0) | (actions > most)]:
            raise ConfigError("action", int(one), allowed)
        shape = (-1, self.n_candidates) if self.chooses_vips else (-1,)
        return actions.astype(np.int64).reshape(shape)

    def draw_tables(self, seed: int) -> list[VipTable]:
        """Return the VIPs of the first assignment and of each epoch after it.

        Args:
            seed: The seed of the episode.
        """
        return self.trace.draw(check_seed(seed), self.settings.epochs + 1)


# Long because its docstring is the page of the environment.
def vip_migration(settings: VipMigrationSettings) -> VipMigrationTask:
    """Choose which virtual addresses move to other switches as their traffic changes.

    ## Description
    A placement of virtual addresses (VIPs) on switches ages: VIPs that grow no longer fit, and
    others leave room. Placing all of them afresh moves many for little, and every VIP that moves
    passes over slow software muxes (Duet, SIGCOMM 2014, section 4.2). A step is an epoch of ten
    minutes. Traffic has changed, and the agent says how much a move must be worth, or which VIPs
    move. Moves happen in two waves: first all of them leave their switches, then they are announced
    by the next ones. No table ever holds both. Placements are Duet's greedy ones, but a VIP that
    fits nowhere does not end them: it alone stays on the muxes. The model is one of flows, and
    exact.

    ## Action Space
    With ``action="margin"``, `Discrete(8)`: 0 places all VIPs afresh (Non-sticky). 1 to 6 move a
    VIP only where the largest utilisation (MRU) falls by more than 0, 0.01, 0.02, 0.05, 0.1 or 0.2
    (Sticky). 7 moves none (One-time).

    With ``action="vips"``, `MultiDiscrete([2] * N)` for N ``candidates``: 1 moves a VIP to where a
    placement afresh has it, 0 leaves it. Candidates are the VIPs of most bytes among those that
    such a placement would move.

    VIPs that their switch can no longer hold go to the muxes. What the action keeps on a switch or
    brings to one in vain is counted as infeasible. `env.unwrapped.action_masks()` and
    ``info["action_mask"]`` say which actions are feasible: all but moves of candidates that are not
    there.

    ## Observation Space
    `Box(0, 1, (11 N + 9,))`, float32, of the same size in every data centre: a row for each
    candidate, then what concerns all of them. Utilisations are halved, so that 0.5 is full, and
    hold while nobody has moved.

    | column of a row | meaning |
    |---|---|
    | bytes | share of all bytes times the number of VIPs, as r / (1 + r) |
    | grew | its rate g over that of the last epoch, as g / (1 + g) |
    | dips | its DIPs over the entries of a switch |
    | is_on_switch, is_for_switch | 1 where it is on a switch, and would be |
    | fits | 1 where its switch still holds it |
    | link_here, memory_here | utilisation of its switch: fullest link, entries |
    | link_there, memory_there | the same of the switch to which it would move |
    | is_there | 1 for a candidate |

    | common position | meaning |
    |---|---|
    | link_stay, memory_stay | utilisation while nobody has moved |
    | share_stay | share of the bytes on switches then |
    | link_afresh, share_afresh | the same after a placement afresh |
    | moved_afresh | share of the bytes that it would move |
    | vips_on_switches | share of the VIPs that are on switches |
    | total | traffic t over that of the first epoch, as t / (1 + t) |
    | epochs_left | share of the epochs that are to come |

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.placement.migration_rewards`. By default the share
    of bytes on switches, minus a fifth of the share that moved over muxes, minus 0.01 for each VIP
    that did not fit; all over the number of epochs.

    ## Starting State
    The greedy placement of the first epoch, and the traffic of the second one.

    ## Episode End
    Terminates after ``epochs`` epochs.

    ## Information
    Time stands still: all times are 0.

    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | switch_share, moved_share, link_max, memory_max, muxes, rejected of the last epoch |
    | candidates | of each: vip, bytes (share), here, there (switches, -1 for the muxes) |
    | epoch | epochs that are over |
    | action_mask | 1 for each action that is feasible, int8 |
    | times of a step | those of `dcgym.envs.session.STEP_TIMES` |

    ## Arguments
    | name | meaning |
    |---|---|
    | data_centre | name, such as "duet"; mapping; or a `DataCentre` |
    | vips | fields of `SyntheticVips`, such as ``{"churn": 1.0}``; a file; tables |
    | epochs | epochs after the first placement |
    | action | "margin": how much a move must be worth; "vips": who moves |
    | backend | "simulation"; a function that makes a `Placement` of a data centre and a number |
    | interval | None: a step is an epoch |
    | candidates | VIPs that are shown, and among which "vips" chooses |
    | reward | a term, a list of terms, or a mapping term to weight |
    | render_mode | None or "rgb_array": what switches hold, and loads of links (extra `video`) |
    | randomise | distribution of each field that is drawn at `reset`, by its path; or None |
    | max_steps | steps until truncation, or None |
    | info | "full"; "flat": one level of floats, such as ``metrics/moved_share``; or "none" |

    ## Version History
    - v0: first version

    Args:
        settings: The arguments above.
    """
    return VipMigrationTask(settings)
