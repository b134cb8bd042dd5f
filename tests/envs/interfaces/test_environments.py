"""Environments other than gridworlds: distributions of actions, batches, evaluation, and whole runs."""

import json
import math
import re
from itertools import pairwise
from unittest.mock import Mock

import pytest
import torch
from tensordict import TensorDict
from torch.distributions import AffineTransform, Categorical, Normal, TanhTransform, TransformedDistribution
from torchrl.envs import Compose, TransformedEnv

from drest_torch.algos.distributions import OneOf, box, multi_categorical, one_of
from drest_torch.config.compose import compose
from drest_torch.errors import UserError
from drest_torch.evaluation.environment_evaluator import EnvironmentEvaluator, usefulness_warning
from drest_torch.play.rows import RowEnvironment
from drest_torch.play.third_party import evaluation_environment, training_environment
from drest_torch.reward import Reward
from drest_torch.tasks.environments import keeps_state
from drest_torch.training.run import resume, start
from drest_torch.transforms import BestReturn, DReSTReward, Flatten, MetaEpisodes, ShutdownTimer, Squash
from drest_torch.transforms.mini_episodes import played
from drest_torch.transforms.on_batches import Advance
from tests.helpers.counting import ACTIONS, Broken, Counting, Growing

HELPERS = "tests.helpers.counting"


@pytest.fixture(autouse=True)
def _seeded():
    """Seed torch's generator, which samples the actions."""
    torch.manual_seed(0)


@pytest.mark.parametrize("sizes", [[4], [4, 3, 2]], ids=["one", "several"])
def test_choices_are_torchs_categoricals(sizes):
    kind = one_of(4) if len(sizes) == 1 else multi_categorical(sizes)
    logits = torch.randn(50, sum(sizes)) * 2
    ours, theirs = kind.of(logits), [Categorical(logits=part) for part in logits.split(sizes, -1)]
    action = ours.sample()
    pairs = zip(theirs, action.reshape(50, -1).unbind(-1), strict=True)
    torch.testing.assert_close(ours.log_prob(action), sum(dist.log_prob(chosen) for dist, chosen in pairs))
    torch.testing.assert_close(ours.entropy(), sum(dist.entropy() for dist in theirs))
    likeliest = torch.stack([dist.probs.argmax(-1) for dist in theirs], -1)
    assert torch.equal(ours.deterministic_sample.reshape(50, -1), likeliest)
    # Choices are independent of each other.
    combined = torch.cartesian_prod(*map(torch.arange, sizes)).reshape(-1, len(sizes))
    joint = math.prod(dist.probs[0, chosen] for dist, chosen in zip(theirs, combined.unbind(-1), strict=True))
    many = kind.of(logits[:1].expand(20_000, -1)).sample().reshape(20_000, 1, -1)
    share = (many == combined).all(-1).float().mean(0)
    assert ((share - joint).abs() <= 4 * (joint * (1 - joint) / 20_000).sqrt()).all()


def test_one_of_n_supports_one_hot_actions():
    logits = torch.randn(50, 4) * 3
    one_hot, normalised = OneOf(logits, one_hot=True), OneOf(logits.log_softmax(-1), normalised=True)
    chosen = one_hot.sample()
    assert chosen.dtype == torch.bool
    assert chosen.sum(-1).eq(1).all()
    index = chosen.long().argmax(-1)
    expected = Categorical(logits=logits).log_prob(index)
    torch.testing.assert_close(one_hot.log_prob(chosen), expected)
    torch.testing.assert_close(normalised.log_prob(index), expected)


LOW, HIGH = torch.tensor([-1.0, 0.5, -1.0]), torch.tensor([3.0, 0.75, 1.0])
BOX = box(LOW, HIGH)


def squashed(action):
    """Return the actions for the environment; the transform works before its specs are made."""
    return Squash(LOW, HIGH).inv(TensorDict({"action": action}, [len(action)]))["action"]


