"""TorchRL transforms for mini-episodes, meta-episodes and the DReST reward in any environment.

`ShutdownTimer` ends an environment at a time that the agent can delay, `BestReturn` estimates m(l), `MetaEpisodes`
plays mini-episodes in sequence, and `DReSTReward` pays. Each works without the others. The policies of this project
also need `PrivateBits`, `Flatten` and `Squash`: random bits for each mini-episode, vector observations, and actions in
a box.
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
