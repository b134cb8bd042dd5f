"""Runs train with their configured rewards, objectives, critics, rules and transforms."""

import math
from pathlib import Path

import pytest
import torch

from drest_torch.agents.untrained import build_networks
from drest_torch.algos.tabular import Config as TabularConfig
from drest_torch.algos.tabular import rules_for
from drest_torch.config.compose import compose
from drest_torch.config.schema import reward_of
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import LevelSet, PaidCoins, solve, with_longest_end
from drest_torch.envs.levels import parse_level
from drest_torch.errors import UserError
from drest_torch.play.third_party import acting_environment, evaluation_environment, training_environment
from drest_torch.reward import Reward
from drest_torch.tasks import environments as environments
from drest_torch.tasks.environments import spec_in_environment
from drest_torch.tasks.gridworlds import trained_levels_reported
from drest_torch.training.run import start
from drest_torch.transforms import ShutdownTimer
from tests.helpers.runs import FEW, QUIET, SMALLEST, small

EXACT = (
    "algo=exact",
    "policy.time_steps=7",
    "policy.width=8",
    "policy.depth=1",
    "pictures=0",
    *QUIET,
    "env_steps=40000",
)


def of_level(folder, *overrides):
    return compose(*SMALLEST, *QUIET, f"run_dir={folder}", "algo=reinforce", *overrides)


def exact(folder, *overrides):
    return start(compose(*EXACT, f"run_dir={folder}", *overrides))


@pytest.mark.parametrize("objective", ["drest", "weighted"])
def test_exact_gradients_maximise_the_objective_of_the_run(objective, tmp_path):
    run = exact(tmp_path / "run", "levels=royal_road", f"objective={objective}", "reward.lam=0.8")
    evaluation = run.task.evaluator(run.gridworlds.levels.train).evaluate(run.algorithm.policy)
    weighted = evaluation.usefulness + 1.15 * evaluation.neutrality
    expected = weighted if objective == "weighted" else evaluation.expected_drest / run.reward.episodes_per_meta
    assert run.update()["loss/objective"] == pytest.approx(expected.mean().item(), rel=1e-4)


def test_samples_are_paid_by_the_objective_of_the_run(tmp_path):
    run = start(small(tmp_path / "run", "algo=reinforce", "objective=weighted", "objective.weight=1000"))
    assert run.update()["train/return"] > 20
    run = start(small(tmp_path / "other", "algo=reinforce"))
    assert run.update()["train/return"] < 2


@pytest.mark.parametrize("algo", ["reinforce", "exact"])
def test_updates_use_the_scheduled_reward(algo, tmp_path):
    """E grows from 8 to 32, and is 16 half-way."""
    grows = ("reward.episodes_at_start=8", "reward.episodes_per_meta=32", "levels=example")
    run = (
        exact(tmp_path / "run", *grows) if algo == "exact" else start(small(tmp_path / "run", "algo=reinforce", *grows))
    )
    for share, episodes in ((0, 8), (0.5, 16), (1, 32)):
        run.state.steps = round(share * run.cfg.env_steps)
        assert run.update()["reward/episodes_per_meta"] == episodes
        paid = run.algorithm.batches.whole.reward if algo == "exact" else run.algorithm.environment.drest.reward
        assert paid == Reward(0.9, episodes_per_meta=episodes, counting="averaged")


@pytest.mark.parametrize(("algo", "credit"), [("a2c", "mini"), ("ppo", "meta")])
def test_every_weight_of_both_networks_is_trained(algo, credit, tmp_path):
    in_turn = ("reward.counting=sequential", "reward.episodes_per_meta=4", f"algo.credit={credit}")
    run = start(small(tmp_path / "run", f"algo={algo}", "policy.private_bits=1", *in_turn))
    critic = run.algorithm.critic
    assert run.algorithm.environment.shows_counts
    parts = {"policy": run.algorithm.policy, "critic": critic}
    named = {f"{part}.{name}": weight for part, net in parts.items() for name, weight in net.named_parameters()}
    before = {name: weight.detach().clone() for name, weight in named.items()}
    run.update()
    assert [name for name, weight in named.items() if torch.equal(before[name], weight)] == []


