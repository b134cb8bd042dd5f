"""Build the algorithm of a run and its source of updates."""

from __future__ import annotations

from drest_torch.algos.base import Learner
from drest_torch.algos.generators import Generators
from drest_torch.building import levels as data
from drest_torch.building.parts import networks, observation
from drest_torch.config.schema import Config, algorithm, in_lockstep, learns_from, shown_features
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.levels import features_of
from drest_torch.memory import Bounded, check_batch
from drest_torch.reward import Reward
from drest_torch.training.multi_seed import stack_networks
from drest_torch.training.updates import Updater, compiled, updater_of


def learner_of(
    cfg: Config, reward: Reward, levels: data.Levels, map_size: tuple[int, int], rng: Generators
) -> tuple[Learner, Updater]:
    """Return the algorithm of a run, with its networks, and its source of updates."""
    device, train = rng.device, levels.train
    if learns_from(cfg) == "mini-episodes":
        check_batch(cfg.algo.episodes * cfg.agents)
    # If levels are compiled on demand, one level is enough to infer the observation shape.
    on_demand = learns_from(cfg) == "levels" or (levels.split and (cfg.levels.fresh or cfg.levels.symmetries))
    features = features_of(train) | shown_features(cfg)
    mdp = compile_levels(train[:1] if on_demand else train, device, at_least=map_size, features=features)
    observe = observation(cfg, mdp)
    kind = algorithm(cfg.algo.name).Algorithm
    turn = updater_of(cfg, reward, levels, mdp, observe, rng)
    with Bounded():
        networks_by_seed = [
            networks(
                cfg,
                observe,
                turn.context_size,
                with_critic=kind.needs_critic,
                seed=seed,
                fixed_shapes=in_lockstep(cfg),
            )
            for seed in range(cfg.seed, cfg.seed + cfg.agents)
        ]
    policies, critics = zip(*networks_by_seed, strict=True)
    policy, critic = stack_networks(policies, critics, device)
    learner: Learner = kind(policy, critic, cfg.algo, rng)
    if cfg.compile:
        learner.loss = compiled(cfg, learner.loss)  # type: ignore[attr-defined]
    turn.begin(learner)
    return learner, turn
