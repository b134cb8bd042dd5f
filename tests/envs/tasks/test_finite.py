"""Exact evaluation in finite tasks with a shutdown timer, against plain Python."""

import math

import gymnasium
import pytest
import torch

from drest_torch.agent import Agent
from drest_torch.config.compose import compose
from drest_torch.envs.tasks.finite import FiniteTask, gymnasium_task
from drest_torch.envs.tasks.queue import queue_task
from drest_torch.errors import UserError
from drest_torch.evaluation.finite import best_return, evaluate, mixed
from drest_torch.training.run import start
from drest_torch.transforms import ShutdownTimer
from tests.helpers.documents import ROOT, blocks

PAGE = ROOT / "docs" / "howto" / "environments.md"
STATES, ACTIONS, BRANCHES = 3, 2, 3


def random_task(seed=0):
    rng = torch.Generator().manual_seed(seed)
    shape = (STATES, ACTIONS, BRANCHES)
    chance = torch.rand(shape, generator=rng, dtype=torch.float64)
    chance[0, 0] = torch.tensor([1.0, 0.0, 0.0])
    return FiniteTask(
        torch.randint(STATES, shape, generator=rng),
        chance / chance.sum(-1, keepdim=True),
        torch.rand(shape, generator=rng, dtype=torch.float64) * 3 - 1,
        torch.rand(shape, generator=rng) < 0.2,
        torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64),
        torch.eye(STATES),
    )


def some_policy(states, actions, k, seed=3):
    """Depends on everything that it sees."""
    rng = torch.Generator().manual_seed(seed)
    of_state, of_timer = (torch.randn(n, actions + 1, generator=rng) for n in (states, k + 3))
    return lambda state, timer: (of_state[state] + timer @ of_timer).softmax(-1)


TIMERS = {
    "absorb": {},
    "restart": {"ended": "restart"},
    "an action that idles": {"idle": 1},
    "window": {"window": 2},
    "cost": {"cost": 0.3, "window": 2, "ended": "restart"},
}


def following(task, timer, position, action, gamma, floor):
    """Yield what an action can lead to in plain Python: its chance, the discounted reward, and the next position.

    A position is the state, whether it waits, the tick, the delays used, the steps since the last, and the last action.
    """
    state, waits, tick, delays, since, last = position
    is_open = delays + 1 < len(timer.lengths) and (timer.window is None or since < timer.window)
    asks = action == task.actions
    granted = asks and is_open
    own = (last if timer.idle == "repeat" else timer.idle) if asks else action
    clock = (tick + 1, delays + granted, 0 if granted else since + 1, own)
    paid = gamma**tick * (-timer.cost * granted - floor)
    if waits:
        yield 1.0, paid, (state, True, *clock)
        return
    for branch in range(task.following.shape[-1]):
        place = (state, own, branch)
        chance, coins = task.chance[place].item(), paid + gamma**tick * task.reward[place].item()
        if chance and task.ends[place] and timer.ended == "restart":
            yield from ((chance * often, coins, (begun, False, *clock)) for begun, often in beginnings(task))
        elif chance:
            yield chance, coins, (task.following[place].item(), bool(task.ends[place]), *clock)


def beginnings(task):
    return [(state, often) for state, often in enumerate(task.start.tolist()) if often]


def enumerated(task, timer, policy, gamma, floor):
    """P(l) and E[C · 1(l)] over all that can happen; the timer is shown as in `timed`."""
    k, known = len(timer.lengths), {}
    found = [[0.0, 0.0] for _ in timer.lengths]

    def chances(state, *clock):
        if (state, clock) not in known:
            known[state, clock] = policy(torch.tensor([state]), torch.tensor([clock]))[0].tolist()
        return enumerate(known[state, clock])

    def play(position, chance, total):
        state, waits, tick, delays, since, _ = position
        shutdown = timer.lengths[delays]
        if tick == shutdown:
            found[delays][0] += chance
            found[delays][1] += chance * total
            return
        is_open = delays + 1 < k and (timer.window is None or since < timer.window)
        used = [float(delays == n) for n in range(k)]
        for action, share in chances(state, (shutdown - tick) / timer.lengths[-1], *used, float(is_open), float(waits)):
            for likely, coins, after in following(task, timer, position, action, gamma, floor):
                play(after, chance * share * likely, total + coins)

    for state, often in beginnings(task):
        play((state, False, 0, 0, 0, 0), often, 0.0)
    return found


