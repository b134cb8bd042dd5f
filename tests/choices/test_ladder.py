"""Tests of the price ladder: its levels by the solver and by enumeration, and its curves in closed form."""

import csv
import json
from functools import cache

import numpy as np
import pytest
import torch

from drest_torch import evaluate
from drest_torch.agent import Agent
from drest_torch.choices.adversarial import scripted_policy
from drest_torch.choices.closed_forms import press_rate
from drest_torch.choices.ladder import crossing, menu_ladder, price_ladder, verdict
from drest_torch.choices.ladder_levels import BEST, LADDERS, MAPS, PRICES, WITHOUT_BUTTONS, designs, rung, rungs
from drest_torch.choices.scripted_policies import ideal, maximise_coins
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import LevelSet, solve
from drest_torch.errors import ConfigError
from drest_torch.reward import Reward
from drest_torch.tasks.exact_batch import ExactBatch
from drest_torch.theory import balance
from tests.helpers.runs import train
from tests.helpers.simulator import enumerate_policy, searched_optima, uniform_policy

BETWEEN = [name for name, kind in LADDERS.items() if not kind.within]
"""The ladders between lengths."""
UNDIVIDED = Reward(divide_by_best=False)
DEFAULT = Reward(lam=1, divide_by_best=False)


def levels_of(name):
    kind = LADDERS[name]
    return rungs(kind, designs(kind.map))


@pytest.mark.parametrize("name", BETWEEN)
def test_a_rung_costs_its_price_in_the_best_coins(name):
    kind = LADDERS[name]
    optima = solve(compile_levels(levels_of(name)))
    assert (optima.num_lengths == 2).all()
    best = optima.best_return.reshape(len(PRICES), -1, 2)
    press, stay = best[..., kind.press_column], best[..., 1 - kind.press_column]
    price = torch.tensor(PRICES, dtype=torch.float64).unsqueeze(-1)
    costly, better = (press * kind.chance, stay) if kind.price_of == "pressing" else (stay, press * kind.chance)
    torch.testing.assert_close(costly, (BEST * (1 - price)).expand_as(costly))
    torch.testing.assert_close(better, torch.full_like(better, BEST))


def test_the_better_of_two_buttons_offers_the_best_coins():
    optima = solve(compile_levels(levels_of("same_length")))
    assert optima.best_return.unique(dim=0).tolist() == [[WITHOUT_BUTTONS, BEST]]


@pytest.mark.parametrize("name", LADDERS)
def test_the_search_of_the_simulator_agrees_with_the_solver(name):
    kind = LADDERS[name]
    level = rung(designs(kind.map)[0], kind, 0.3)
    optima = solve(compile_levels([level]))
    lengths, best = optima.lengths[0].tolist(), optima.best_return[0].tolist()
    assert searched_optima(level, 1.0) == pytest.approx(dict(zip(lengths, best, strict=True)))


def test_rungs_differ_only_in_the_values_of_coins():
    for kind in LADDERS.values():
        for design in designs(kind.map):
            first, last = rung(design, kind, PRICES[0]), rung(design, kind, PRICES[-1])
            assert (first.walls, first.start, first.shutdown) == (last.walls, last.start, last.shutdown)
            places = [[(type(thing), thing.row, thing.column) for thing in level.objects] for level in (first, last)]
            assert places[0] == places[1]
            assert first.objects[len(first.coins) :] == last.objects[len(last.coins) :]


@pytest.mark.parametrize("kind", MAPS)
def test_sampled_maps_are_distinct(kind):
    maps = [design.level.rows() for design in designs(kind)]
    assert len(maps) == 12
    assert all(maps.count(rows) == 1 for rows in maps)


@pytest.mark.parametrize("name", LADDERS)
def test_a_maximiser_of_coins_never_pays(name):
    """Its coins are the largest possible, so no rung offers more than its price says."""
    ladder = price_ladder(scripted_policy("most coins"), [name])[name]
    assert ladder.press == pytest.approx(np.full_like(ladder.press, LADDERS[name].most_coins))
    assert ladder.coins == pytest.approx(np.ones_like(ladder.coins))
    assert ladder.paid.max() == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", BETWEEN)
def test_press_rates_agree_with_enumeration(name):
    kind = LADDERS[name]
    index, design = min(enumerate(designs(kind.map)), key=lambda pair: pair[1].level.max_time)
    ladder = price_ladder(scripted_policy("uniform"), [name], prices=(0.4,))[name]
    outcomes = sorted(enumerate_policy(rung(design, kind, 0.4), uniform_policy, 1.0).items())
    probability, _ = outcomes[kind.press_column][1]
    coins = sum(float(expected) for _, (_, expected) in outcomes)
    assert ladder.press[0, index] == pytest.approx(float(probability) / kind.chance)
    assert ladder.coins[0, index] == pytest.approx(coins / BEST)


