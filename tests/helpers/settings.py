"""Settings of algorithms in tests: the defaults with a few changes."""

from types import SimpleNamespace

from drest_torch.algos import ALGORITHMS

CHANGES = {"lr": 0.01, "entropy": 0.05, "minibatches": 2, "normalise_advantage": True, "epochs": 2, "max_kl": None}
EXACT = {"min_visit_probability": 0.0, "ignored_gradient_share": 0.0}
DEFAULTS = vars(ALGORITHMS["ppo"].Config()) | vars(ALGORITHMS["reinforce"].Config())
SETTINGS = SimpleNamespace(**DEFAULTS | CHANGES | EXACT)