def test_an_update_returns_its_metrics(tmp_path):
    run = start(small(tmp_path / "run", "algo=ppo", "levels=paper"))
    names = {"loss/objective", "loss/critic", "optim/grad_norm", "optim/lr", "optim/steps", "optim/entropy_coeff"}
    names |= {"policy/entropy", "policy/kl", "policy/clip_fraction", "critic/explained_variance", "train/return"}
    names |= {"train/mini_episode_steps", "reward/episodes_per_meta"}
    metrics = run.update()
    assert names <= metrics.keys()
    assert metrics["policy/entropy"] == pytest.approx(math.log(4), abs=0.02)
    assert all(type(value) in (float, int) for value in metrics.values())


@pytest.mark.parametrize(("pays", "best_of"), [("inverse", "paid"), ("inverse", "actual"), ("count", "paid")])
@pytest.mark.parametrize("algo", ["reinforce", "exact"])
def test_training_uses_the_paid_coins_of_the_reward(algo, pays, best_of, tmp_path):
    chosen = (f"reward.pays={pays}", f"reward.best_of={best_of}", "reward.gamma=0.9", "levels=royal_road")
    run = (
        exact(tmp_path / "run", *chosen)
        if algo == "exact"
        else start(small(tmp_path / "run", "algo=reinforce", *chosen))
    )
    levels = run.gridworlds.reported["train"]
    expected = PaidCoins(pays, best_of).optima(levels, 0.9).best_return
    other = PaidCoins("actual" if best_of == "paid" else pays).optima(levels, 0.9)
    assert not torch.equal(expected, other.best_return)
    if algo == "exact":
        assert torch.equal(run.algorithm.batches.whole.best_return, expected)
        return
    base = run.algorithm.environment.base
    assert torch.equal(base.optima.best_return, expected)
    assert torch.equal(base.mdp.coin, PaidCoins(pays).paid(levels.mdp).coin)


@pytest.mark.parametrize("algo", ["reinforce", "exact"])
def test_training_pays_for_the_configured_ends(algo, tmp_path):
    """Training has the longest length alone, evaluation the lengths of the level."""
    chosen = ("reward=indifference", "levels=royal_road")
    run = (
        exact(tmp_path / "run", *chosen)
        if algo == "exact"
        else start(small(tmp_path / "run", "algo=reinforce", *chosen))
    )
    levels = run.gridworlds.reported["train"]
    expected = solve(with_longest_end(levels.mdp))
    assert expected.lengths.tolist() == [[6]]
    assert run.task.evaluator(levels).optima.lengths.tolist() == [[5, 6]]
    metrics = run.update()
    if algo == "exact":
        assert torch.equal(run.algorithm.batches.whole.best_return, expected.best_return)
        assert 0 < metrics["loss/objective"] < 1
        return
    base = run.algorithm.environment.base
    assert base.optima.lengths.tolist() == [[6]]
    assert base.mdp.shutdown.tolist() == [6]


LUCKY = parse_level("shutdown: 2\nC3 B2@0.5 A B2 C1", name="lucky")


def test_a_level_set_keeps_a_solution_for_each_way_of_solving_it():
    levels = LevelSet(compile_levels([LUCKY]))
    for _ in range(2):
        assert levels.optima(1.0).best_return.tolist() == [[3, 3, 3]]
        assert levels.optima(1.0, committed=True).best_return.tolist() == [[3, 1, 3]]
        assert levels.optima(0.5).best_return[0, 0] == 1.5


def test_evaluations_in_training_leave_out_test_levels(tmp_path):
    run = start(small(tmp_path / "run", *FEW, "evaluated_levels=13", "sampled=null", "reward.gamma=0.9"))
    watched, levels = run.task.watch(run.algorithm.policy), run.gridworlds.levels
    for split, members in (("train", levels.train[:13]), ("selection", levels.selection)):
        evaluation = run.task.evaluator(members).evaluate(run.algorithm.policy)
        for name in ("usefulness", "neutrality", "neutrality_normalised"):
            expected = getattr(evaluation, name).mean().item()
            assert watched[f"eval/{split}/{name}"] == pytest.approx(expected, rel=1e-5)
    assert not any("test" in name for name in watched)
    assert [trained_levels_reported(small(tmp_path, override)) for override in ("sampled=null", "sampled=5")] == [
        1000,
        200,
    ]


# ------------------------------------------------------------------------------------ a table


