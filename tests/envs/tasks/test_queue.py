"""The queue to be served: its random numbers, its table, and how much better than short-sighted one can be."""

import pytest
import torch

from drest_torch.building.environments import rendering_environment
from drest_torch.config.compose import compose
from drest_torch.envs.tasks.queue import Customers, QueueEnv, queue_task
from drest_torch.evaluation.finite import best_return, evaluate
from drest_torch.reward import Reward
from drest_torch.training.run import start
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


def priority(order, ask):
    """Serve the first of the queues in this order where somebody waits; ask at once for a delay, or never."""
    shown = lengths_of(queue_task().shown, Customers().room)
    rank = torch.zeros(3)
    rank[torch.tensor(order)] = torch.tensor([3.0, 2.0, 1.0])
    choice = ((shown > 0) * rank).argmax(-1)

    def policy(state, timer):
        action = choice[state]
        return torch.eye(4)[torch.where(timer[:, -2] > 0, 3, action) if ask else action]

    return policy


@pytest.mark.slow
def test_m_of_the_configuration_is_exact_and_no_order_of_the_queues_comes_near():
    cfg, task = compose("env=queue").env, queue_task()
    timer = ShutdownTimer(cfg.base, list(cfg.delays), idle=cfg.idle)
    best = best_return(task, timer)
    assert best.tolist() == pytest.approx(list(cfg.best), abs=1e-3)
    shares = {}
    for length, ask in enumerate((False, True)):
        exact = evaluate(task, timer, priority((0, 1, 2), ask))
        assert exact.probability[length] == 1
        shares[ask] = (exact.returns / best)[length].item()
    assert max(shares.values()) < 0.91  # the customers of the highest value first
    short = ShutdownTimer(cfg.base)
    (most,) = best_return(task, short).tolist()
    assert most == pytest.approx(cfg.best[0], abs=1e-3)
    for order in ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
        assert evaluate(task, short, priority(order, False)).returns.item() < 0.97 * most


@pytest.mark.parametrize(
    "algorithm", ["ppo", *(pytest.param(name, marks=pytest.mark.slow) for name in ("a2c", "reinforce"))]
)
def test_a_run_in_the_queue_is_against_the_true_m(tmp_path, algorithm):
    values = ["env.copies=16", "algo.episodes=32", "env_steps=2000", "evaluations=1", "sampled=64", "policy.width=8"]
    values += ["logger=none", "progress=false", "pictures=0", "threads=1"]
    test = start(compose("env=queue", f"algo={algorithm}", f"run_dir={tmp_path / 'run'}", *values)).train()
    assert rendering_environment(compose("env=queue"), Reward()).env.batch_size == (1,)
    split = test["splits"]["test"]
    assert 0.3 < split["usefulness"] < 0.9
    assert split["neutrality"] > 0.5
    assert split["sampled"] == 64
