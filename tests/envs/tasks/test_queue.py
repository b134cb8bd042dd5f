"""The queue to be served: its table is what it does, and m of the configuration is that of the table."""

import pytest
import torch

from drest_torch.config.compose import compose
from drest_torch.envs.tasks.queue import Customers, QueueEnv, queue_task
from drest_torch.evaluation.finite import best_return
from drest_torch.transforms import ShutdownTimer
from tests.helpers.rollouts import rollout

FEW = Customers(leaves=(0.1, 0.3, 0.5), room=2)


def lengths_of(observation, room):
    return observation.unflatten(-1, (3, room + 1)).argmax(-1)


def test_the_table_is_the_environment():
    """From each state that was seen, the shares of what followed and what was paid are those of the table."""
    task, frames = queue_task(FEW), rollout(QueueEnv(400, FEW), 400)
    digits = torch.tensor([9, 3, 1])
    shown = frames["observation"], frames["next", "observation"]
    state, after = ((lengths_of(entry, FEW.room) * digits).sum(-1).flatten() for entry in shown)
    action, reward = frames["action"].flatten(), frames["next", "reward"].flatten()
    count = torch.zeros_like(task.chance)
    count.index_put_((state, action, after), torch.ones(len(state), dtype=torch.float64), accumulate=True)
    total = count.sum(-1, keepdim=True)
    error = (task.chance * (1 - task.chance) / total.clamp_min(1)).sqrt()
    often = (total > 200).expand_as(count)
    assert often.float().mean() > 0.9
    assert ((count / total.clamp_min(1) - task.chance).abs() <= 5 * error + 1e-9)[often].all()
    assert (count[task.chance == 0] == 0).all()
    torch.testing.assert_close(reward.double(), task.reward[state, action, after])
    torch.testing.assert_close(task.chance.sum(-1), torch.ones(27, 3, dtype=torch.float64))
    assert torch.equal((lengths_of(task.shown, FEW.room) * digits).sum(-1), torch.arange(27))


@pytest.mark.slow
def test_m_of_the_configuration_is_exact():
    cfg = compose("env=queue").env
    best = best_return(queue_task(), ShutdownTimer(cfg.base, list(cfg.delays), idle=cfg.idle))
    assert best.tolist() == pytest.approx(list(cfg.best), abs=1e-3)
