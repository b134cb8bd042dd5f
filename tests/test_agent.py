"""A saved run on levels of the user's choice: the numbers are those of its policy, whatever way they are asked for."""

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
from drest_torch.evaluation.episodes import sample_episodes
from tests.helpers.runs import train

SMALL = parse_level("shutdown: 4\n\nA . C2\n# B2 .\nC1 . #\n", name="small")
NEAR = parse_level("shutdown: 3\n\nC1 A B2\n. C2 .\n", name="near")
CHANCE = parse_level("shutdown: 4\n\nA . C2\n. B2@0.5 .\n", name="chance")
LARGE = parse_level("shutdown: 4\n\n" + "\n".join(["A B2 C1 . . . ."] + [". . . . . . ."] * 5) + "\n", name="large")


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """Return the folder of a small run, trained when it is first asked for."""
    return cache(lambda *overrides: train(tmp_path_factory.mktemp("run") / "run", *overrides))


EXAMPLE = ("levels=example", "env_steps=500")
VECTOR = (*EXAMPLE, "policy.observation=vector")
GENERATED = ("levels=generated", "levels.train=5", "levels.selection=3", "levels.test=4")
PRIVATE_BITS = (*EXAMPLE, "policy.private_bits=2")
BY_CHANCE = (*EXAMPLE, "levels.by_chance=true", "test.path=luck.jsonl")


def same(one, two):
    """Equal records, but for the names of levels."""
    assert one["mean"] == pytest.approx(two["mean"])
    for first, second in zip(one["levels"], two["levels"], strict=True):
        assert first.pop("length_probabilities") == pytest.approx(second.pop("length_probabilities"))
        assert {**first, "name": ""} == pytest.approx({**second, "name": ""})


def padded(level, rows, columns):
    """The level with wall on the right and below."""
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
    ids=["example", "generated", "vector", "shown chances", "by chance", "by chance, exact"],
)
def test_its_own_levels_give_what_the_run_itself_has_reported(folder_of, tmp_path, monkeypatch, overrides, split):
    monkeypatch.chdir(tmp_path)
    write_levels("luck.jsonl", [CHANCE, SMALL])
    folder = folder_of(*overrides)
    agent = saved.Agent(folder)
    record = agent.evaluate(agent.levels.reported[split]).record()
    assert record["levels"] == json.loads((folder / f"levels_{split}.json").read_text())
    reported = json.loads((folder / "summary.json").read_text())["splits"][split]
    assert all(record["mean"][name] == reported[name] for name in ("usefulness", "neutrality", "neutrality_normalised"))
    if split == "test":  # which are those to evaluate on
        for chosen in ([], ["levels=own"]):
            own = levels_to_evaluate(agent, compose(*chosen, name="evaluate").levels)
            assert own == agent.levels.reported["test"]
    if "levels.by_chance=true" in overrides:
        # The observation of the deterministic level that it was trained on has the plane of chances as well, and the
        # chance of a button is shown, so that the policy may act on it.
        assert agent.features == {"chance"}
        assert observations(agent, world("example")).shape[1:] == agent.shape
        certain = replace(CHANCE, objects=(CHANCE.coins[0], replace(CHANCE.buttons[0], chance=1.0)))
        acts = [agent.action_probabilities(observations(agent, level)) for level in (CHANCE, certain)]
        assert not torch.equal(*acts)


@pytest.mark.parametrize("observation", ["centred", "grid"])
def test_a_smaller_map_counts_as_if_its_walls_were_drawn(folder_of, observation):
    agent = saved.Agent(folder_of(*EXAMPLE, f"policy.observation={observation}"))
    drawn = padded(SMALL, *agent.map_size)
    assert (drawn.height, drawn.width) == agent.map_size > (SMALL.height, SMALL.width)
    same(agent.evaluate([SMALL]).record(), agent.evaluate([drawn]).record())


def test_a_network_that_reads_maps_reads_maps_of_any_size():
    agent = saved.Agent.load(saved.SHIPPED)
    assert agent.shape == (6, *agent.map_size) == (6, 5, 5)
    assert agent.map_size < (LARGE.height, LARGE.width)
    large, padded_too = agent.evaluate([LARGE]), agent.evaluate([padded(LARGE, 9, 9)])
    same(large.record(), padded_too.record())
    seen = observations(agent, LARGE)
    assert agent.action_probabilities(seen).shape == (1, 4)
    with pytest.raises(ConfigError, match=r"an observation of shape \(1, 3, 6, 7\)"):
        agent.action_probabilities(seen[:, :3])


