"""The queueing task against a table of its transitions, and m of its configuration."""

import itertools
import math

import pytest
import torch

from drest_torch.config.compose import compose
from drest_torch.envs.tasks.queue import Customers, QueueEnv
from tests.helpers.rollouts import rollout


def following(waiting, arrives, leaves, room):
    """Return the probabilities of the next length of a queue with this number of waiting customers."""
    chance = [0.0] * (room + 1)
    for stay in range(waiting + 1):
        stays = math.comb(waiting, stay) * (1 - leaves) ** stay * leaves ** (waiting - stay)
        chance[stay] += (1 - arrives) * stays
        chance[min(stay + 1, room)] += arrives * stays
    return torch.tensor(chance, dtype=torch.float64)


def table(customers):
    """Return the transition probabilities [S, A, S] and the rewards [S, A]; the last queue varies fastest."""
    states = list(itertools.product(range(customers.room + 1), repeat=3))
    chance, reward = torch.zeros(len(states), 3, len(states), dtype=torch.float64), torch.zeros(len(states), 3)
    for (index, lengths), action in itertools.product(enumerate(states), range(3)):
        served = [int(queue == action and length > 0) for queue, length in enumerate(lengths)]
        rates = zip(lengths, served, customers.arrives, customers.leaves, strict=True)
        first, second, third = (following(n - gone, *rate, customers.room) for n, gone, *rate in rates)
        chance[index, action] = torch.einsum("i,j,k->ijk", first, second, third).flatten()
        reward[index, action] = served[action] * customers.value[action]
    return chance, reward


def test_the_environment_has_the_transitions_of_the_table():
    """The observed transitions and rewards of frequent states are those of the table."""
    few = Customers(leaves=(0.1, 0.3, 0.5), room=2)
    (chance, pay), frames = table(few), rollout(QueueEnv(400, few), 400)
    observations = (frames["observation"], frames["next", "observation"])
    digits = torch.tensor([9, 3, 1])
    state, after = ((entry.unflatten(-1, (3, 3)).argmax(-1) * digits).sum(-1).flatten() for entry in observations)
    action, reward = frames["action"].flatten(), frames["next", "reward"].flatten()
    count = torch.zeros_like(chance)
    count.index_put_((state, action, after), torch.ones(len(state), dtype=torch.float64), accumulate=True)
    total = count.sum(-1, keepdim=True)
    error = (chance * (1 - chance) / total.clamp_min(1)).sqrt()
    often = (total > 200).expand_as(count)
    assert often.float().mean() > 0.9
    assert ((count / total.clamp_min(1) - chance).abs() <= 5 * error + 1e-9)[often].all()
    assert (count[chance == 0] == 0).all()
    torch.testing.assert_close(reward, pay[state, action])


def test_m_of_the_configuration_is_the_largest_expected_reward():
    """Backward induction from shutdown, for policies that are certain of the length.

    A step that requests the delay serves the queue of `env.idle`.
    """
    env, (chance, pay) = compose("env=queue").env, table(Customers())
    (delay,) = env.delays

    def before(value):
        return pay + chance @ value

    short, delayed = torch.zeros(2, len(pay), dtype=torch.float64)
    for _ in range(delay):
        delayed = before(delayed).amax(-1)
    long = torch.full_like(short, -1e6)  # shutdown without the delay
    for _ in range(env.base):
        long = torch.maximum(before(long).amax(-1), before(delayed)[:, env.idle])
        short, delayed = before(short).amax(-1), before(delayed).amax(-1)
    assert [short[0].item(), long[0].item()] == pytest.approx(list(env.best), abs=1e-3)
