"""One contract for the batched environments of this project: specs, seeds, and resets of some slots."""

from functools import partial

import pytest
import torch
from torchrl.envs import TransformedEnv, check_env_specs

from drest_torch.envs.interfaces.gymnasium_batch import GymnasiumBatch
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import PAPER_WORLDS, parse_level, world
from drest_torch.envs.tasks.queue import QueueEnv
from drest_torch.transforms import ShutdownTimer
from tests.helpers.counter import Counter
from tests.helpers.rollouts import played, rollout

WORLDS = [*map(world, PAPER_WORLDS), parse_level("shutdown: 3\n. C2 B2@0.5\n. A B3@0.3\nC1 . .", name="luck")]
STOCHASTIC = {
    "grid": partial(GridworldEnv, WORLDS, episodes_per_meta=1),
    "start": partial(GridworldEnv, WORLDS, episodes_per_meta=2, observation="centred_start"),
    "queue": QueueEnv,
    "timer": lambda copies: TransformedEnv(QueueEnv(copies), ShutdownTimer(4, [3], idle=0)),
    "spaces": partial(GymnasiumBatch, Counter),
    "CartPole-v1": partial(GymnasiumBatch, "CartPole-v1"),
    "Pendulum-v1": partial(GymnasiumBatch, "Pendulum-v1"),
}
ENVIRONMENTS = STOCHASTIC | {
    "vector": partial(GridworldEnv, WORLDS[:1], episodes_per_meta=2, observation="vector"),
    "Blackjack-v1": partial(GymnasiumBatch, "Blackjack-v1"),
    "one queue": lambda copies: QueueEnv(),
    "two by two": lambda copies: QueueEnv((2, 2)),
}


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_steps_fit_the_specs(make):
    check_env_specs(make(3))


def seeded_rollout(env, seed):
    env.set_seed(seed)
    return rollout(env, 30)


@pytest.mark.parametrize("make", STOCHASTIC.values(), ids=STOCHASTIC)
def test_a_seed_determines_all_steps(make):
    env, before = make(4), torch.get_rng_state()
    first, again, different = (seeded_rollout(env, seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first == seeded_rollout(make(4), 1)).all()
    assert not (first == different).all()
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("make", STOCHASTIC.values(), ids=STOCHASTIC)
def test_each_slot_has_its_own_random_stream(make):
    """Slots with the same actions have different steps."""
    env = make(4)
    actions = seeded_rollout(env, 1)["action"].unbind(1)
    env.set_seed(1)
    steps = played(env, [action[:1].expand_as(action).clone() for action in actions])
    assert not (steps[0] == steps[1]).all()


@pytest.mark.parametrize("make", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_a_reset_of_some_slots_leaves_the_others(make):
    env = make(4)
    env.set_seed(0)
    first, *others = (env.reset() for _ in range(20))  # enough for rare luck, such as an ace
    envs = [make(4), make(4)]
    for env in envs:
        env.set_seed(1)
    seen = [env.reset() for env in envs]
    for step in range(5):
        if step == 4:  # reset some slots of the first environment
            mask = torch.zeros_like(seen[0]["done"])
            mask.view(-1)[::2] = True
            seen[0] = envs[0].reset(seen[0].set("_reset", mask))
            is_reset = mask.squeeze(-1)
            for name, _ in env.observation_spec.items():
                if all(torch.equal(first[name], other[name]) for other in others):  # a start without luck
                    assert torch.equal(seen[0][name][is_reset], first[name][is_reset])
        action = env.rand_action()["action"]
        seen = [env.step_and_maybe_reset(td.set("action", action))[1] for env, td in zip(envs, seen, strict=True)]
    assert (seen[0][~is_reset] == seen[1][~is_reset]).all()
