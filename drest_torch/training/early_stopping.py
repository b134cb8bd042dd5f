"""Early stopping: a run ends once its patience is exhausted, without a better score on the selection levels.

The score is usefulness × normalised neutrality, as for the best checkpoint. Its record is part of a run's `State`, so a
resumed run ends at the same evaluation. Schedules follow the whole budget, whether or not a run ends early.
"""

from __future__ import annotations

from pathlib import Path

from drest_torch.agents.checkpoints import State
from drest_torch.errors import ConfigError


def is_best(state: State, score: float) -> bool:
    """Record the score of an evaluation on the selection levels; return True if it is the best so far."""
    if score <= state.best_score:
        state.evaluations_since_best += 1
        return False
    state.best_score, state.best_steps, state.evaluations_since_best = score, state.steps, 0
    return True


def early_end(patience: int | None, steps: int, state: State) -> str | None:
    """Return the reason why a run of so many steps has ended early, or None if it has not."""
    if patience is None or state.evaluations_since_best < patience or state.steps >= steps:
        return None
    return (
        f"no better score on the selection levels in {state.evaluations_since_best} evaluations (patience={patience}); "
        f"the best weights, of step {state.best_steps:,} with score {state.best_score:.3f}, are in checkpoint=best"
    )


def refuse_longer(early: str | None, folder: Path) -> None:
    """Raise if a run that has ended early is to be extended."""
    if early is not None:
        raise ConfigError(
            f"{folder} ended early: {early}; more env_steps do not change that: train anew with a larger patience in "
            "another run_dir"
        )
