"""Learn a policy from a data set alone, in 30 lines."""

import tempfile

import minari
import numpy as np
import torch
from torch import nn

import dcgym
from dcgym.suites.recordings import RecordingSpec, record_dataset

JOBS, TEACHER = {"env": "JobAssignment-v0"}, "least-work"

torch.manual_seed(0)
torch.set_num_threads(1)
with tempfile.TemporaryDirectory() as out:
    spec = RecordingSpec(env=JOBS, policy=TEACHER, out=out, episodes=16)
    data = minari.MinariDataset(f"{record_dataset(spec)['folder']}/data")
    episodes = list(data.iterate_episodes())
# Sizes and loads span decades. The last observation of an episode has no action.
seen = torch.tensor(np.concatenate([one.observations[:-1] for one in episodes])).log1p() / 10
chosen = torch.tensor(np.concatenate([one.actions for one in episodes]))
hidden = [nn.Linear(seen.shape[1], 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU()]
network = nn.Sequential(*hidden, nn.Linear(64, int(data.action_space.n)))
optimizer = torch.optim.Adam(network.parameters(), 3e-3)
for _ in range(1000):
    rows = torch.randint(len(seen), (256,))
    loss = nn.functional.cross_entropy(network(seen[rows]), chosen[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def clone(observation: np.ndarray) -> int:
    """Return the server that the teacher most likely chooses."""
    return int(network(torch.tensor(observation).log1p() / 10).argmax())


policies = {"teacher": TEACHER, "clone": clone, "random": "random"}
print(dcgym.compare(JOBS, policies, seeds=range(1000, 1005)))
