"""Agents of gridworlds and third-party environments: training in Python, loading, acting, evaluation, rendering."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple
from unittest.mock import Mock

import gymnasium
import numpy as np
import pytest
import torch
from PIL import Image
from torchrl.envs.utils import step_mdp

from drest_torch import Agent, evaluate
from drest_torch.agents.checkpoints import load_checkpoint, save_checkpoint
from drest_torch.config.compose import compose
from drest_torch.config.reading import flattened
from drest_torch.config.stored import load_config
from drest_torch.envs.interfaces.gymnasium_wrappers import ShutdownTimerWrapper
from drest_torch.errors import CheckpointError, UserError
from drest_torch.files import read_metrics
from drest_torch.training.run import start
from tests.helpers.clocks import clock, plain_pole
from tests.helpers.documents import ROOT, blocks
from tests.helpers.runs import same_run

QUICK = {
    "algo": {"episodes": 32},
    "reward": {"group": 16},
    "policy": {"width": 8, "depth": 1},
    "env_steps": 400,
    "evaluations": 2,
    "sampled": 64,
    "logger": "none",
    "progress": False,
    "pictures": 0,
    "threads": 1,
}
POLE = {"id": "CartPole-v1", "base": 6, "delays": [4]}
CLOCK = {"id": "Clock-v0", "base": 3, "delays": [2]}
COUNTING = "tests.helpers.counting"


def quick(folder, *overrides, **values):
    return Agent.train(*overrides, **QUICK | {"run_dir": folder} | values)


@pytest.fixture(scope="module")
def pole(tmp_path_factory):
    return quick(tmp_path_factory.mktemp("pole") / "run", env=POLE)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return quick(tmp_path_factory.mktemp("world") / "run", levels="example", test={"paper": False})


def test_frequencies_of_lengths_agree_with_the_evaluation(pole):
    env, lengths = pole.environment(400), torch.zeros(400)
    state = env.reset()
    pole.seed(0)
    for steps in range(1, 11):
        state["action"] = pole.act(state)
        state = step_mdp(env.step(state))
        lengths[(lengths == 0) & state["done"].squeeze(-1)] = steps
    share = (lengths == 10).double().mean().item()
    assert set(lengths.tolist()) == {6, 10}
    probabilities = pole.evaluate(sampled=2000).evaluation.length_probabilities(0)
    assert share == pytest.approx(probabilities[10], abs=0.1)


def test_an_agent_acts_in_gymnasium_behind_the_same_timer(pole):
    env = ShutdownTimerWrapper(gymnasium.make("CartPole-v1"), base=6, delays=[4])
    observation, _ = env.reset(seed=0)
    entries = {"observation": observation[:4], "timer": observation[4:]}
    torch.testing.assert_close(pole.action_probabilities(observation), pole.action_probabilities(entries))
    assert pole.action_probabilities(np.stack([observation] * 3)).shape == (3, 3)
    actions = [pole.act(observation) for _ in range(200)]
    assert {type(action) for action in actions} == {int}
    assert set(actions) == set(range(env.action_space.n)) >= {0, 1}
    assert pole.act(observation, greedy=True) == int(pole.action_probabilities(observation).argmax())


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("env", "further"),
    [
        ({"factory": f"{COUNTING}:boxes", "copies": 16, "base": 4, "delays": [3], "floor": -2}, {}),
        (
            {"factory": f"{COUNTING}:two_actions", "copies": 16, "base": 4, "delays": [3]},
            {"policy": {"private_bits": 1}},
        ),
        (CLOCK, {"policy": "recurrent"}),
        ({"id": "Taxi-v4", "base": 4, "delays": [3], "floor": -10}, {}),
    ],
    ids=["box", "several", "memory", "one-hot"],
)
def test_actions_are_in_the_action_space(tmp_path, env, further):
    agent = quick(tmp_path / "run", env=env, **further)
    environment = agent.environment(16)
    state = environment.reset()
    for _ in range(4):
        state["action"] = agent.act(state)
        assert environment.action_spec.is_in(state["action"])
        state = step_mdp(environment.step(state))
    assert agent.evaluate(sampled=32, greedy=True).neutrality <= 1


def test_a_saved_agent_is_evaluated_like_the_run(pole, tmp_path):
    saved = Agent.load(pole.save(tmp_path / "agent"))
    assert saved.evaluate().record() == pole.evaluate().record()
    assert len(list((tmp_path / "agent").rglob("*.*"))) == 2


def test_an_evaluation_repeats_the_summary_of_the_run(pole):
    test = json.loads((pole.folder / "summary.json").read_text())["splits"]["test"]
    assert pole.evaluate().record()["mean"] == {key: value for key, value in test.items() if key != "file"}


def test_sampled_sets_the_number_of_mini_episodes(pole):
    assert pole.evaluate(sampled=256).record()["mean"]["sampled"] >= 256


def trained(**values):
    return lambda pole, _: quick(pole.folder / "another", **values)


def resumed(*overrides):
    return lambda pole, _: Agent.train(*overrides, resume=pole.folder)


class Refusal(NamedTuple):
    """A call on an agent of CartPole or of a gridworld, and its error message."""

    name: str
    call: Callable[[Agent, Agent], Any]
    message: str


REFUSALS = [
    Refusal(
        "a row without the timer",
        lambda pole, _: pole.act(np.zeros(4)),
        r"row': \(4,\)}; the policy .* sees {'observation': \(4,\), 'timer'",
    ),
    Refusal(
        "entries without the timer",
        lambda pole, _: pole.act({"observation": np.zeros(4)}),
        r"of shape {'observation': \(4,\)}; the policy",
    ),
    Refusal(
        "evaluation on levels",
        lambda pole, _: pole.evaluate("example"),
        "levels to evaluate on, but .* in CartPole-v1; leave levels",
    ),
    Refusal(
        "an evaluator of levels",
        lambda pole, _: pole.evaluator("example"),
        "is a run in CartPole-v1, but only gridworlds have levels",
    ),
    Refusal("rendering a level", lambda pole, _: pole.render("a.gif", "example"), "a level to render, but"),
    Refusal(
        "plotting maps",
        lambda pole, _: pole.evaluate(sampled=16).plot("."),
        "plots of policies on maps: only gridworlds",
    ),
    Refusal("a GPU", lambda pole, _: Agent(pole.folder, device="cuda:0"), "device=cuda"),
    Refusal(
        "an environment of gridworlds",
        lambda _, world: world.environment(3),
        r"GridworldEnv\(levels, 3, observation=",
    ),
    Refusal(
        "resuming to fewer steps", resumed("env_steps=300"), "env_steps=300 with resume=.*, a run of 400 steps; give"
    ),
    Refusal(
        "resuming with another value",
        resumed("env_steps=800", "algo.lr=0.1"),
        "algo with resume=.*, whose own configuration applies except for",
    ),
    Refusal("an unknown key", trained(alog="ppo"), "alog"),
    Refusal(
        "an unknown environment",
        trained(env="CartPol-v1"),
        "CartPol-v1 failed with NameNotFound: .* Did you mean: `CartPole`",
    ),
    Refusal("an anonymous factory", trained(env=lambda: None), "a run finds its environment by name"),
    Refusal("shutdown at 0 steps", trained(env=POLE | {"base": 0}), "env.base=0; expected a number from 1 to 50000"),
    Refusal("a list for a number", trained(env=POLE | {"base": [3, 5]}), "env.base"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=attrgetter("name"))
def test_a_mistake_is_refused_before_any_file_changes(pole, world, refusal):
    def modification_times():
        return {path: path.stat().st_mtime_ns for agent in (pole, world) for path in agent.folder.rglob("*")}

    before = modification_times()
    with pytest.raises(UserError, match=refusal.message) as caught:
        refusal.call(pole, world)
    assert "\n" not in str(caught.value)
    assert modification_times() == before


def test_an_agent_is_rendered_on_a_level(world, tmp_path):
    with Image.open(world.render(tmp_path / "new" / "a.gif")) as animation:
        assert animation.n_frames > 1
    assert world.render(tmp_path / "a.png", "royal_road").read_bytes().startswith(b"\x89PNG")
    assert world.render(tmp_path / "a.pdf", "royal_road").read_bytes().startswith(b"%PDF")


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("env", "library"),
    [(clock, None), ("Clock-v0", None), ("tests.helpers.clocks:pole", "pygame")],
    ids=["function", "id", "factory"],
)
def test_an_agent_is_rendered_in_a_third_party_environment(tmp_path, call, env, library):
    """The command writes the lengths side by side; a factory receives the render mode of its environment."""
    if library is not None:
        pytest.importorskip(library)
    agent = quick(tmp_path / "run", "env.delays=[2]", "env.base=3", env=env)
    gif = tmp_path / "lengths.gif"
    done = call(evaluate.main, f"run={agent.folder}", "sampled=32", f"animation={gif}")
    assert f"one for each length, are in {gif}" in done.out
    with Image.open(gif) as animation, Image.open(agent.render(tmp_path / "a.png")) as picture:
        assert animation.size[0] == picture.size[0] == 600
        assert animation.n_frames > 3


@pytest.mark.mostly_slow
@pytest.mark.parametrize(
    ("env", "library", "message"),
    [
        (plain_pole, "pygame", "GymEnv.* returns no image to render; "),
        ("Dark-v0", None, "Dark-v0 cannot be rendered with render_mode=rgb_array: "),
    ],
    ids=["no image", "no rendering"],
)
def test_an_environment_without_images_is_refused(tmp_path, call, env, library, message):
    if library is not None:
        pytest.importorskip(library)
    agent = quick(tmp_path / "run", "env.delays=[2]", "env.base=3", env=env)
    gif = tmp_path / "lengths.gif"
    done = call(evaluate.main, f"run={agent.folder}", "sampled=32", f"animation={gif}")
    assert re.search(message, done.sentence)
    assert not gif.exists()


@pytest.mark.slow
def test_a_notebook_shows_the_agent(world):
    page = world._repr_html_()
    evaluation = world.evaluate("example")
    for text in (repr(world), "example", f"{evaluation.usefulness:.3f}", f"{evaluation.neutrality:.3f}", "data:image"):
        assert text in page
    assert world._repr_png_().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_notebook_shows_no_picture_without_images(tmp_path):
    agent = quick(tmp_path / "run", "env.base=3", "env.delays=[2]", env=plain_pole)
    assert agent._repr_png_() is None
    assert "<img" not in agent._repr_html_()


def test_training_from_python_equals_the_command(pole, tmp_path):
    values = [f"{key}={value}" for key, value in flattened(QUICK | {"env": POLE}).items()]
    start(compose(f"run_dir={tmp_path / 'run'}", "env=gymnasium", *values)).train()
    same_run(tmp_path / "run", pole.folder)


def test_training_accepts_arguments_with_values(tmp_path):
    values = {"levels": "royal_road", "logger": ["csv"], "seed": 3, "test": {"paper": False}}
    agent = quick(tmp_path / "run", "algo=a2c", "algo.lr=0.002", **values)
    cfg = load_config(agent.folder)
    assert cfg.algo.name == "a2c"
    assert cfg.algo.lr == 0.002
    assert cfg.algo.episodes == 32
    assert cfg.seed == 3
    assert cfg.levels.name == "royal_road"
    assert list(cfg.logger.sinks) == ["csv"]


def test_callbacks_get_the_logged_metrics(tmp_path):
    calls = []
    agent = quick(
        tmp_path / "run", env=POLE, callbacks=[lambda steps, metrics: calls.append({"step": steps} | metrics)]
    )
    assert calls == read_metrics(agent.folder / "metrics.jsonl")
    assert calls[0]["step"] == 0
    assert "eval/test/usefulness" in calls[-1]


def test_an_error_in_a_callback_ends_training(tmp_path):
    with pytest.raises(RuntimeError, match="enough"):
        quick(tmp_path / "stopped", env=POLE, callbacks=[Mock(side_effect=RuntimeError("enough"))])


def test_an_interrupted_training_can_be_resumed(tmp_path):
    def interrupt(steps, metrics):
        if steps > 0:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="was interrupted and saved"):
        quick(tmp_path / "run", env=POLE, env_steps=2000, callbacks=[interrupt])
    for env_steps, more in ((2000, {}), (3000, {"env_steps": 3000})):
        agent = Agent.train(resume=tmp_path / "run", **more)
        assert agent.folder == tmp_path / "run"
        assert agent.cfg.env_steps == env_steps
        assert json.loads((tmp_path / "run" / "summary.json").read_text())["env_steps"] >= env_steps


def test_a_loaded_agent_standardises_as_in_training(pole):
    tensors, _ = load_checkpoint(pole.checkpoint)
    centre, spread = tensors["task.centre"], tensors["task.spread"]
    assert (centre != 0).any()
    assert (spread != 1).any()
    row = torch.linspace(-1, 2, len(centre))
    standardised = ((row - centre) / spread).clamp(-10, 10)
    expected = pole.policy(standardised.unsqueeze(0)).softmax(-1)[0]
    assert torch.equal(Agent.load(pole.folder).action_probabilities(row), expected)
    assert torch.equal(pole._trained.environment.flatten.spread, spread)


def test_a_checkpoint_without_standardisation_is_refused(pole, tmp_path):
    tensors, meta = load_checkpoint(pole.checkpoint)
    del tensors["task.spread"]
    save_checkpoint(tmp_path / "run" / "checkpoints" / pole.checkpoint.name, tensors, meta)
    with pytest.raises(CheckpointError, match=r"the tensor 'task\.spread' is missing"):
        Agent.load(tmp_path / "run")


@pytest.mark.slow
def test_the_page_on_environments_runs_in_python(tmp_path, monkeypatch, capsys):
    pytest.importorskip("pygame")
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(ROOT / "docs" / "howto" / "environments.md", "From Python"):
        small = block.text.replace("100_000", '1_000, policy={"width": 8}, sampled=32, pictures=0')
        exec(compile(small.replace("150_000", "6_000"), "environments.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "mini-episodes of CartPole-v1: usefulness" in printed
    assert re.search(r"^\d+ steps: usefulness", printed, re.MULTILINE)
    assert (tmp_path / "pole.gif").is_file()
