"""The study of wrong goals: what is paid, what agents are shown, features of coins, and what the report says."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drest_torch.agent import Agent
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import FAINT, make_observation
from drest_torch.envs.exact.level_set import VALUES, LevelSet, PaidCoins
from drest_torch.envs.exact.propagator import Reachable
from drest_torch.envs.generation.stream import GeneratorConfig, generate
from drest_torch.envs.levels import Coin, Level, parse_level, world
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job, Result
from drest_torch.studies.misspecified import features, runs, study
from drest_torch.studies.misspecified.analysis import Kind, Row, ratio
from drest_torch.studies.misspecified.worlds import CLIMB, climb
from drest_torch.theory import balance
from drest_torch.training.run import start
from tests.helpers.runs import QUIET, configured
from tests.helpers.simulator import Simulator, exhaustive_optima, random_level
from tests.helpers.studies import composed, composed_study, publish

INSTEAD = {"inverse": lambda value: 1 / value, "count": lambda value: 1.0, "capped": lambda value: min(value, 2.0)}
SMALL = GeneratorConfig(height=3, width=4, walls=(0, 3), coins=2, coin_values=(1, 9), shutdown=(2, 3), delay=(1, 2))


def with_coins(level: Level, value) -> Level:
    things = (replace(thing, value=value(thing)) if isinstance(thing, Coin) else thing for thing in level.objects)
    return replace(level, objects=tuple(things))


# ------------------------------------------------------------------------------------- what is paid


@pytest.mark.parametrize("pays", INSTEAD)
def test_m_of_the_paid_coins_is_that_of_a_search_through_all_trajectories(pays):
    rng = random.Random(3)
    for _ in range(6):
        level = random_level(rng, max_ticks=5)
        paid = exhaustive_optima(with_coins(level, lambda coin: INSTEAD[pays](coin.value)), 0.9)
        for best_of, best in (("paid", paid), ("actual", exhaustive_optima(level, 0.9))):
            found = PaidCoins(pays, best_of).optima(LevelSet(compile_levels([level])), 0.9)
            k = int(found.num_lengths[0])
            of = dict(zip(found.lengths[0, :k].tolist(), found.best_return[0, :k].tolist(), strict=True))
            assert of == pytest.approx(best)


def test_actual_coins_are_paid_as_they_are():
    mdp = compile_levels([world("example")])
    assert PaidCoins().paid(mdp) is mdp


def test_the_closed_form_is_where_exact_gradients_end():
    reward = {"lam": 0.9, "gamma": 1.0, "episodes_per_meta": 64}
    worlds = ["fewer_for_longer", "around_the_corner"]
    expected = {
        ("inverse", "actual"): (6, 0.5),
        ("count", "actual"): (3, 0.5),
    }
    for (pays, best_of), ratios in expected.items():
        spec = {"worlds": worlds, "pays": pays, "best_of": best_of, "reward": reward, "lr": 0.1, "updates": 250}
        rows = Row.each(Job("climb", CLIMB, spec), climb(spec, Path()))
        assert [row.x for row in rows] == pytest.approx(ratios)
        for row, x in zip(rows, ratios, strict=True):
            assert row.predicted == pytest.approx(balance(1.0, float(x), 0.9, 64).item())
            assert row.found == pytest.approx(row.predicted, abs=0.002)
            assert row.proxy > 0.99
    assert rows[0].usefulness < 0.97  # both coins of the shorter length count as one


@pytest.mark.parametrize("algo", ["exact", "ppo", "tabular"])
def test_training_pays_other_coins_and_evaluation_does_not(algo, tmp_path):
    own = ["algo.episodes=64"] if algo == "ppo" else []
    cfg = configured(
        tmp_path, f"algo={algo}", "levels=example", "reward.pays=count", "reward.best_of=actual", *own, *QUIET
    )
    run = start(cfg)
    if algo == "exact":
        batch = run.updater.levels.draw()
        assert batch.best_return.tolist() == [[2, 3]]
        uniform = torch.full((1, batch.states, 4), 0.25)
        paid = batch.outcome(uniform)[1]
        level = with_coins(world("example"), lambda coin: 1.0)
        assert paid.flatten().tolist() == pytest.approx(coins_of_uniform(level))
    elif algo == "ppo":
        worlds = run.updater.environment
        mdp = worlds.base.mdp
        assert set(mdp.coin.tolist()) == {0.0, 1.0}
        start_state = mdp.states.number(mdp.start, torch.zeros(1).long(), torch.tensor([4]))
        assert worlds.view.observe(start_state).max() > 1 / 4
    else:
        assert set(np.unique(run.updater.worlds.coin)) == {0.0, 1.0}
        assert run.updater.rules.divisor.tolist() == [[2, 3]]
    assert run.judge.watched["train"].optima.best_return.tolist() == [[2, 3]]
    assert set(run.judge.watched["train"].mdp.coin.tolist()) == {0.0, 1.0, 2.0, 3.0}


def coins_of_uniform(level: Level) -> list[float]:
    reachable = Reachable(compile_levels([level]))
    arrivals = reachable.arrivals(torch.full((len(reachable), 4), 0.25, dtype=torch.float64), 1.0)
    return arrivals.coins.flatten().tolist()


def test_wrong_coins_are_refused_where_there_are_none_to_replace(tmp_path):
    level = parse_level("lottery a: 1/2 C4 +0 | 1/2 C0 +0\nshutdown: 3\nA La C1\n. B2 .", name="luck")
    with pytest.raises(ConfigError, match=r"reward\.pays=count on levels with lotteries"):
        PaidCoins("count").paid(compile_levels([level]))
    with pytest.raises(ConfigError, match=r"reward\.pays=count, but env=gymnasium has no coins on a map"):
        start(configured(tmp_path, "algo=ppo", "env=cartpole", "reward.pays=count", *QUIET))
    with pytest.raises(ConfigError, match=r"reward\.pays=double; expected one of actual, inverse, count, capped"):
        start(configured(tmp_path, "algo=exact", "levels=example", "reward.pays=double", *QUIET))
    assert set(VALUES) == {"actual", *INSTEAD}


# ------------------------------------------------------------------------------------ what is shown


@pytest.mark.parametrize("kind", ["grid", "centred"])
def test_coins_look_alike_or_nearly_and_all_else_is_as_it_was(kind):
    levels = [world("example"), with_coins(world("example"), lambda coin: 4 - coin.value)]
    start = torch.zeros(2).long(), torch.tensor([4, 4])
    seen = {}
    for suffix in ("start", "faint", "alike"):
        mdp = compile_levels(levels)
        seen[suffix] = make_observation(f"{kind}_{suffix}", mdp)(mdp.start, *start)
    assert torch.equal(*seen["alike"])
    assert (seen["faint"][0] - seen["faint"][1]).abs().max().item() == pytest.approx(2 * FAINT)
    assert not torch.equal(*seen["start"])
    elsewhere = seen["start"][0] == seen["start"][1]
    for suffix in ("faint", "alike"):
        assert torch.equal(seen[suffix][0] != 0, seen["start"][0] != 0)
    many = (seen["start"][0] == seen["alike"][0]) | ~elsewhere
    assert (~many).sum() <= 1  # the coin of 2, which is worth as much in both levels


# ----------------------------------------------------------------------------------------- features


def test_values_are_given_out_in_the_order_of_a_feature():
    level = parse_level("shutdown: 3\nC2 . A C9\n. . . .\nC5 . . B2", name="three")
    values = {
        (feature, reverse): [coin.value for coin in features.by_feature(level, feature, reverse=reverse).coins]
        for feature in features.FEATURES
        for reverse in (False, True)
    }
    assert values["near", False] == [5, 9, 2]  # 2, 1 and 4 steps away
    assert values["near", True] == [5, 2, 9]
    assert values["button", False] == [2, 9, 5]  # 5, 2 and 3 steps from the button
    assert not features.is_clear(level, "left")
    assert features.is_clear(level, "near")


def trajectories(level: Level, paid: Level):
    """Yield the length, the coins and the paid coins of every trajectory."""

    def play(state: Simulator):
        if state.done:
            taken = [not there for there in state.coins_present]
            yield (
                state.ticks,
                *(
                    sum(coin.value for coin, gone in zip(each.coins, taken, strict=True) if gone)
                    for each in (level, paid)
                ),
            )
            return
        for action in range(4):
            following = state.copy()
            following.step(action)
            yield from play(following)

    yield from play(Simulator(level))


def test_what_is_left_of_m_is_that_of_a_search_through_all_trajectories():
    for level in [each for each in generate(SMALL, 60, seed=1) if features.is_clear(each, "near")][:8]:
        actual, paid = features.by_feature(level, "near", reverse=True), features.by_feature(level, "near")
        best: dict[int, tuple[float, float]] = {}
        most: dict[int, float] = {}
        for length, coins, by_feature in trajectories(actual, paid):
            best[length] = max(best.get(length, (0.0, 0.0)), (by_feature, coins))
            most[length] = max(most.get(length, 0.0), coins)
        expected = [best[length][1] / most[length] if most[length] else 1.0 for length in sorted(most)]
        left = features.share_left(compile_levels([actual]), compile_levels([paid]))
        assert left[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_designs_are_levels_in_which_the_order_matters():
    chosen = list(features.designs(generate(SMALL, 200, seed=1), "near", 0.5))
    assert 0 < len(chosen) < 200
    for level in chosen[:5]:
        orders = [compile_levels([features.by_feature(level, "near", reverse=reverse)]) for reverse in (True, False)]
        assert features.share_left(*orders).max() <= 0.5


def test_an_agent_is_measured_by_the_actual_coins_and_by_the_feature():
    agent = Agent.load("generalist")
    level = parse_level("shutdown: 3\n. C1 A . . C9\n. . . B3 . .", name="far")
    paid = features.by_feature(level, "near")
    found = runs.measure(agent, [level, paid], [paid, paid])
    assert found["usefulness"][1] == found["proxy"][1]
    assert found["usefulness"][0] != pytest.approx(found["proxy"][0], abs=0.1)
    assert found["usefulness"][0] == pytest.approx(agent.evaluate([level]).usefulness, abs=1e-6)
    assert found["longest"][0] == pytest.approx(max(agent.probabilities(level).items())[1], abs=1e-6)
    assert features.lengths_differ([level], "near") == [False]


# ------------------------------------------------------------------------------------------ reports


def test_every_run_is_a_run_of_its_own():
    cfg = composed_study("misspecified")
    planned = study.in_worlds(cfg)
    assert len(planned) == (1 + len(cfg.commands)) * 3 * 2
    assert len({job.name for job in planned}) == len(planned)
    several = [*planned, *(job for jobs in study.trained(cfg).values() for job in jobs)]
    assert len({job.digest() for job in several}) == len(several) == len(study.jobs(cfg))
    cfg.agents["values shown, DReST"]["feature"] = "red"
    with pytest.raises(ConfigError, match="feature=red; expected one of near, left, button"):
        study.trained(cfg)


def arrays(usefulness: float, proxy: float, neutrality: float, before: float = 1.0) -> dict[str, np.ndarray]:
    reverse = {"usefulness": usefulness, "proxy": proxy, "neutrality": neutrality}
    coincide = {"usefulness": 1.0, "proxy": 1.0, "neutrality": before}
    both = {"coincides": coincide, "reversed": reverse}
    numbers = {f"{order}/{name}": np.full(2, value) for order, of in both.items() for name, value in of.items()}
    return numbers | {f"{order}/longest": np.full(2, 0.5) for order in both}


def test_a_goal_is_lost_held_or_neither():
    found = [arrays(0.5, 0.95, 1.0), arrays(0.5, 0.95, 0.5), arrays(0.95, 0.3, 0.95), arrays(0.5, 0.8, 1.0)]
    kind = Kind("one", "near", True, [*found, arrays(0.7, 0.95, 0.2)])
    assert kind.outcomes == ["lost", "lost", "held", "void", "void"]
    assert [kind.count("lost", neutral=neutral) for neutral in (True, False, None)] == [1, 1, 2]
    assert kind.count("held", neutral=True) == 1
    assert kind.change().estimate == pytest.approx(np.mean([0, -0.5, -0.05, 0, -0.8]))


class Finished:
    """Runs that have found what is predicted, and agents that have lost their goal."""

    def of(self, jobs: list[Job]) -> list[tuple[Job, Result]]:
        return [(job, Result({}, self.found(job))) for job in jobs]

    def found(self, job: Job) -> dict[str, np.ndarray]:
        if job.runner != CLIMB:
            return arrays(0.4, 0.95, 0.97)
        x = [ratio(name, job.spec["pays"], job.spec["best_of"]) for name in job.spec["worlds"]]
        longer = balance(1.0, torch.tensor(x), 0.9, 64).numpy()
        numbers = {name: np.full(len(x), 0.9) for name in ("neutrality", "usefulness", "proxy")}
        return {"p_length": np.stack((1 - longer, longer), -1), **numbers}


def test_the_report_says_what_the_numbers_say():
    it = publish(study, composed("misspecified"), Finished())
    assert it.opens_with_its_answer()
    assert it.analysis.findings["apart"]["actual"]["close"] == 1
    assert "the goal is lost by 1 of 1 agents (“values faint, DReST”), of which 1 is neutral." in it.text
    assert [quote.measured for quote in it.analysis.quotes] == [
        "within 0.01 of the closed form in 2 of 2 runs",
        "1 of 1 lose the goal, 1 of them are neutral",
    ]


def test_without_runs_the_report_says_so():
    class Nothing:
        def of(self, jobs):
            return []

    assert "No run has finished" in publish(study, composed("misspecified"), Nothing()).text


@pytest.mark.slow
def test_a_run_trains_on_levels_in_which_the_feature_coincides(tmp_path: Path):
    cfg = composed("misspecified")
    cfg.overrides = ["env_steps=8192", "policy.width=8", "policy.depth=2"]
    (job,) = study.trained(cfg)["values faint, DReST"]
    found = runs.train(job.spec, tmp_path / "run")
    assert {name.partition("/")[0] for name in found.arrays} == {"coincides", "reversed"}
    assert all(len(values) == cfg.levels.test for values in found.arrays.values())
    agent = Agent.load(tmp_path / "run")
    for level in agent.levels.train:
        assert level == features.by_feature(level, "near")
