"""Suggestions for unknown keys: the nearest by spelling, or by the name in other libraries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

SYNONYMS: dict[str, Sequence[str]] = {
    "alpha": ("algo.lr",),
    "batch": ("algo.episodes", "algo.minibatches"),
    "batch_size": ("algo.episodes", "algo.minibatches"),
    "budget": ("env_steps",),
    "channels": ("policy.width",),
    "clip_coef": ("algo.clip",),
    "clip_epsilon": ("algo.clip",),
    "clip_range": ("algo.clip",),
    "cuda": ("device",),
    "dir": ("run_dir", "out"),
    "decay": ("algo.weight_decay", "algo.average"),
    "discount": ("reward.gamma",),
    "discount_factor": ("reward.gamma",),
    "drop_rate": ("policy.dropout",),
    "early_stopping": ("patience",),
    "ema": ("algo.average",),
    "ema_decay": ("algo.average",),
    "ent_coef": ("algo.entropy",),
    "entropy_coeff": ("algo.entropy",),
    "folder": ("run_dir", "run", "out"),
    "frames": ("env_steps",),
    "gpu": ("device",),
    "grad_clip": ("algo.max_grad_norm",),
    "hidden": ("policy.width",),
    "hidden_dim": ("policy.width",),
    "hidden_layers": ("policy.depth",),
    "hidden_size": ("policy.width",),
    "hidden_units": ("policy.width",),
    "init_from": ("start_from",),
    "l2": ("algo.weight_decay",),
    "lamda": ("reward.lam",),
    "lambda": ("reward.lam",),
    "layer_norm": ("policy.norm",),
    "layers": ("policy.depth",),
    "learning_rate": ("algo.lr",),
    "log_dir": ("run_dir", "out"),
    "map": ("levels.path",),
    "meta_episodes": ("reward.episodes_per_meta",),
    "model": ("run",),
    "network": ("policy.network",),
    "num_envs": ("env.copies", "algo.episodes"),
    "num_layers": ("policy.depth",),
    "num_samples": ("sampled",),
    "num_steps": ("env_steps",),
    "num_threads": ("threads", "workers"),
    "output": ("run_dir", "out"),
    "output_dir": ("run_dir", "out"),
    "random_seed": ("seed",),
    "save_dir": ("run_dir", "out"),
    "step_size": ("algo.lr",),
    "steps": ("env_steps",),
    "target_kl": ("algo.max_kl",),
    "timesteps": ("env_steps",),
    "total_frames": ("env_steps",),
    "total_timesteps": ("env_steps",),
    "units": ("policy.width",),
    "update_epochs": ("algo.epochs",),
    "vf_coef": ("algo.critic_coeff",),
    "wandb_project": ("logger.project",),
    "weight_init": ("start_from",),
}
"""Names in papers and other libraries, each with our keys of the same meaning in any command."""
ALIKE = 0.7
"""Minimum similarity of two names, as a share of common letters."""
SAME_GROUP = 0.3
"""Bonus for a key of the same group."""
MOST = 3
"""Maximum number of suggestions."""


def nearest_keys(key: str, candidates: Sequence[str]) -> list[str]:
    """Return the candidates nearest to an unknown key, or an empty list if none is similar."""
    scores: dict[str, float] = {}
    for name, label in _labels(candidates):
        score = _alike(_end(key), label)
        if score >= ALIKE:
            score += SAME_GROUP * (_group(key) != "" and _group(key) == _group(name))
            scores[name] = max(score, scores.get(name, 0.0))
    best = max(scores.values(), default=0.0)
    return [name for name in candidates if scores.get(name) == best][:MOST]


def _labels(candidates: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each key with its last component, and with its names in other libraries."""
    yield from ((name, _end(name)) for name in candidates)
    for label, names in SYNONYMS.items():
        yield from ((name, label) for name in names if name in candidates)


def _alike(written: str, label: str) -> float:
    return SequenceMatcher(None, written.lower().replace("-", "_"), label).ratio()


def _end(name: str) -> str:
    return name.rpartition(".")[2]


def _group(name: str) -> str:
    return name.rpartition(".")[0]
