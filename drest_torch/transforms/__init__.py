"""TorchRL transforms that make mini-episodes and meta-episodes of any environment, and pay the DReST reward.

`ShutdownTimer` ends an environment at a time that the agent can delay, `BestReturn` keeps m(l), `MetaEpisodes` plays
one mini-episode after the other, and `DReSTReward` pays. Each works without the others. `PrivateBits`, `Flatten` and
`Squash` are what our policies need: a random bit for each mini-episode, one row of numbers, and actions within a box.
"""

from drest_torch.transforms.best_return import BestReturn
from drest_torch.transforms.drest_reward import DReSTReward
from drest_torch.transforms.flatten import Flatten
from drest_torch.transforms.meta_episodes import MetaEpisodes
from drest_torch.transforms.private_bits import PrivateBits
from drest_torch.transforms.shutdown_timer import ShutdownTimer
from drest_torch.transforms.squash import Squash

__all__ = [
    "BestReturn",
    "DReSTReward",
    "Flatten",
    "MetaEpisodes",
    "PrivateBits",
    "ShutdownTimer",
    "Squash",
]