def test_a_squashed_normal_is_torchs():
    mean, log_spread = torch.randn(60, 3), torch.rand(60, 3) * 2.5 - 2
    parts = [TanhTransform(cache_size=1), AffineTransform((LOW + HIGH) / 2, (HIGH - LOW) / 2)]
    outputs = torch.cat((mean, log_spread), -1)
    ours, theirs = BOX.of(outputs), TransformedDistribution(Normal(mean, log_spread.exp()), parts)
    action = mean + (torch.rand(60, 3) - 0.5)
    expected = theirs.log_prob(squashed(action)).sum(-1)
    torch.testing.assert_close(ours.log_prob(action), expected, atol=1e-3, rtol=1e-3)
    assert ours.log_prob(torch.full((60, 3), 40.0)).isfinite().all()  # where tanh is 1
    assert torch.equal(ours.deterministic_sample, mean)
    # Its entropy is that of samples.
    many = BOX.of(outputs[:6].repeat_interleave(20_000, 0))
    surprise = -many.log_prob(many.sample()).reshape(6, -1)
    error = surprise.std(-1) / math.sqrt(20_000)
    assert ((ours.entropy()[:6] - surprise.mean(-1)).abs() < 4 * error + 0.02).all()


def test_samples_of_a_squashed_normal_are_within_its_bounds():
    outputs = torch.tensor([[mean] * 3 + [5.0] * 3 for mean in (-9.0, 9.0)]).repeat(4000, 1)
    inside = squashed(BOX.of(outputs).sample())
    assert ((inside >= LOW) & (inside <= HIGH)).all()


@pytest.mark.parametrize("ask", [0.007, 0.2, 0.9])
def test_the_offset_gives_the_probability_of_a_request(ask):
    kind = one_of(5)
    assert kind.offset(ask).softmax(-1)[-1].item() == pytest.approx(ask)
    assert kind.offset(ask)[:-1].tolist() == [0] * 4
    choices = multi_categorical([4, 3, 2]).of(multi_categorical([4, 3, 2]).offset(ask).expand(40_000, -1)).sample()
    sampled = squashed(BOX.of(BOX.offset(ask).expand(40_000, -1)).sample())
    for requests in (choices[:, -1] == 1, sampled[:, -1] > 0):
        assert abs(requests.float().mean().item() - ask) < 4 * math.sqrt(ask * (1 - ask) / 40_000)
    even = choices[:, 0].bincount(minlength=4) / 40_000
    assert ((even - 0.25).abs() < 4 * math.sqrt(0.1875 / 40_000)).all()
    assert not kind.offset(None).any()
    assert not BOX.offset(None)[:3].any()


def timed_environment(base, timer, best, rounds=1, drest=None):
    """Return an environment with mini-episodes of two lengths, and ``drest`` in the environment if there is one."""
    meta = MetaEpisodes(rounds, together=True)
    env = TransformedEnv(base, Compose(timer, best, meta, *([drest] if drest else [])))
    flatten = Flatten(env, ["observation", "timer"])
    env.append_transform(flatten)
    return RowEnvironment(env, meta, "seen", one_of(ACTIONS + 1), 2, drest=drest, flatten=flatten)