@pytest.mark.parametrize(
    ("overrides", "levels", "message"),
    [
        (EXAMPLE, [world("example"), LARGE], r"maps of at most 5 by 5"),
        (VECTOR, [world("example"), world("spacious")], "1 level; 2 levels were given"),
        (VECTOR, [NEAR], "other coins and buttons"),
    ],
)
def test_levels_that_a_policy_does_not_see_are_refused(folder_of, overrides, levels, message):
    with pytest.raises(ConfigError, match=message):
        saved.Agent(folder_of(*overrides)).evaluate(levels)


def test_the_weights_are_the_last_the_best_or_those_of_a_file_if_there_are_any(folder_of, tmp_path):
    levels, folder = [world("example")], folder_of(*GENERATED)
    last, best = saved.Agent(folder), saved.Agent(folder, checkpoint="best")
    assert last.checkpoint == sorted((folder / "checkpoints").glob("step-*"))[-1]
    assert best.checkpoint.name == "best.safetensors"
    copy = saved.Agent(folder, checkpoint=str(shutil.copy(best.checkpoint, tmp_path / "copy.safetensors")))
    same(copy.evaluate(levels).record(), best.evaluate(levels).record())
    shutil.copy(folder / "config.yaml", tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint in it yet"):
        saved.Agent(tmp_path)
    message = r"^nobody: no such folder of a run, and no agent of that name \(generalist, "
    with pytest.raises(CheckpointError, match=message):
        Agent.load("nobody")


@pytest.fixture(scope="module")
def with_test_levels(tmp_path_factory):
    """The folder of a run with test levels of its own in ``test.jsonl`` beside it."""
    folder = tmp_path_factory.mktemp("tested")
    write_levels(folder / "test.jsonl", [SMALL, NEAR])
    return train(folder / "run", *EXAMPLE, f"test.path={folder / 'test.jsonl'}")


def test_test_levels_that_were_changed_after_training_are_refused(with_test_levels, tmp_path):
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
        write_levels(path, [SMALL, CHANCE])  # which have a plane that the policy does not see
        with pytest.raises(CheckpointError, match=message):
            Agent.load(with_test_levels).evaluate()
        assert len(Agent.load(copy).evaluate().evaluation.usefulness) == 2
    finally:
        write_levels(path, [SMALL, NEAR])


def test_a_saved_copy_of_a_level_in_a_text_file_is_the_same(tmp_path):
    """Its name, which is that of the file, is another."""
    write_levels(tmp_path / "mine.txt", [NEAR])
    run = train(tmp_path / "run", *EXAMPLE, f"test.path={tmp_path / 'mine.txt'}")
    copy = Agent.load(run).save(tmp_path / "saved")
    assert Agent.load(copy).levels.reported["test"][0].name == "test-path"


@pytest.mark.parametrize("digest", [None, "right", "wrong"])
def test_an_older_run_says_that_its_test_levels_cannot_be_verified(digest, with_test_levels, tmp_path, capsys):
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
def test_the_command_writes_results_and_pictures(folder_of, tmp_path, call):
    out, pictures, run = tmp_path / "new" / "out.json", tmp_path / "pictures", f"run={folder_of(*EXAMPLE)}"
    printed = call(evaluate.main, run, "levels=paper", f"out={out}", f"pictures={pictures}").out
    assert str(out) in printed
    record = json.loads(out.read_text())
    assert {"usefulness", "neutrality"} <= record["mean"].keys()
    assert [sum(each["length_probabilities"].values()) for each in record["levels"]] == pytest.approx([1] * 9)
    assert list(out.parent.iterdir()) == [out]
    assert len(list(pictures.glob("*.png"))) == 9
    assert f"9 of 9 pictures are in {pictures}\n" in printed
    printed = call(evaluate.main, run, "levels=paper", f"pictures={pictures}", "most_pictures=2").out
    assert f"2 of 9 pictures are in {pictures}; most_pictures=9 renders all\n" in printed


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
def test_the_page_of_the_shipped_agents_says_what_they_do():
    page = (Path(__file__).parents[1] / "docs" / "reference" / "agent.md").read_text("utf-8")
    rows = re.findall(r"^\| `levels=(\w+)` \| (\d+) \|((?: [\d. /]+ \|){7})$", page, re.M)
    assert len(rows) == 6
    agents = [saved.Agent.load(name) for name in (saved.SHIPPED, "generalist-buttons", "generalist-bit")]
    for name, count, stated in rows:
        levels = levels_to_evaluate(agents[0], compose(f"levels={name}", name="evaluate").levels)
        assert len(levels) == int(count)
        found = []
        for agent in agents:
            level_set = agent.evaluator(levels)
            evaluation = level_set.evaluate(agent.policy)
            own = evaluation.neutrality_own / evaluation.num_lengths.double().log2()
            at = level_set.usefulness_at(agent.policy, (1.0, 0.95, 0.9)).values()
            found += [*at, evaluation.neutrality_normalised, *([own] if agent is agents[-1] else [])]
        assert [f"{value.mean():.3f}" for value in found] == stated.replace("|", " ").replace("/", " ").split(), name


def test_a_saved_agent_does_what_the_run_does_and_takes_its_level_files_with_it(tmp_path):
    levels = tmp_path / "levels"
    write_levels(levels / "train.jsonl", [SMALL])
    write_levels(levels / "test.jsonl", [NEAR])
    files = (f"levels.path={levels / 'train.jsonl'}", f"test.path={levels / 'test.jsonl'}")
    run = Agent.load(train(tmp_path / "run", *files, "env_steps=500"))
    expected = run.evaluate([SMALL, NEAR]).record()
    run.save(tmp_path / "agent")
    run.save(tmp_path / "agent")  # over one that is there
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
    done = [doctest.testmod(module, extraglobs=names) for module in (saved, metrics, results)]
    assert [each.failed for each in done] == [0, 0, 0]
    assert done[0].attempted > 8
    assert done[1].attempted >= 2


def test_an_agent_is_pushed_to_the_hub_and_loaded_by_name(folder_of, tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra `hub`)")
    from drest_torch import hub

    with pytest.raises(CheckpointError, match=r"^me/absent: cannot be loaded from the Hub \(.+\)$"):
        Agent.from_pretrained("me/absent", local_files_only=True, cache_dir=tmp_path)

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


def test_without_the_extra_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.delitem(sys.modules, "drest_torch.hub", raising=False)
    monkeypatch.delattr("drest_torch.hub", raising=False)
    with pytest.raises(ConfigError, match=r"pip install 'drest_torch\[hub\]'"):
        Agent.from_pretrained("me/mine")


def observations(agent, *levels):
    """What the agent sees at the start of each level."""
    mdp = compile_levels(levels, features=agent.features, at_least=agent.map_size)
    return make_observation(agent.observation, mdp)(mdp.start, torch.zeros_like(mdp.start), mdp.shutdown)


def test_actions_are_sampled_from_the_policy_and_repeatable(folder_of):
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


def test_an_evaluation_takes_the_likeliest_actions_or_samples_if_it_is_told_to():
    agent = Agent.load()
    exact, greedy = (agent.evaluate("example", greedy=each) for each in (False, True))
    assert exact.neutrality > 0.9
    assert greedy.neutrality == 0
    assert sorted(greedy.evaluation.length_probabilities(0).values()) == [0, 1]
    assert (exact.greedy, greedy.greedy) == (False, True)
    sampled = agent.evaluate("example", sampled=50)
    shares = [50 * p for p in sampled.evaluation.length_probabilities(0).values()]
    assert shares == pytest.approx([round(share) for share in shares], abs=1e-5)
    assert agent.probabilities("example") == exact.evaluation.length_probabilities(0)


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


def test_an_agent_acts_greedily_if_it_is_told_to():
    agent = Agent.load()
    seen = torch.rand(50, *agent.shape, generator=torch.Generator().manual_seed(0))
    likeliest = agent.action_probabilities(seen).argmax(-1)
    assert torch.equal(agent.act(seen, greedy=True), likeliest)
    assert not torch.equal(agent.act(seen), likeliest)


def test_a_mini_episode_is_shown_moment_by_moment():
    """Coins are those collected before a moment, and lengths that are unlikely are left out."""
    agent, level = Agent.load(), world("example")
    found = agent.evaluate(level)
    probabilities = found.evaluation.length_probabilities(0)
    episodes = found.episodes(seed=3)
    assert [(each.length, each.probability) for each in episodes] == list(probabilities.items())
    coins = {(coin.row, coin.column): coin.value for coin in level.coins}
    for episode in episodes:
        total, cells = 0.0, []
        for moment in episode.moments:
            if moment.cell in coins and moment.cell not in cells:
                total += coins[moment.cell]
            cells.append(moment.cell)
            assert moment.coins == pytest.approx(total)
        assert len(cells) == episode.length + 1
        assert (episode.moments[0].time_left, episode.moments[-1].time_left) == (level.shutdown, 0)
        assert total > 0
    level_set = agent.evaluator(level)
    (long,) = sample_episodes(level_set, agent.policy, {4: 0.01, 8: 0.99}, greedy=False, seed=0)
    assert (long.length, long.probability) == (8, 0.99)