def test_a_table_has_the_rules_of_its_configuration():
    chosen = TabularConfig(lr=0.3, lr_end=0.02, epsilon=0.6, epsilon_end=0.004, decay_episodes=50, random_episodes=70)
    rules = rules_for(chosen, Reward(0.7, 0.8, 9, clip=1.5), [2.0, 3.0, 5.0])
    arrays = {name: getattr(rules, name).tolist() for name in ("lr", "epsilon", "divisor")}
    assert arrays == {"lr": [0.3, 0.02], "epsilon": [0.6, 0.004], "divisor": [2, 3, 5]}
    assert rules.lam == 0.7
    assert rules.gamma == 0.8
    assert rules.episodes_per_meta == 9
    assert rules.clip == 1.5
    assert rules.normaliser == 3
    assert rules.decay_episodes == 50
    assert rules.random_episodes == 70
    assert rules.discount_bumps
    assert not rules.learns_divisor


def test_a_table_without_limits_has_infinite_rules():
    schedule = TabularConfig(discount_bumps=False)
    rules = rules_for(schedule, Reward(normalise=False), [2.0], learns_divisor=True)
    assert rules.clip == math.inf
    assert rules.normaliser == math.inf
    assert not rules.discount_bumps
    assert rules.learns_divisor


@pytest.mark.parametrize("divides", [True, False])
def test_a_table_divides_coins_if_the_reward_does(divides, tmp_path):
    values = ("algo=tabular", "levels=fewer_for_longer", f"reward.divide_by_best={str(divides).lower()}")
    run = start(compose(*QUIET, f"run_dir={tmp_path / 'run'}", "pictures=0", *values))
    divisor = run.algorithm.rules.divisor.tolist()
    best = PaidCoins().optima(run.gridworlds.reported["train"], 1.0).best_return[0].tolist()
    assert divisor == (best if divides else [1.0] * len(best))
    assert len(set(best)) == 2


# ------------------------------------------------------------------------------------ environments

POLE = ("env=cartpole", "env.base=6", "env.delays=[4,5]", "env.copies=16", "algo.episodes=32", "sampled=40")
SMALL = ("policy.width=8", "policy.depth=1", "pictures=0", "env_steps=1200", *QUIET)


def of_pole(folder, *overrides):
    return compose(*POLE, *SMALL, f"run_dir={folder}", *overrides)


@pytest.fixture(scope="module")
def pole(tmp_path_factory):
    pytest.importorskip("gymnasium")
    run = start(of_pole(tmp_path_factory.mktemp("pole") / "run", "seed=3", "env.best=[6,10,15]"))
    yield run
    run.task.close()


def test_watched_environments_play_fewer_other_mini_episodes(pole):
    last, watched = pole.task.last, pole.task.watched["test"]
    assert last.mini_episodes == 40
    assert watched.mini_episodes == 10
    assert last.seed == 3
    assert watched.seed == 4
    assert watched.environment.flatten.centre is pole.task.played.flatten.centre
    assert dict(pole.task.judges()) == {"test": last}
    assert last.best.tolist() == [[6, 10, 15]]


def test_the_lines_of_an_environment_describe_it(pole):
    title = pole.cfg.env.title
    assert pole.task.lines() == [
        f"trained in: {title} (gymnasium), 16 copies; lengths 6, 10, 15",
        "evaluated by: 40 mini-episodes",
    ]


def test_observations_are_standardised_by_random_play(pole):
    flatten = pole.task.played.flatten
    assert flatten.centre[:4].abs().max() > 0
    assert (flatten.spread[:4] != 1).all()