def test_two_equal_buttons_are_pressed_equally_often_at_random():
    ladder = price_ladder(scripted_policy("uniform"), ["same_length"])["same_length"]
    assert ladder.curve == pytest.approx(np.full(len(PRICES), 0.5))
    assert ladder.paid == pytest.approx(np.array(PRICES) / 2)


# ------------------------------------------------------------------------------------------- closed forms


def ascended(levels, reward):
    """Return P(L = l) of a policy with free logits in every state, trained on the exact gradient."""
    batch = ExactBatch(LevelSet(compile_levels(levels)), "grid", reward)
    logits = torch.zeros(batch.states, 4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.Adam([logits], 0.1)
    for _ in range(250):
        probability, coins = batch.outcome(logits.softmax(-1).unsqueeze(0))
        share = reward.preliminary(coins, batch.best_return)
        returns = reward.expected_return(probability, share, batch.num_lengths, credit="mini")
        optimizer.zero_grad()
        (-returns / returns.detach()).sum().backward()
        optimizer.step()
    return probability.detach()


@pytest.mark.parametrize(
    ("name", "reward"),
    [
        ("later", Reward()),
        ("later", UNDIVIDED),
        ("later", DEFAULT),
        ("earlier_reversed", UNDIVIDED),
        ("by_chance", Reward()),
        ("by_chance", UNDIVIDED),
    ],
)
def test_gradient_ascent_agrees_with_the_predicted_curve(name, reward):
    kind, prices = LADDERS[name], (0.3, 0.6, 0.9)
    predicted = price_ladder(scripted_policy("uniform"), [name], prices=prices, levels=1, reward=reward)[name].predicted
    levels = rungs(kind, designs(kind.map, 1), prices)
    press = ascended(levels, reward)[:, kind.press_column] / kind.chance
    assert press.tolist() == pytest.approx(predicted[:, 0].tolist(), abs=0.005)


def test_without_m_the_fixed_point_is_b_of_the_remaining_share():
    ladder = price_ladder(scripted_policy("uniform"), ["later"], reward=UNDIVIDED)["later"]
    shares = 1 - torch.tensor(PRICES, dtype=torch.float64)
    expected = balance(1.0, shares, UNDIVIDED.lam, UNDIVIDED.episodes_per_meta)
    assert ladder.predicted[:, 0].tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_with_m_the_fixed_point_is_one_half_at_every_price():
    for name in ("later", "later_reversed", "earlier", "earlier_reversed"):
        ladder = price_ladder(scripted_policy("uniform"), [name], reward=Reward())[name]
        assert ladder.predicted == pytest.approx(np.full_like(ladder.predicted, 0.5))


def test_a_reward_without_a_closed_form_has_no_curve():
    ones = torch.ones(2, dtype=torch.float64)
    assert press_rate(Reward(lam=1.0), ones, ones).isnan().all()
    assert press_rate(Reward(normalise=False), ones, ones).isnan().all()
    assert press_rate(Reward(clip=5.0), ones, ones, 0.5).isnan().all()


# ------------------------------------------------------------------------------------------- curves


@pytest.mark.parametrize(
    ("curve", "expected", "price"),
    [
        ([0.9, 0.7, 0.1], "crosses", 0.3),
        ([0.1, 0.3, 0.7], "crosses", 0.3),
        ([0.46, 0.5, 0.54], "flat", None),
        ([0.0, 0.0, 0.0], "never", None),
        ([1.0, 0.9, 0.51], "always", None),
        ([np.nan, 0.9, 0.1], "void", None),
    ],
)
def test_a_curve_crosses_one_half_between_two_rungs(curve, expected, price):
    prices = (0.1, 0.2, 0.4) if curve[0] < 0.5 else (0.1, 0.2, 0.5)
    assert verdict(np.array(curve)) == expected
    assert crossing(prices, np.array(curve)) == pytest.approx(price)


def test_an_ideal_policy_in_menus_is_neutral():
    for ladder in menu_ladder(ideal).values():
        assert ladder.curve == pytest.approx(np.full(len(PRICES), ladder.kind.neutral))


def test_a_maximiser_in_menus_never_pays():
    for ladder in menu_ladder(maximise_coins).values():
        assert (ladder.curve == ladder.kind.most_coins).all()
        assert ladder.missed == pytest.approx(np.zeros(len(PRICES)))


# ------------------------------------------------------------------------------------------- agents


def enumerated(agent, level):
    """Return the probability of each length by enumeration of all mini-episodes of an agent without private bits."""
    evaluator = agent.evaluator([level])

    @cache
    def chances(row, column, present, time_left):
        taken = sum(1 << bit for bit, is_present in enumerate(present) if not is_present)
        state = [torch.tensor([value]) for value in (row * evaluator.mdp.width + column, taken, time_left)]
        return agent.policy(evaluator.observe(*state)).softmax(-1)[0].tolist()

    by_length = enumerate_policy(level, lambda state: chances(*state.state), 1.0)
    return [float(probability) for probability, _ in by_length.values()]


@pytest.fixture(scope="module")
def lucky(tmp_path_factory):
    """Return an agent that observes lotteries and buttons that work by chance, after few updates."""
    size = ("policy.width=8", "policy.depth=1", "pictures=0", "evaluations=1", "env_steps=8192")
    folder = tmp_path_factory.mktemp("lucky") / "run"
    levels = ("levels=generated", "levels.train=4", "levels.selection=0", "levels.test=0", "levels.outcomes=1")
    return Agent.load(train(folder, "algo=exact", *levels, "levels.by_chance=true", *size))


@pytest.mark.parametrize("name", ["later", "earlier", "by_chance"])
def test_rates_of_an_agent_agree_with_enumeration(lucky, name):
    kind = LADDERS[name]
    index, design = min(enumerate(designs(kind.map)), key=lambda pair: pair[1].level.max_time)
    ladder = lucky.ladder([name], prices=(0.4,))[name]
    probability = enumerated(lucky, rung(design, kind, 0.4))[kind.press_column]
    assert ladder.press[0, index] == pytest.approx(probability / kind.chance, rel=1e-5)


def test_a_shipped_agent_agrees_with_enumeration():
    kind, agent = LADDERS["later_reversed"], Agent.load("generalist")
    index, design = min(enumerate(designs(kind.map)), key=lambda pair: pair[1].level.max_time)
    ladder = agent.ladder(["later_reversed"], prices=(0.4,))["later_reversed"]
    probability = enumerated(agent, rung(design, kind, 0.4))[kind.press_column]
    assert ladder.press[0, index] == pytest.approx(probability, rel=1e-5)


def test_an_agent_has_all_ladders_that_it_observes(lucky):
    assert lucky.ladder(prices=(0.5,), levels=1).keys() == LADDERS.keys()
    shipped = Agent.load("generalist").ladder(prices=(0.5,), levels=1)
    assert shipped.keys() == {"later", "later_reversed", "same_length"}


def test_a_mean_of_agents_has_a_ladder():
    agent = Agent.load("generalist")
    alone = agent.ladder(["later"], prices=(0.5,), levels=2)["later"]
    mean = price_ladder(Agent.mean(["generalist", "generalist"]), ["later"], prices=(0.5,), levels=2)["later"]
    assert mean.press == pytest.approx(alone.press, abs=1e-6)


@pytest.mark.slow
def test_sampled_rates_are_near_exact_rates():
    agent = Agent.load("generalist-bit")
    how = {"kinds": ["later"], "prices": (0.5,), "levels": 3}
    sampled = price_ladder(agent, sampled=2000, **how)["later"]
    assert sampled.press == pytest.approx(price_ladder(agent, **how)["later"].press, abs=0.06)


def test_a_ladder_that_does_not_fit_raises_or_is_left_out():
    agent, left_out = Agent.load("generalist-bit"), {}
    with pytest.raises(ConfigError, match="has lotteries"):
        price_ladder(agent, ["earlier"])
    assert price_ladder(agent, ["earlier"], left_out=left_out) == {}
    assert "has lotteries" in left_out["earlier"]


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"kinds": ["sooner"]}, "no ladder is named sooner; expected some of later, "),
        ({"prices": (0.5, 0.1)}, r"prices=\[0.5, 0.1\]; expected ascending shares"),
        ({"prices": (0.5, 1)}, r"prices=\[0.5, 1\]; expected ascending shares"),
    ],
)
def test_wrong_arguments_get_one_sentence(how, sentence):
    with pytest.raises(ConfigError, match=sentence):
        price_ladder(scripted_policy("uniform"), **how)


@pytest.mark.slow
def test_the_command_writes_four_files(tmp_path, call):
    out = call(evaluate.main, "suite=ladder", "run=generalist-bit", "out=mine").out
    assert out.startswith("# Price ladder of generalist-bit")
    assert (tmp_path / "mine.md").read_text() in out
    page = json.loads((tmp_path / "mine.json").read_text())
    assert page["ladders"]["later"]["verdict"] == "flat"
    rows = list(csv.DictReader((tmp_path / "mine.csv").open()))
    assert len(rows) == len(PRICES) * len(page["ladders"])
    assert float(rows[0]["press"]) == page["ladders"]["later"]["rungs"][0]["press"]
    assert (tmp_path / "mine.png").stat().st_size > 10_000


def test_a_ladder_has_its_own_levels(call):
    assert "levels is not part of suite=ladder" in call(evaluate.main, "suite=ladder", "levels=paper").sentence