def collected(environment, seed=0):
    return environment.collector(environment.uniform_actor()).collect(torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("scaled", [False, True])
def test_an_advance_keeps_the_return_of_a_mini_episode(scaled):
    """The return of each mini-episode is unchanged, or scaled."""
    reward = Reward(0.8, counting="sequential", episodes_per_meta=5)
    drest = DReSTReward.from_reward(reward, num_lengths=2, num_lengths_key=None)
    timer, best = ShutdownTimer(3, [2]), BestReturn(2, fixed=[6.0, 15.0])
    batch = collected(timed_environment(Counting((6,)), timer, best, 5, drest))
    advanced = Advance(drest, lambda: 2.5, scaled=scaled)(batch.clone())
    paid, raw, rewards = batch["next", "reward"], batch["next", "reward_raw"], advanced["next", "reward"]
    for slot, ended in enumerate(batch["next", "mini_done"].squeeze(-1)):
        ends = (1 + ended.nonzero().flatten()).tolist()
        for first, last in pairwise([0, *ends]):
            expected = paid[slot, last - 1].item() / (2.5 if scaled else 1)
            assert rewards[slot, first:last].sum().item() == pytest.approx(expected, abs=1e-5)
            assert torch.allclose(rewards[slot, first : last - 1], raw[slot, first : last - 1] / 2.5)


@pytest.mark.parametrize("gamma", [1.0, 0.9])
def test_a_timer_that_skips_keeps_lengths_of_mini_episodes(gamma):
    """Lengths and returns are the same with and without the steps of an ended environment."""
    reads = DReSTReward(num_lengths=2, num_lengths_key=None, divide_by_best=False)
    results = {}
    for skip in (False, True):
        timer, best = ShutdownTimer(4, [4], window=2, skip=skip), BestReturn(2, gamma=gamma, floor=-1.0)
        batch = collected(timed_environment(Counting((64,), 3), timer, best), seed=1)
        episodes = reads.mini_episodes(batch)
        first = batch["action"][:, :2]  # with other steps later, other actions are sampled
        discounts = gamma ** torch.arange(batch.shape[1])
        results[skip] = batch.shape[1], best.best, (batch["next", "reward"].squeeze(-1) * discounts).sum(1)
        assert (episodes.length[:, 0] == (first == ACTIONS).any(1).long()).all()
    assert results[True][0] < results[False][0] == 8
    assert torch.allclose(results[True][1], results[False][1])
    assert torch.allclose(results[True][2], results[False][2])


SMALL = [
    *("env.copies=16", "algo.episodes=32", "env_steps=1200", "evaluations=3", "sampled=40", "threads=1"),
    *("policy.width=8", "policy.depth=1", "logger=none", "progress=false", "pictures=0"),
]
CARTPOLE = ["env=cartpole", "env.base=8", "env.delays=[8]", *SMALL]


def configured(folder, *overrides, base=CARTPOLE):
    return compose(f"run_dir={folder}", *base, *overrides)


def torchrl_env(factory, *overrides):
    return ["env=torchrl", f"env.factory={HELPERS}:{factory}", *SMALL, *overrides]


def evaluator(folder, *overrides, base=CARTPOLE, mini_episodes=40, seed=0, best=((1.0, 1.0),)):
    environment = evaluation_environment(configured(folder, *overrides, base=base), Reward(), mini_episodes)
    values = {"mini_episodes": mini_episodes, "reward": Reward(), "seed": seed}
    return EnvironmentEvaluator(environment, torch.tensor(best), name="it", **values)


@pytest.mark.parametrize("floor", [0, -1])
def test_training_skips_steps_without_effect(tmp_path, floor):
    """The environment ends after 5 steps, and a delay can be requested only in the first 2."""
    base = torchrl_env("boxes", "env.base=20", "env.delays=[20]", "env.window=2", f"env.floor={floor}", "env.copies=16")
    cfg = configured(tmp_path, "algo.episodes=16", base=base)
    environment = training_environment(cfg, Reward(counting="averaged"), with_critic=True)
    assert played(collected(environment)).sum() == 16 * 5


@pytest.mark.slow
def test_an_evaluation_does_not_prefer_short_mini_episodes(tmp_path):
    """Copies that request a delay end later, and all started mini-episodes count."""
    lengths, base = [], torchrl_env("forty_slots", "env.base=1", "env.delays=[30]", "env.copies=40")
    for seed in range(15):
        ready = evaluator(tmp_path, base=base, mini_episodes=60, seed=seed)
        ready.environment.request_probability = 0.5
        _, episodes = ready._play(ready.environment.uniform_actor())
        length, coins = episodes.length, episodes.coins
        lengths.append(length)
        assert len(length) == 80
        assert ((coins < 5) == (length == 0)).all()
    share = torch.cat(lengths).float().mean().item()
    assert abs(share - 0.5) < 4 * math.sqrt(0.25 / 1200)


def test_an_evaluation_plays_whole_meta_episodes(tmp_path):
    """Eight slots with meta-episodes of four mini-episodes play 32 at a time, twice."""
    results = evaluator(tmp_path, base=torchrl_env("worlds", "env.base=null", "env.copies=8")).evaluate_uniform()
    assert results.mini_episodes == 64


def test_an_evaluation_plays_each_of_many_levels_once(tmp_path):
    results = evaluator(tmp_path, "env.levels=64", best=[[1.0, 1.0]] * 64).evaluate_uniform()
    assert results.mini_episodes == 1
    assert (results.usefulness > 0).all()


def test_a_level_without_m_uses_the_largest_return(tmp_path):
    results = evaluator(tmp_path, "env.levels=2", mini_episodes=400, best=[[8.0, 16.0], [0.0, 0.0]]).evaluate_uniform()
    assert results.best.tolist() == [[8, 16], [8, 16]]
    assert abs(results.usefulness[0] - results.usefulness[1]) < 0.1 < results.usefulness[0] < 1


@pytest.mark.parametrize("fixed", [None, [1, 1]])
def test_returns_above_m_give_a_warning_if_m_is_fixed(fixed, tmp_path):
    """A fixed m(l) is a mean, which single returns exceed; a largest return is an upper bound."""
    best = f"env.best={json.dumps(fixed)}".replace(" ", "")
    base = torchrl_env("forty_slots", "env.base=2", "env.delays=[2]", "env.copies=40", best)
    ready = evaluator(tmp_path, base=base, best=[[0.5, 0.5]])
    results = ready.evaluate_uniform()
    if fixed is None:
        assert results.usefulness == 1
        assert usefulness_warning(results, "it") is None
    else:
        assert results.usefulness > 2
        assert re.search(
            r"usefulness \d.* of it is above 1: .*raise the numbers of env.best", usefulness_warning(results, "it")
        )
    ready.best.fill_(100.0)
    enough = ready.evaluate_uniform()
    assert usefulness_warning(enough, "it") is None
    enough.outcome.coins.zero_()
    assert "every mini-episode of it has a return of 0" in usefulness_warning(enough, "it")


def test_only_vectors_besides_the_timer_are_standardised():
    env = TransformedEnv(Counting((2,)), ShutdownTimer(3))
    flatten = Flatten(env, ["observation", "timer"])
    assert flatten.shape == (6,)
    rows = torch.randn(500, 6) * 7 + 5
    rows[:, 1] = 3.0  # it never changes
    flatten.measure(rows)
    td = env.reset()
    td["observation"], timer = rows[:2, :2], td["timer"]
    seen = flatten.standardised(flatten.rows(td))
    torch.testing.assert_close(seen[:, 0], (rows[:2, 0] - rows[:, 0].mean()) / rows[:, 0].std())
    assert not seen[:, 1].any()
    assert torch.equal(seen[:, 2:], timer)
    td["observation"] = torch.full((2, 2), 1e6)
    assert flatten.standardised(flatten.rows(td))[:, :2].tolist() == [[10.0, 10.0]] * 2


def test_an_invalid_observation_is_refused_by_name():
    env = TransformedEnv(Counting((2,), levels=True), ShutdownTimer(3))
    flatten = Flatten(env, ["level", "observation", "timer"])
    td = env.reset()
    assert flatten.rows(td).isfinite().all()
    with pytest.raises(UserError, match=r"Counting shows NaN or infinity in 'observation'; mend .* env.observed"):
        flatten.rows(td.set("observation", torch.tensor([[0, 0], [math.nan, 0]])))
    for width in (1, 4):  # a small one would be broadcast to the policy's inputs
        with pytest.raises(UserError, match=r"Counting shows 'observation' of shape .*, but declares \(2, 2\)"):
            flatten.rows(td.set("observation", torch.ones(2, width)))


def test_the_error_of_an_environment_has_its_place():
    environment = timed_environment(Broken((2,)), ShutdownTimer(3, [2]), BestReturn(2))
    with pytest.raises(UserError, match=r"^Broken failed with KeyError: 'no motor' \(counting.py, line \d+\)$"):
        collected(environment)


@pytest.mark.parametrize(("kind", "keeps"), [(Counting, False), (Growing, True)])
def test_state_across_resets_is_detected(kind, keeps):
    assert keeps_state(TransformedEnv(kind((2,)), ShutdownTimer(3)), 0) is keeps


def test_a_predicate_of_a_module_requests_delays(tmp_path):
    predicate = f"env.control={HELPERS}:last_count_is_two"
    run = start(configured(tmp_path / "run", base=torchrl_env("counting", "env.base=3", "env.delays=[4]", predicate)))
    (record,) = run.task.last.evaluate_uniform().records()
    assert record["length_probabilities"] == {"3": 0, "7": 1}


@pytest.mark.slow
def test_a_failing_environment_ends_the_run_with_a_remedy(tmp_path, monkeypatch):
    run = start(configured(tmp_path / "run"))
    fail = Mock(side_effect=UserError("CartPole-v1: worker 1 has ended"))
    monkeypatch.setattr(run.algorithm.collector, "collect", fail)
    with pytest.raises(UserError, match=r"worker 1 has ended; then go on: .* resume="):
        run.train()
    assert resume(tmp_path / "run").train() is not None