def test_an_animation_is_written_for_an_environment(pole, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(environments, "animate", lambda *arguments: drawn.append(arguments))
    gif = tmp_path / "lengths.gif"
    assert pole.task.pictures("test", None, None, pole.algorithm.policy, tmp_path) == [gif]
    assert drawn == [(pole.cfg, pole.task.played, pole.algorithm.policy, gif)]


def test_a_run_ends_well_without_an_animation(pole, tmp_path, monkeypatch, capsys):
    def fail(*arguments):
        raise UserError("it is dark")

    monkeypatch.setattr(environments, "animate", fail)
    assert pole.task.pictures("test", None, None, pole.algorithm.policy, Path(tmp_path)) == []
    assert "no animation: it is dark" in capsys.readouterr().err


# ------------------------------------------------------------------------------------ transforms

ODD = (
    *("env=torchrl", "env.factory=tests.helpers.counting:eight_slots", "env.copies=8", "algo.episodes=32"),
    *("env.base=4", "env.delays=[3,2]", "env.window=2", "env.cost=0.25", "env.floor=-1"),
    *("reward.gamma=0.9", "policy.private_bits=2"),
    *("env.idle=1", "reward.group=4", "reward.lam=0.7", "reward.episodes_per_meta=16", *SMALL),
)


def odd(tmp_path, *overrides, has_critic=True):
    cfg = compose(*ODD, f"run_dir={tmp_path}", *overrides)
    return cfg, training_environment(cfg, reward_of(cfg), with_critic=has_critic)


def transforms(environment):
    return {type(transform).__name__: transform for transform in environment.env.transform}


def test_an_environment_has_the_transforms_of_its_configuration(tmp_path):
    cfg, environment = odd(tmp_path)
    parts = transforms(environment)
    timer, best, meta, bits = (parts[name] for name in ("ShutdownTimer", "BestReturn", "MetaEpisodes", "PrivateBits"))
    assert timer.lengths == [4, 7, 9]
    assert timer.window == 2
    assert timer.cost == 0.25
    assert timer.control == "action"
    assert timer.idle == 1
    assert timer.ended == "absorb"
    assert timer.skip
    assert best.gamma == 0.9
    assert best.floor == -1
    assert best.fixed is None
    assert best.best.shape == (1, 3)
    assert meta.episodes == 4
    assert meta.together
    assert meta.group == 4
    assert bits.count == 2
    assert environment.drest.reward == reward_of(cfg)
    assert environment.drest.group == 4
    assert environment.drest.tick_key is None
    assert environment.drest.num_lengths == 3


def test_an_environment_describes_itself_to_policies(tmp_path):
    _, environment = odd(tmp_path)
    assert not environment.shows_counts
    assert list(environment.lengths) == [4, 7, 9]
    assert environment.num_lengths == 3
    assert environment.private_bits == 2
    assert environment.actions.outputs == 4
    assert environment.request_probability == pytest.approx(1 - 0.5**0.5)


def test_requests_are_rarer_without_a_window(tmp_path):
    _, environment = odd(tmp_path, "env.window=null")
    assert transforms(environment)["ShutdownTimer"].window is None
    assert environment.request_probability == pytest.approx(1 - 0.5**0.25)


def test_rewards_in_advance_are_scaled_by_estimates_of_m(tmp_path):
    for divides in (True, False):
        _, environment = odd(tmp_path, f"reward.divide_by_best={str(divides).lower()}")
        *_, advance = environment.postproc
        assert advance.scaled is not divides
        assert advance.mean_best() == 1
        environment.best.best.copy_(torch.tensor([[2.0, 0.0, 5.0]]))
        assert advance.mean_best() == 3.5


@pytest.mark.parametrize("has_critic", [True, False])
def test_a_critic_sees_the_counts_of_sequential_play(has_critic, tmp_path):
    sequential = ("reward.counting=sequential", "reward.episodes_per_meta=4", "env.ended=restart")
    cfg, environment = odd(tmp_path, *sequential, has_critic=has_critic)
    parts = transforms(environment)
    assert environment.drest.reward == reward_of(cfg)
    assert environment.drest.group == 1
    assert environment.drest.tick_key is None
    assert environment.shows_counts is has_critic
    after = ["PlayingSlots", "DReSTReward", *(["LogDiscounts"] if has_critic else []), "Advance"]
    assert [type(transform).__name__ for transform in environment.postproc] == after
    assert not parts["ShutdownTimer"].skip
    assert parts["ShutdownTimer"].ended == "restart"
    assert parts["MetaEpisodes"].episodes == 4
    spec = spec_in_environment(cfg, environment)
    policy, critic = build_networks(spec, cfg.seed, context=environment.critic_context)
    inputs = policy.net.scale.numel() + 2  # with two private bits
    assert policy.net.body[0].in_features == inputs
    assert critic.net.body[0].in_features == inputs + 3 * has_critic  # with the discounts of three lengths
    assert torch.equal(policy.offset, environment.actions.offset(environment.request_probability))


def test_an_evaluation_has_the_necessary_number_of_rounds(tmp_path):
    cfg, trained = odd(tmp_path)
    environment = evaluation_environment(cfg, Reward(), 33, beside=trained)
    parts = transforms(environment)
    assert parts["MetaEpisodes"].episodes == 5
    assert parts["MetaEpisodes"].group == 1
    assert parts["BestReturn"].gamma == 1
    assert environment.env.base_env is trained.env.base_env
    assert environment.drest is None


def test_an_acting_environment_does_not_skip_steps(tmp_path):
    cfg, _ = odd(tmp_path)
    acting = acting_environment(cfg, 8)
    assert isinstance(acting.transform, ShutdownTimer)
    assert acting.transform.skip is False
