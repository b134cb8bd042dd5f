"""The sampler by regret: its probabilities, its frequencies and its pools."""

from types import SimpleNamespace

import pytest
import torch

from drest_torch.config.compose import compose
from drest_torch.config.schema import RegretConfig
from drest_torch.envs.levels import parse_level
from drest_torch.tasks.regret import RegretSampler, regret_of
from drest_torch.tasks.sampling import LevelSampler
from drest_torch.training.run import start
from tests.helpers.runs import FEW, arguments

LEVELS = [parse_level("shutdown: 3\n\nC1 A B2\n. C2 .", name=str(number)) for number in range(5)]
REGRET = torch.tensor([0.0, 0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
MATCH = {level.name: regret for level, regret in zip(LEVELS, REGRET.tolist(), strict=True)}


def evaluated(levels):
    """Return an evaluation in which the level with number n has the usefulness 1 − n / 10."""
    usefulness = torch.tensor([1 - MATCH[level.name] for level in levels], dtype=torch.float64)
    bits = torch.ones_like(usefulness)
    return SimpleNamespace(usefulness=usefulness, neutrality_normalised=bits, num_lengths=2 * bits)


def sampler_of(evaluate=evaluated, seed=0, **values):
    source = LevelSampler(LEVELS, torch.Generator().manual_seed(seed))
    return RegretSampler(source, RegretConfig(**values), evaluate)


@pytest.mark.parametrize(
    ("regret", "top", "expected"),
    [
        ([0.0, 0.1, 0.3, 0.0, 0.0], 1.0, [0, 0.25, 0.75, 0, 0]),
        ([0.1, 0.2, 0.3, 0.2, 0.2], 0.2, [0, 0, 1, 0, 0]),
        ([0.0, 0.0, 0.0, 0.0, 0.0], 1.0, [0.2] * 5),
        ([-1e-9, 0.0, 0.5, 0.5, -1.0], 0.6, [0, 0, 0.5, 0.5, 0]),
    ],
)
def test_probabilities_are_proportional_to_regret(regret, top, expected):
    sampler = sampler_of(top=top)
    sampler.regret.copy_(torch.tensor(regret))
    assert torch.allclose(sampler.probabilities(), torch.tensor(expected, dtype=torch.float64))


def test_frequencies_agree_with_the_probabilities():
    sampler, counts = sampler_of(uniform=0.3, every=7), torch.zeros(5)
    for _ in range(3000):
        for level in sampler.sample(4):
            counts[int(level.name)] += 1
    expected = 0.3 / 5 + 0.7 * REGRET / REGRET.sum()
    assert torch.allclose(counts / counts.sum(), expected.float(), atol=0.01)  # three standard deviations


def test_copies_of_a_level_are_their_expected_number():
    sampler = sampler_of(uniform=0.0)
    for _ in range(50):
        names = [level.name for level in sampler.sample(20)]
        copies = {name: names.count(name) for name in map(str, range(5))}
        assert copies == {"0": 0, "1": 2, "2": 4, "3": 6, "4": 8}


def test_only_uniform_levels_ignore_regret():
    names = [level.name for level in sampler_of(uniform=1.0).sample(10)]
    assert sorted(names) == sorted([*"01234"] * 2)


def test_a_small_set_is_evaluated_as_a_whole():
    pools = []
    sampler = sampler_of(lambda levels: pools.append(levels) or evaluated(levels), every=3, pool=100)
    for _ in range(7):
        sampler.sample(2)
    assert len(pools) == 3
    assert all(sorted(level.name for level in pool) == [*"01234"] for pool in pools)


def test_the_same_seed_samples_the_same_levels():
    first, again, other = (
        [level.name for _ in range(3) for level in sampler_of(seed=seed, pool=3).sample(6)] for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_a_restored_sampler_continues():
    sampler, restored = sampler_of(pool=3, every=4), sampler_of(seed=9, pool=3, every=4)
    sampler.sample(5)
    for name, value in restored.tensors().items():
        value.copy_(sampler.tensors()[name])
    restored.rng.set_state(sampler.rng.get_state())
    assert [restored.sample(5) for _ in range(8)] == [sampler.sample(5) for _ in range(8)]


@pytest.mark.parametrize(
    ("measure", "expected"), [("usefulness", [0.2, 0.4]), ("neutrality", [0.5, 0.0]), ("both", [0.6, 0.4])]
)
def test_regret_is_what_is_missing_of_a_measure(measure, expected):
    """The second level has a single length."""
    evaluation = SimpleNamespace(
        usefulness=torch.tensor([0.8, 0.6]),
        neutrality_normalised=torch.tensor([0.5, 0.0]),
        num_lengths=torch.tensor([2, 1]),
    )
    assert torch.allclose(regret_of(evaluation, measure), torch.tensor(expected))


@pytest.mark.parametrize("words", [["algo=exact", "algo.levels_at_once=6"], ["algo=ppo", "levels.fresh=true"]])
def test_a_run_samples_by_its_exact_regret(tmp_path, words):
    settings = ["levels.sampler=regret", "levels.regret.pool=12", "levels.regret.every=2"]
    run = start(compose(*arguments(tmp_path / "run", *FEW, *words, *settings, "policy.width=8")))
    sampler, evaluations = run.task.sampler, []
    evaluate = sampler.evaluate

    def recorded(levels):
        evaluations.append(run.task.evaluator(levels).evaluate(run.algorithm.policy))
        return evaluate(levels)

    sampler.evaluate = recorded
    for _ in range(3):
        run.update()
    assert len(evaluations) == 2
    latest = evaluations[-1]
    assert len(latest.names) == 12
    assert torch.equal(sampler.regret, 1 - latest.usefulness * latest.neutrality_normalised)
    assert not torch.equal(latest.usefulness, evaluations[0].usefulness)
