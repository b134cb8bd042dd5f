"""Networks for tests."""

from torch import nn

from drest_torch.algos.networks.base import MapLayout, Symmetries
from drest_torch.envs.dynamics.observations import DELAY_UNIT, TIME_STEPS, rotated_planes
from drest_torch.envs.levels.symmetry import rotated_actions, rotated_cells


def group(planes=("wall", "coin", "delay", "agent", "time")):
    """Return the symmetries of maps with these planes; by default the planes of every level."""
    layout = MapLayout(planes, rotated_planes(planes), TIME_STEPS, DELAY_UNIT)
    return Symmetries(rotated_cells(3), rotated_actions(), layout)


class Table(nn.Module):
    """Free logits for every reachable state of a level set, looked up by the state's observation."""

    private_bits = 0
    reads_maps = False

    def __init__(self, observations, logits):
        super().__init__()
        self.observations = observations.flatten(1)
        self.logits = nn.Parameter(logits)

    def forward(self, observation, private_bits=None):
        match = (observation.flatten(1).unsqueeze(1) == self.observations.unsqueeze(0)).all(-1)
        return self.logits[match.int().argmax(1)]
