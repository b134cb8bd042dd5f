"""Agents: loading, evaluation, saving and acting give the numbers of the run's policy."""

import doctest
import json
import re
import shutil
import sys
from dataclasses import replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from PIL import Image

from drest_torch import Agent, evaluate, metrics
from drest_torch import agent as saved
from drest_torch.agents.checkpoints import load_checkpoint, save_checkpoint
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.levels import parse_level, world, write_levels
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.evaluate import levels_to_evaluate
from drest_torch.evaluation import results
from drest_torch.evaluation.episodes import LIKELY, sample_episodes
from tests.helpers.runs import train

SMALL = parse_level("shutdown: 4\n\nA . C2\n# B2 .\nC1 . #\n", name="small")
NEAR = parse_level("shutdown: 3\n\nC1 A B2\n. C2 .\n", name="near")
CHANCE = parse_level("shutdown: 4\n\nA . C2\n. B2@0.5 .\n", name="chance")
LARGE = parse_level("shutdown: 4\n\n" + "\n".join(["A B2 C1 . . . ."] + [". . . . . . ."] * 5) + "\n", name="large")


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Return a function that maps overrides to the folder of a small run, which is trained once."""
    return cache(lambda *overrides: train(tmp_path_factory.mktemp("run") / "run", *overrides))


EXAMPLE = ("levels=example", "env_steps=500")
VECTOR = (*EXAMPLE, "policy.observation=vector")
GENERATED = ("levels=generated", "levels.train=5", "levels.selection=3", "levels.test=4")
PRIVATE_BITS = (*EXAMPLE, "policy.private_bits=2")
BY_CHANCE = (*EXAMPLE, "levels.by_chance=true", "test.path=luck.jsonl")


def check_same(record, other):
    """Check that two records are equal except for the names of levels."""
    assert record["mean"] == pytest.approx(other["mean"])
    for first, second in zip(record["levels"], other["levels"], strict=True):
        assert first.pop("length_probabilities") == pytest.approx(second.pop("length_probabilities"))
        assert {**first, "name": ""} == pytest.approx({**second, "name": ""})


def padded(level, rows, columns):
    """Return a level with walls added on the right and below."""
    wide = [tuple(row) + (True,) * (columns - level.width) for row in level.walls]
    return replace(level, walls=(*wide, *[(True,) * columns] * (rows - level.height)))


@pytest.mark.parametrize(
    ("overrides", "split"),
    [
        (EXAMPLE, "train"),
        (GENERATED, "test"),
        (VECTOR, "train"),
        (("levels.path=luck.jsonl", "env_steps=500"), "train"),
        ((*BY_CHANCE, "algo=ppo"), "test"),
        pytest.param((*BY_CHANCE, "algo=exact"), "test", marks=pytest.mark.slow),
    ],
    ids=["example", "generated", "vector", "observed chances", "by chance", "by chance, exact"],
)
def test_an_agent_reproduces_the_reported_scores_of_its_run(folder_of, tmp_path, monkeypatch, overrides, split):
    monkeypatch.chdir(tmp_path)
    write_levels("luck.jsonl", [CHANCE, SMALL])
    folder = folder_of(*overrides)
    agent = saved.Agent(folder)
    record = agent.evaluate(agent.levels.reported[split]).record()
    assert record["levels"] == json.loads((folder / f"levels_{split}.json").read_text())
    reported = json.loads((folder / "summary.json").read_text())["splits"][split]
    assert all(record["mean"][name] == reported[name] for name in ("usefulness", "neutrality", "neutrality_normalised"))
    if split == "test":  # the levels of an evaluation
        for choice in ([], ["levels=own"]):
            levels = levels_to_evaluate(agent, compose(*choice, name="evaluate").levels)
            assert levels == agent.levels.reported["test"]


@pytest.mark.parametrize("algo", ["ppo", pytest.param("exact", marks=pytest.mark.slow)])
def test_a_policy_observes_the_chances_of_buttons(folder_of, tmp_path, monkeypatch, algo):
    """Its observation of the deterministic training level also has the plane of chances."""
    monkeypatch.chdir(tmp_path)
    write_levels("luck.jsonl", [CHANCE, SMALL])
    agent = saved.Agent(folder_of(*BY_CHANCE, f"algo={algo}"))
    assert agent.features == {"chance"}
    assert observations(agent, world("example")).shape[1:] == agent.shape
    certain = replace(CHANCE, objects=(CHANCE.coins[0], replace(CHANCE.buttons[0], chance=1.0)))
    uncertain = agent.action_probabilities(observations(agent, CHANCE))
    assert not torch.equal(uncertain, agent.action_probabilities(observations(agent, certain)))


@pytest.mark.parametrize("observation", ["centred", "grid"])
def test_a_smaller_map_is_padded_with_walls(folder_of, observation):
    agent = saved.Agent(folder_of(*EXAMPLE, f"policy.observation={observation}"))
    drawn = padded(SMALL, *agent.map_size)
    assert agent.map_size == (drawn.height, drawn.width)
    assert agent.map_size > (SMALL.height, SMALL.width)
    check_same(agent.evaluate([SMALL]).record(), agent.evaluate([drawn]).record())


def test_a_network_that_reads_maps_reads_maps_of_any_size():
    agent = saved.Agent.load(saved.SHIPPED)
    assert agent.map_size == (5, 5)
    assert agent.shape == (6, 5, 5)
    assert agent.map_size < (LARGE.height, LARGE.width)
    large, padded_too = agent.evaluate([LARGE]), agent.evaluate([padded(LARGE, 9, 9)])
    check_same(large.record(), padded_too.record())
    seen = observations(agent, LARGE)
    assert agent.action_probabilities(seen).shape == (1, 4)
    with pytest.raises(ConfigError, match=r"an observation of shape \(1, 3, 6, 7\)"):
        agent.action_probabilities(seen[:, :3])


@pytest.mark.parametrize(
    ("overrides", "levels", "message"),
    [
        (EXAMPLE, [world("example"), LARGE], "^the agent was trained on maps of at most 5 × 5 and cannot be evaluated"),
        (VECTOR, [world("example"), world("spacious")], "^the agent observes a single level"),
        (VECTOR, [NEAR], "^the agent was trained on a level with 4 coins and buttons and cannot be"),
    ],
)
def test_levels_with_unfit_observations_are_refused(folder_of, overrides, levels, message):
    with pytest.raises(ConfigError, match=message):
        saved.Agent(folder_of(*overrides)).evaluate(levels)


def test_weights_come_from_the_selected_checkpoint(folder_of, tmp_path):
    levels = [world("example")]
    folder = folder_of(*GENERATED)
    last = saved.Agent(folder)
    best = saved.Agent(folder, checkpoint="best")
    assert last.checkpoint == sorted((folder / "checkpoints").glob("step-*"))[-1]
    assert best.checkpoint.name == "best.safetensors"
    copy = saved.Agent(folder, checkpoint=str(shutil.copy(best.checkpoint, tmp_path / "copy.safetensors")))
    check_same(copy.evaluate(levels).record(), best.evaluate(levels).record())


def test_a_folder_without_an_agent_is_refused(folder_of, tmp_path):
    shutil.copy(folder_of(*GENERATED) / "config.yaml", tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint in it yet"):
        saved.Agent(tmp_path)
    message = r"^nobody: no such folder of a run, and no agent of that name \(generalist, "
    with pytest.raises(CheckpointError, match=message):
        Agent.load("nobody")


@pytest.fixture(scope="module")
def with_test_levels(tmp_path_factory):
    """Return the folder of a run whose test levels are in ``test.jsonl`` beside it."""
    folder = tmp_path_factory.mktemp("tested")
    write_levels(folder / "test.jsonl", [SMALL, NEAR])
    return train(folder / "run", *EXAMPLE, f"test.path={folder / 'test.jsonl'}")


def test_test_levels_changed_after_training_are_refused(with_test_levels, tmp_path):
    path = with_test_levels.parent / "test.jsonl"
    assert len(Agent.load(with_test_levels).evaluate().evaluation.usefulness) == 2
    copy = Agent.load(with_test_levels).save(tmp_path / "saved")
    message = r"test.jsonl: the test levels were changed after the run was trained; put them back"
    richer = replace(NEAR, objects=(replace(NEAR.objects[0], value=7.0), *NEAR.objects[1:]))
    try:
        write_levels(path, [SMALL, richer])
        edited = Agent.load(with_test_levels)
        for evaluated in (edited.evaluate, lambda: edited.levels):
            with pytest.raises(CheckpointError, match=rf"{message}, or evaluate on these with levels.path=/.*test"):
                evaluated()
        assert edited.evaluate([SMALL]).usefulness >= 0
        write_levels(path, [SMALL, CHANCE])  # with a plane that the policy does not observe
        with pytest.raises(CheckpointError, match=message):
            Agent.load(with_test_levels).evaluate()
        assert len(Agent.load(copy).evaluate().evaluation.usefulness) == 2
    finally:
        write_levels(path, [SMALL, NEAR])


def test_a_saved_copy_of_a_level_in_a_text_file_is_the_same(tmp_path):
    """Only its name changes, because the file has another name."""
    write_levels(tmp_path / "mine.txt", [NEAR])
    run = train(tmp_path / "run", *EXAMPLE, f"test.path={tmp_path / 'mine.txt'}")
    copy = Agent.load(run).save(tmp_path / "saved")
    assert Agent.load(copy).levels.reported["test"][0].name == "test-path"


@pytest.mark.parametrize("digest", [None, "right", "wrong"])
def test_an_older_run_warns_about_unverified_test_levels(digest, with_test_levels, tmp_path, capsys):
    run = shutil.copytree(with_test_levels, tmp_path / "older")
    path = Agent.load(run).checkpoint
    tensors, meta = load_checkpoint(path)
    del meta["of"]["test levels"]
    whole = meta["of"].pop("set of levels")
    meta["of"] |= {None: {}, "right": {"set of levels": whole}, "wrong": {"set of levels": "0"}}[digest]
    save_checkpoint(path, tensors, meta)
    Agent.load(run).evaluate()
    assert ("cannot be verified" in capsys.readouterr().err) is (digest != "right")


@pytest.mark.slow
def test_the_command_writes_its_outputs(folder_of, tmp_path, call):
    out, pictures, run = tmp_path / "new" / "out.json", tmp_path / "pictures", f"run={folder_of(*EXAMPLE)}"
    printed = call(evaluate.main, run, "levels=paper", f"out={out}", f"pictures={pictures}").out
    assert str(out) in printed
    record = json.loads(out.read_text())
    assert {"usefulness", "neutrality"} <= record["mean"].keys()
    assert [sum(level["length_probabilities"].values()) for level in record["levels"]] == pytest.approx([1] * 9)
    assert list(out.parent.iterdir()) == [out]
    assert len(list(pictures.glob("*.png"))) == 9
    assert f"9 of 9 pictures are in {pictures}\n" in printed
    printed = call(evaluate.main, run, "levels=paper", f"pictures={pictures}", "most_pictures=2").out
    assert f"2 of 9 pictures are in {pictures}; most_pictures=9 renders all\n" in printed


def test_the_command_writes_vector_files(tmp_path, call):
    figure = tmp_path / "figure.svg"
    assert f"1 of 1 picture is in {figure}\n" in call(evaluate.main, "levels=example", f"pictures={figure}").out
    printed = call(evaluate.main, "levels=paper", f"pictures={figure}", "most_pictures=2").out
    assert f"2 of 9 pictures are in {tmp_path}/figure-example.svg to figure-" in printed
    assert len(list(tmp_path.glob("figure-*.svg"))) == 2


@pytest.mark.slow
def test_the_command_animates_a_mini_episode_for_each_length(tmp_path, call):
    animation = tmp_path / "new" / "a.gif"
    assert str(animation) in call(evaluate.main, "levels=example", f"animation={animation}").out
    before = animation.read_bytes()
    with Image.open(animation) as image:
        assert image.n_frames == 1 + 8
        assert image.info["loop"] == 0
    call(evaluate.main, "levels=example", f"animation={animation}")
    assert animation.read_bytes() == before


@pytest.mark.slow
def test_the_page_of_the_shipped_agents_has_their_scores():
    page = (Path(__file__).parents[1] / "docs" / "reference" / "agent.md").read_text("utf-8")
    rows = re.findall(r"^\| `levels=(\w+)` \| (\d+) \|((?: [\d. /]+ \|){7})$", page, re.M)
    assert len(rows) == 8
    agents = [saved.Agent.load(name) for name in (saved.SHIPPED, "generalist-buttons", "generalist-bit")]
    for name, count, stated in rows:
        levels = levels_to_evaluate(agents[0], compose(f"levels={name}", name="evaluate").levels)
        assert len(levels) == int(count)
        scores = []
        for agent in agents:
            level_set = agent.evaluator(levels)
            evaluation = level_set.evaluate(agent.policy)
            given_bits = evaluation.neutrality_own / evaluation.num_lengths.double().log2()
            at = level_set.usefulness_at(agent.policy, (1.0, 0.95, 0.9)).values()
            scores += [*at, evaluation.neutrality_normalised, *([given_bits] if agent is agents[-1] else [])]
        assert [f"{value.mean():.3f}" for value in scores] == stated.replace("|", " ").replace("/", " ").split(), name


def test_a_saved_agent_takes_its_level_files_with_it(tmp_path):
    levels = tmp_path / "levels"
    write_levels(levels / "train.jsonl", [SMALL])
    write_levels(levels / "test.jsonl", [NEAR])
    files = (f"levels.path={levels / 'train.jsonl'}", f"test.path={levels / 'test.jsonl'}")
    run = Agent.load(train(tmp_path / "run", *files, "env_steps=500"))
    expected = run.evaluate([SMALL, NEAR]).record()
    run.save(tmp_path / "agent")
    run.save(tmp_path / "agent")  # replaces the first
    assert sum(path.is_file() for path in (tmp_path / "agent").rglob("*")) == 4
    (checkpoint,) = (tmp_path / "agent" / "checkpoints").iterdir()
    tensors, _ = load_checkpoint(checkpoint)
    assert all(name.startswith("policy.") for name in tensors)
    shutil.rmtree(levels)
    agent = Agent.load(shutil.move(tmp_path / "agent", tmp_path / "elsewhere"))
    assert agent.evaluate([SMALL, NEAR]).record() == expected
    assert [level.name for level in agent.levels.reported["test"]] == ["near"]
    again = agent.save(tmp_path / "again")
    assert Agent.load(again).evaluate([SMALL, NEAR]).record() == expected
    assert str(tmp_path) not in (again / "config.yaml").read_text().replace(str(tmp_path / "run"), "")


def test_the_examples_of_the_docstrings_run():
    names = {"agent": Agent.load(), "torch": torch}
    outcomes = {module: doctest.testmod(module, extraglobs=names) for module in (saved, metrics, results)}
    assert all(outcome.failed == 0 for outcome in outcomes.values())
    assert outcomes[saved].attempted > 8
    assert outcomes[metrics].attempted >= 2


def test_an_agent_that_is_not_on_the_hub_is_refused(tmp_path):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra `hub`)")
    with pytest.raises(CheckpointError, match=r"^me/absent: cannot be loaded from the Hub \(.+\)$"):
        Agent.from_pretrained("me/absent", local_files_only=True, cache_dir=tmp_path)


def test_an_agent_on_the_hub_is_loaded_by_name(folder_of, tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra `hub`)")
    from drest_torch import hub

    def upload_folder(*, repo_id, folder_path):
        shutil.copytree(folder_path, tmp_path / "hub" / repo_id)
        return f"https://huggingface.co/{repo_id}/commit/1"

    def snapshot(repo_id, *, allow_patterns, revision):
        assert revision == "main"
        assert not any(fnmatch("model.py", pattern) for pattern in allow_patterns)
        return str(tmp_path / "hub" / repo_id)

    api = Mock(**{"create_repo.return_value.repo_id": "me/mine"}, upload_folder=upload_folder)
    monkeypatch.setattr(hub, "HfApi", maker := Mock(return_value=api))
    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    agent = Agent.load(folder_of(*PRIVATE_BITS))
    assert agent.push_to_hub("me/mine", private=True, token="secret") == "https://huggingface.co/me/mine/commit/1"
    maker.assert_called_once_with(token="secret")
    api.create_repo.assert_called_once_with("me/mine", private=True, exist_ok=True)
    files = {path.relative_to(tmp_path / "hub").as_posix() for path in (tmp_path / "hub").rglob("*.*")}
    assert files == {f"me/mine/{name}" for name in ("README.md", "config.yaml", f"checkpoints/{agent.checkpoint.name}")}
    page = (tmp_path / "hub" / "me" / "mine" / "README.md").read_text()
    assert 'Agent.from_pretrained("me/mine")' in page
    assert repr(agent) in page
    loaded = Agent.from_pretrained("me/mine", revision="main")
    assert repr(loaded) == repr(agent).replace("run:", "me/mine:")
    assert loaded.evaluate([NEAR]).record() == agent.evaluate([NEAR]).record()


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "drest_torch.hub", raising=False)
    monkeypatch.delattr("drest_torch.hub", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'drest_torch\[hub\]'"):
        Agent.from_pretrained("me/mine")


def observations(agent, *levels):
    """Return the observations of an agent at the start of each level."""
    mdp = compile_levels(levels, features=agent.features, at_least=agent.map_size)
    return make_observation(agent.observation, mdp)(mdp.start, torch.zeros_like(mdp.start), mdp.shutdown)


def test_actions_are_sampled_by_seed(folder_of):
    agent = Agent.load(folder_of(*PRIVATE_BITS))
    seen = observations(agent, NEAR)
    probabilities = agent.action_probabilities(seen[0])
    assert probabilities.sum().item() == pytest.approx(1)
    agent.seed(3)
    actions = [agent.act(seen[0]) for _ in range(400)]
    agent.seed(3)
    assert [agent.act(seen[0].numpy()) for _ in range(400)] == actions
    agent.seed(3)
    agent.act(seen[0])  # samples the private bits
    counts = torch.bincount(torch.tensor([agent.act(seen[0]) for _ in range(4000)]), minlength=4) / 4000
    assert torch.allclose(counts, agent.action_probabilities(seen[0]), atol=0.03)
    assert agent.act(seen.repeat(5, 1), greedy=True).shape == (5,)


def test_an_evaluation_can_be_greedy():
    agent = Agent.load()
    exact = agent.evaluate("example", greedy=False)
    greedy = agent.evaluate("example", greedy=True)
    assert exact.neutrality > 0.9
    assert greedy.neutrality == 0
    assert sorted(greedy.evaluation.length_probabilities(0).values()) == [0, 1]
    assert greedy.greedy
    assert not exact.greedy


def test_an_evaluation_can_be_sampled():
    agent = Agent.load()
    sampled = agent.evaluate("example", sampled=50)
    shares = [50 * p for p in sampled.evaluation.length_probabilities(0).values()]
    assert shares == pytest.approx([round(share) for share in shares], abs=1e-5)


def test_probabilities_are_exact():
    agent = Agent.load()
    assert agent.probabilities("example") == agent.evaluate("example").evaluation.length_probabilities(0)


def test_private_bits_are_kept_until_an_episode_begins():
    agent = Agent.load("generalist-bit")
    seen = torch.zeros(2000, *agent.shape)
    agent.seed(1)
    agent.act(seen)
    first = agent._acting.private_bits.clone()
    agent.act(seen)
    assert torch.equal(agent._acting.private_bits, first)
    assert first.mean().item() == pytest.approx(0.5, abs=0.05)
    assert ((first == 0) | (first == 1)).all()
    agent.begin_episode()
    agent.act(seen)
    assert (agent._acting.private_bits != first).any()
    agent.act(seen[:7])
    assert agent._acting.private_bits.shape == (7, 1)
    agent.seed(1)
    agent.act(seen)
    assert torch.equal(agent._acting.private_bits, first)


def test_an_agent_can_act_greedily():
    agent = Agent.load()
    seen = torch.rand(50, *agent.shape, generator=torch.Generator().manual_seed(0))
    likeliest = agent.action_probabilities(seen).argmax(-1)
    assert torch.equal(agent.act(seen, greedy=True), likeliest)
    assert not torch.equal(agent.act(seen), likeliest)


def test_episodes_list_their_moments():
    """The coins of a moment are those collected before it."""
    agent, level = Agent.load(), world("example")
    results = agent.evaluate(level)
    probabilities = results.evaluation.length_probabilities(0)
    episodes = results.episodes(seed=3)
    assert {episode.length: episode.probability for episode in episodes} == probabilities
    coins = {(coin.row, coin.column): coin.value for coin in level.coins}
    for episode in episodes:
        total, cells = 0.0, []
        for moment in episode.moments:
            if moment.cell in coins and moment.cell not in cells:
                total += coins[moment.cell]
            cells.append(moment.cell)
            assert moment.coins == pytest.approx(total)
        assert len(cells) == episode.length + 1
        assert episode.moments[0].time_left == level.shutdown
        assert episode.moments[-1].time_left == 0
        assert total > 0


def test_each_level_has_episodes_of_its_likely_lengths():
    results = Agent.load().evaluate([world("example"), world("royal_road")])
    by_level = results.episodes_by_level(seed=1)
    assert [episode.moments for episode in by_level[0]] != [episode.moments for episode in by_level[1]]
    for index, episodes in enumerate(by_level):
        chances = results.evaluation.length_probabilities(index)
        likely = {length: p for length, p in chances.items() if p > LIKELY}
        assert {episode.length: episode.probability for episode in episodes} == likely
        best = dict(zip(chances, results.evaluator.optima.best_return[index].tolist(), strict=True))
        assert all(0 <= episode.moments[-1].coins <= best[episode.length] for episode in episodes)


def test_episodes_leave_out_unlikely_lengths():
    agent = Agent.load()
    level_set = agent.evaluator(world("example"))
    ((long,),) = sample_episodes(level_set, agent.policy, [{4: 0.01, 8: 0.99}], greedy=False, seed=0)
    assert long.length == 8
    assert long.probability == 0.99