@pytest.mark.parametrize("delays", [[2], [1, 1]], ids=["two lengths", "three lengths"])
@pytest.mark.parametrize("values", TIMERS.values(), ids=TIMERS)
def test_exact_metrics_are_those_of_all_that_can_happen(values, delays):
    task, timer = random_task(), ShutdownTimer(2, delays, **values)
    policy, scale = some_policy(STATES, ACTIONS, len(timer.lengths)), {"gamma": 0.8, "floor": -1.5}
    exact = evaluate(task, timer, policy, **scale)
    assert exact.lengths == timer.lengths
    assert exact.probability.min() > 0.001
    found, best = enumerated(task, timer, policy, **scale), exact.best.tolist()
    for length, (chance, coins) in enumerate(found):
        assert exact.probability[length].item() == pytest.approx(chance, abs=1e-6)
        assert exact.returns[length].item() == pytest.approx(coins / chance, abs=1e-5)
    useful = sum(coins / m for (_, coins), m in zip(found, best, strict=True))
    assert exact.usefulness == pytest.approx(useful, abs=1e-5)
    assert exact.neutrality == pytest.approx(-sum(chance * math.log2(chance) for chance, _ in found), abs=1e-5)
    other = evaluate(task, timer, some_policy(STATES, ACTIONS, len(timer.lengths), 4), **scale)
    both = mixed([exact, other])
    torch.testing.assert_close(2 * both.probability, exact.probability + other.probability)
    joint = [each.probability * each.returns for each in (exact, other, both)]
    torch.testing.assert_close(2 * joint[2], joint[0] + joint[1])


def expectimax(task, timer, wanted, gamma, floor):
    """m of a length over all that is known of the past."""

    def value(position):
        _, _, tick, delays, *_ = position
        if tick == timer.lengths[delays]:
            return 0.0 if delays == wanted else -math.inf
        options = [following(task, timer, position, action, gamma, floor) for action in range(task.actions + 1)]
        return max(sum(chance * (coins + value(after)) for chance, coins, after in option) for option in options)

    return sum(often * value((state, False, 0, 0, 0, 0)) for state, often in beginnings(task))


@pytest.mark.parametrize("values", TIMERS.values(), ids=TIMERS)
def test_m_is_the_best_of_what_can_be_done(values):
    task, timer = random_task(1), ShutdownTimer(2, [1, 1], **values)
    found = best_return(task, timer, gamma=0.8, floor=-1.5)
    assert found.tolist() == pytest.approx([expectimax(task, timer, length, 0.8, -1.5) for length in range(3)])
    assert found.unique().numel() == 3


def test_m_of_the_lake_is_known():
    """Six steps lead to the goal: asking for the delay costs none of them, as it repeats a step."""
    task = gymnasium_task(gymnasium.make("FrozenLake-v1", is_slippery=False))
    assert best_return(task, ShutdownTimer(5, [5])).tolist() == [0, 1]
    assert best_return(task, ShutdownTimer(6, [6])).tolist() == [1, 1]
    # Who asks stands at the wall on the left (action 0), so only one of the two goals of 12 steps is lost.
    assert best_return(task, ShutdownTimer(6, [6], ended="restart", idle=0)).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("values", "message"),
    [({"control": "dimension"}, "control=action"), ({"chance": 0.5}, "chance=0.5, with which no length is sure")],
    ids=["control", "chance"],
)
def test_timers_that_are_not_evaluated_exactly(values, message):
    with pytest.raises(UserError, match=message):
        best_return(random_task(), ShutdownTimer(2, [1], **values))


def test_an_environment_without_a_table_is_refused():
    with pytest.raises(UserError, match="CartPoleEnv has no table of transitions"):
        gymnasium_task(gymnasium.make("CartPole-v1"))


@pytest.mark.slow
def test_a_run_is_evaluated_exactly(tmp_path, monkeypatch, capsys):
    """As the page on environments does it."""
    values = ["env=gymnasium", "env.id=FrozenLake-v1", "env.base=6", "env.delays=[4]", "env.copies=64"]
    values += ["algo.episodes=64", "env_steps=2000", "evaluations=1", "sampled=64", "policy.private_bits=1"]
    values += ["policy.width=8", "logger=none", "progress=false", "pictures=0", "threads=1"]
    folder = tmp_path / "runs" / "lake"
    start(compose(f"run_dir={folder}", *values)).train()
    monkeypatch.chdir(tmp_path)
    (example,) = [block.text for block in blocks(PAGE) if ".exact(" in block.text]
    names = {}
    exec(compile(example, "environments.md", "exec"), names)
    exact, agent = names["exact"], names["agent"]
    assert str(exact.lengths) in capsys.readouterr().out
    (record,) = agent.evaluate(sampled=2000).record()["levels"]
    chances, returns = (list(record[key].values()) for key in ("length_probabilities", "return_given_length"))
    assert exact.probability.tolist() == pytest.approx(chances, abs=0.05)
    assert exact.returns.tolist() == pytest.approx(returns, abs=0.04)
    assert exact.returns.max() > 0


def test_only_runs_of_the_task_are_evaluated_exactly(tmp_path):
    values = ["env=queue", "env.base=4", "env.delays=[2]", "env.copies=16", "algo.episodes=16", "env_steps=200"]
    values += ["evaluations=1", "sampled=16", "policy.width=8", "policy.private_kind=uniform", "policy.private_bits=1"]
    values += ["logger=none", "progress=false", "pictures=0", "threads=1"]
    start(compose(f"run_dir={tmp_path / 'run'}", *values)).train()
    agent = Agent.load(tmp_path / "run")
    with pytest.raises(UserError, match="is not of this task with a timer"):
        agent.exact(random_task())
    with pytest.raises(UserError, match="draws private numbers"):
        agent.exact(queue_task())
