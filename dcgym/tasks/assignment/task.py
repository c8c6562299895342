"""Which server gets the job that has just arrived."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from dcgym.config import check_in
from dcgym.errors import ConfigError
from dcgym.tasks.assignment.observation import OBSERVATIONS
from dcgym.tasks.assignment.rewards import JOB_REWARDS, FloatArray, JobInputs
from dcgym.tasks.assignment.settings import JobAssignmentSettings
from dcgym.tasks.common.actions import action_array
from dcgym.tasks.common.layout import CENSORED, Column, Layout
from dcgym.tasks.common.rewards import Reward
from dcgym.tasks.common.rows import RowLayout

__all__ = ["ASSIGNMENT_LAYOUT", "JobAssignmentTask", "job_assignment"]

SEED_LIMIT = 2**63

ASSIGNMENT_LAYOUT = Layout(
    columns=(
        Column(
            "return", "return, 1e6", 1e6, 3, low=None, better="high", meaning="Sum of all rewards."
        ),
        Column(
            "sojourn_ms_mean",
            "sojourn mean, ms",
            1.0,
            1,
            better="low",
            meaning="Mean time from a job's arrival to its end.",
        ),
        Column(
            "sojourn_ms_p50",
            "sojourn p50, ms",
            1.0,
            1,
            better="low",
            meaning="Median time from a job's arrival to its end.",
        ),
        Column(
            "sojourn_ms_p99",
            "sojourn p99, ms",
            1.0,
            0,
            better="low",
            meaning="99th percentile of the time from a job's arrival to its end.",
        ),
        CENSORED,
        Column("failed", "failed", 1.0, 0, better="low", meaning="Jobs that no server finished."),
    ),
    series=(Column("jobs", "jobs in the system"),),
)


class JobAssignmentTask:
    """A server for every job; the same for every copy of a pool.

    Args:
        settings: The arguments of the environment.

    Attributes:
        scenario: The pool and its jobs.
        reward: Terms and weights.
        observation: What is seen.
        speeds: Work that each server does in a unit of time, (N,).
        rows: Layout of the observation: one number a server, then the job's size.

    Raises:
        ConfigError: An argument is not allowed.
    """

    family = "assignment"
    options: tuple[str, ...] = ()
    agents = ("dispatcher",)

    def __init__(self, settings: JobAssignmentSettings) -> None:
        self.settings = settings
        self.scenario = settings.make_scenario()
        self.n_servers = self.scenario.n_servers
        self.reward: Reward[JobInputs, FloatArray] = Reward(settings.reward, JOB_REWARDS)
        self.observation = OBSERVATIONS.find(settings.observation)
        groups = self.scenario.server_groups
        self.speeds = np.array([group.resources[0].capacity for group in groups])
        self.observation_space = self.observation.space(self.n_servers)
        self.observation_labels = self.observation.labels(self.n_servers)
        self.rows = RowLayout(self.n_servers, 1, int(self.observation.has_size), 0)
        self.action_space: gym.Space[object] = gym.spaces.Discrete(self.n_servers)
        if settings.action == "scores":
            self.action_space = gym.spaces.Box(-1.0, 1.0, (self.n_servers,), np.float32)

    def __deepcopy__(self, memo: dict[int, object]) -> JobAssignmentTask:
        """Return the task: it holds no state of an episode."""
        return self

    def servers_of(self, actions: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """Return the number of the server that each action names, (E,).

        Args:
            actions: Numbers of servers, (E,), or scores, (E, N), of which the first of the highest
                counts.

        Raises:
            ConfigError: An action is not in the action space.
        """
        given = action_array(actions)
        if self.settings.action == "scores":
            if given.ndim != 2 or given.shape[1] != self.n_servers or not np.isfinite(given).all():
                raise ConfigError("action", actions, f"{self.n_servers} finite numbers")
            highest: npt.NDArray[np.int32] = np.argmax(given, axis=1).astype(np.int32)
            return highest
        allowed = f"the number of a server, 0 to {self.n_servers - 1}"
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise ConfigError("action", actions, allowed)
        for number in given[(given < 0) | (given >= self.n_servers)]:
            raise ConfigError("action", int(number), allowed)
        return given.astype(np.int32)

    def action_of(self, server: int) -> npt.NDArray[np.float32] | int:
        """Return the action that names a server.

        Args:
            server: Its number.
        """
        check_in("server", server, range(self.n_servers))
        if self.settings.action == "server":
            return server
        scores = np.full(self.n_servers, -1.0, np.float32)
        scores[server] = 1.0
        return scores

    def draw_seed(self, generator: np.random.Generator) -> int:
        """Draw the seed of an episode's arrivals.

        Args:
            generator: Source of chance.
        """
        return int(generator.integers(SEED_LIMIT))


# Long because its docstring is the page of the environment.
def job_assignment(settings: JobAssignmentSettings) -> JobAssignmentTask:
    """Choose a server for every job, so that jobs leave soon: Park's load balancing.

    ## Description
    Jobs arrive at a dispatcher. It puts each on one of N servers at once, and no job moves
    afterwards. A step is one job: it begins when the job arrives and ends when the next one does,
    in simulated time. The default is the environment `load_balance` of Park (Mao et al., NeurIPS
    2019): ten servers of one worker each that serve in order of arrival, of speeds 0.15 to 1.05,
    exponential gaps with a mean of 54.5 ms, Pareto sizes with a mean of 299.5 ms of work and tail
    index 1.5, 1000 jobs. One unit of Park's time is 1 ms here; Park cuts gaps of 55 and sizes of
    300 to whole units, which leaves these means. Any scenario with one balancer takes the place
    of it; several workers, stages, events and closed loops included.

    ## Action Space
    `Discrete(N)`, the number of the server. With ``action="scores"``: `Box(-1, 1, (N,))`, and the
    highest score gets the job, the first of several: for learners of continuous actions. A server
    that is gone or drained takes no job; `env.unwrapped.action_masks()` says which do. With
    ``rule`` a rule of the data plane decides, and the action is ignored.

    ## Observation Space
    `Box(0, 500000, (N + 1,))`, float32, for ``observation="park"``:

    | position | meaning | unit |
    |---|---|---|
    | j | work that waits at server j, plus the *time* that the job in service still takes | ms |
    | N | size of the job to be placed: its work at speed 1 | ms |

    The sum of work and time is Park's. ``observation="work"``: the time until each server is done
    with all it has, and the size, each as ``x / (x + 1 s)``, N + 1 numbers from 0 to 1.
    ``observation="counts"``: the jobs at each server as ``x / (x + 8)``, N numbers, all that a
    layer-4 balancer knows. Observations of the first kind want a normalisation before a network
    sees them.

    ## Rewards
    A weighted sum of the terms in `dcgym.tasks.assignment.rewards`. `sojourn` is Park's: minus the
    time integral of the jobs in the system since the last decision, in ms. The last step goes on
    until all jobs are done, so that the return is minus the sum of all sojourn times. `failures` is
    -60,000 for each job that a full server refused or that went to a server that is gone; Park's
    servers have neither.

    ## Starting State
    Empty servers, and the first job. The same seed gives every policy the same jobs, on every
    machine, in every number of environments side by side. With ``paths="shared"`` copies that begin
    together meet the same jobs: what a baseline that depends on the input needs (Mao et al., ICLR
    2019).

    ## Episode End
    Terminates with the step of the last of ``jobs`` jobs. ``jobs=None`` goes on for ever. Nothing
    truncates unless ``max_steps`` or Gymnasium's `max_episode_steps` says so.

    ## Information
    Time waits for the agent: it counts from the first job, as events do, and nothing is late.

    | key | meaning |
    |---|---|
    | reward_terms | each term times its weight; they add up to the reward |
    | metrics | jobs in the system; of the step: completed, and the sum of their sojourn times, |
    | | sojourn_ms; since the episode began: failed |
    | servers | of each: jobs, waiting_ms, in_service_ms, remaining_ms, eligible |
    | size_ms | size of the job to be placed |
    | action_mask | with ``action="server"``: 1 for each server that takes new jobs; 1 for all |
    | | where none does |
    | times of a step | those of `dcgym.envs.session.STEP_TIMES` |

    ## Arguments
    | name | meaning |
    |---|---|
    | scenario | name, mapping (``{"preset": "park-10", "load": 0.8}``), file, or `Scenario`; one |
    | | balancer |
    | backend | "simulation"; a function that makes a `Pool` of a scenario and a |
    | | number. Real servers do not wait for an agent: the emulation is refused |
    | interval | mean time from one job to the next; None for that of the scenario |
    | jobs | jobs of an episode, or None |
    | observation | "park", "work" or "counts" |
    | action | "server" or "scores" |
    | reward | a term, a list of terms, or a mapping term to weight |
    | rule | rule of the data plane in the agent's place, such as "sed"; None for the agent |
    | record_limit | finished jobs kept for `flow_records` |
    | paths | "own": each copy has its own jobs; "shared": copies that begin together share them |
    | render_mode | None or "rgb_array": jobs at the servers (extra `video`) |
    | randomise | distribution of each field that is drawn at `reset`, by its path; or None |
    | max_steps | steps until truncation, or None |
    | info | "full"; "flat": one level of floats, such as ``metrics/jobs``; or "none" |

    ## Version History
    - v0: first version

    Args:
        settings: The arguments above.
    """
    return JobAssignmentTask(settings)
