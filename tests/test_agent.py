"""A saved run on levels of the user's choice: the numbers are those of its policy, whatever way they are asked for."""

from __future__ import annotations

import doctest
import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image
from torchrl.envs.utils import step_mdp

from drest_torch import Agent, evaluate
from drest_torch import agent as saved
from drest_torch.building.checkpoints import load_checkpoint
from drest_torch.config.compose import compose
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.dynamics.observations import make_observation
from drest_torch.envs.interfaces.torchrl_env import GridworldEnv
from drest_torch.envs.levels import Level, parse_level, world, write_levels
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.evaluation import results as results_module
from drest_torch.evaluation.exact import ExactEvaluator, observe_states
from drest_torch.plots.animation import MOST_FRAMES, times
from drest_torch.reward import Reward
from drest_torch.training.run import resume, start
from tests.helpers.runs import TINY, train

ROOT = Path(__file__).parents[1]
SMALL = parse_level("shutdown: 4\n\nA . C2\n# B2 .\nC1 . #\n", name="small")
NEAR = parse_level("shutdown: 3\n\nC1 A B2\n. C2 .\n", name="near")
LARGE = parse_level("shutdown: 4\n\n" + "\n".join(["A B2 C1 . . . ."] + [". . . . . . ."] * 5) + "\n", name="large")


@pytest.fixture(scope="module")
def on_example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("example") / "run", "levels=example")


@pytest.fixture(scope="module")
def on_generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    few = ("levels=generated", "levels.train=5", "levels.selection=3", "levels.test=4")
    return train(tmp_path_factory.mktemp("generated") / "run", *few)


@pytest.fixture(scope="module")
def with_private_bits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(
        tmp_path_factory.mktemp("private_bits") / "run", "levels=example", "policy.private_bits=2", "env_steps=500"
    )


def same(one: dict[str, Any], two: dict[str, Any]) -> None:
    """Equal records, but for the names of levels."""
    assert one["mean"] == pytest.approx(two["mean"])
    for first, second in zip(one["levels"], two["levels"], strict=True):
        assert first.pop("length_probabilities") == pytest.approx(second.pop("length_probabilities"))
        assert {**first, "name": ""} == pytest.approx({**second, "name": ""})


def padded(level: Level, rows: int, columns: int) -> Level:
    """The level with wall on the right and below."""
    wide = [tuple(row) + (True,) * (columns - level.width) for row in level.walls]
    return replace(level, walls=(*wide, *[(True,) * columns] * (rows - level.height)))


# ------------------------------------------------------------------------------------ which levels


def test_its_own_levels_give_what_the_run_itself_has_reported(on_example: Path) -> None:
    record = saved.Agent(on_example).evaluate([world("example")]).record()
    assert record["levels"] == json.loads((on_example / "levels_train.json").read_text())
    reported = json.loads((on_example / "summary.json").read_text())["splits"]["train"]
    assert all(record["mean"][name] == reported[name] for name in ("usefulness", "neutrality", "neutrality_normalised"))


@pytest.mark.parametrize("overrides", [[], ["levels=own"]])
def test_own_levels_are_the_test_levels_of_the_run_and_the_default(on_generated: Path, overrides: list[str]) -> None:
    agent = saved.Agent(on_generated)
    chosen = compose(*overrides, name="evaluate").levels
    record = agent.evaluate(saved.levels_to_evaluate(agent, chosen)).record()
    assert record["levels"] == json.loads((on_generated / "levels_test.json").read_text())


def test_generated_levels_are_those_of_that_name_as_everywhere() -> None:
    """Also for an agent of other levels; a level's name begins with the seed of its set."""
    agent = saved.Agent.load(saved.SHIPPED)
    assert agent.cfg.levels.name == "followup_like"
    chosen = {name: compose(f"levels={name}", "levels.test=3", name="evaluate").levels for name in ("generated", "own")}
    seeds = {name: saved.levels_to_evaluate(agent, levels)[0].name.split("-")[1] for name, levels in chosen.items()}
    assert seeds == {"generated": "0", "own": "2"}


def test_own_levels_may_come_from_a_file(tmp_path: Path) -> None:
    write_levels(tmp_path / "test.jsonl", [SMALL, NEAR])
    held_out = f"test.path={tmp_path / 'test.jsonl'}"
    agent = saved.Agent(train(tmp_path / "run", "levels=example", held_out, "env_steps=500"))
    levels = saved.levels_to_evaluate(agent, compose(name="evaluate").levels)
    assert [level.name for level in levels] == ["small", "near"]


def test_generated_training_levels_are_not_made_again(on_generated: Path) -> None:
    agent = saved.Agent(on_generated)
    assert len(agent.levels.train) == 1
    assert agent.map_size == resume(on_generated).gridworlds.map_size


def test_a_level_file_gives_what_the_levels_in_it_give(on_example: Path, tmp_path: Path) -> None:
    levels = [world("example"), world("spacious"), SMALL]
    write_levels(tmp_path / "mine.jsonl", levels)
    agent, chosen = saved.Agent(on_example), compose(f"levels.path={tmp_path / 'mine.jsonl'}", name="evaluate").levels
    same(agent.evaluate(saved.levels_to_evaluate(agent, chosen)).record(), agent.evaluate(levels).record())


@pytest.mark.parametrize("observation", ["centred", "grid"])
def test_a_smaller_map_counts_as_if_its_walls_were_drawn(tmp_path: Path, observation: str) -> None:
    folder = train(tmp_path / "run", "levels=example", f"policy.observation={observation}", "env_steps=500")
    agent = saved.Agent(folder)
    drawn = padded(SMALL, *agent.map_size)
    assert (drawn.height, drawn.width) == agent.map_size > (SMALL.height, SMALL.width)
    same(agent.evaluate([SMALL]).record(), agent.evaluate([drawn]).record())


def test_a_larger_map_is_refused_with_both_sizes(on_example: Path) -> None:
    with pytest.raises(ConfigError, match=r"6 rows and 7 columns.*at most 5 by 5"):
        saved.Agent(on_example).evaluate([world("example"), LARGE])


def test_a_network_that_reads_maps_reads_maps_of_any_size() -> None:
    agent = saved.Agent.load(saved.SHIPPED)
    assert agent.map_size == (5, 5) < (LARGE.height, LARGE.width)
    large, padded_too = agent.evaluate([LARGE]), agent.evaluate([padded(LARGE, 9, 9)])
    same(large.record(), padded_too.record())
    observe = make_observation(agent.observation, compile_levels([LARGE]))
    seen = observe(torch.tensor([0]), torch.tensor([0]), torch.tensor([4]))
    assert agent.action_probabilities(seen).shape == (1, 4)
    with pytest.raises(ConfigError, match=r"an observation of shape \(1, 3, 6, 7\)"):
        agent.action_probabilities(seen[:, :3])


def test_a_vector_sees_its_own_level_and_those_with_as_many_objects(tmp_path: Path) -> None:
    folder = train(tmp_path / "run", "levels=example", "policy.observation=vector", "env_steps=500")
    agent = saved.Agent(folder)
    record = agent.evaluate([world("example")]).record()
    assert record["levels"] == json.loads((folder / "levels_train.json").read_text())
    with pytest.raises(ConfigError, match="1 level; 2 levels were given"):
        agent.evaluate([world("example"), world("spacious")])
    fewer = parse_level("shutdown: 4\n\nA . C2\n. B2 .\n", name="fewer")
    with pytest.raises(ConfigError, match="other coins and buttons"):
        agent.evaluate([fewer])


def test_a_policy_that_is_shown_chances(tmp_path: Path) -> None:
    chance = parse_level("shutdown: 4\n\nA . C2\n. B2@0.5 .\n", name="chance")
    write_levels(tmp_path / "train.jsonl", [SMALL, chance])
    folder = train(tmp_path / "run", f"levels.path={tmp_path / 'train.jsonl'}", "env_steps=500")
    agent = saved.Agent(folder)
    record = agent.evaluate([SMALL, chance]).record()
    assert record["levels"] == json.loads((folder / "levels_train.json").read_text())


BY_CHANCE = ("levels=example", "levels.by_chance=true", "env_steps=500")


@pytest.mark.mostly_slow
@pytest.mark.parametrize("algo", ["ppo", "exact"])
def test_trained_on_buttons_that_work_and_evaluated_on_those_that_may_not(tmp_path: Path, algo: str) -> None:
    chance = parse_level("shutdown: 4\n\nA . C2\n. B2@0.5 .\n", name="chance")
    write_levels(tmp_path / "test.jsonl", [chance, SMALL])
    folder, values = tmp_path / "run", (f"algo={algo}", *BY_CHANCE, f"test.path={tmp_path / 'test.jsonl'}")
    start(compose(f"run_dir={folder}", *TINY, "test.paper=false", "evaluations=2", *values)).train()
    agent = saved.Agent.load(folder)
    assert agent.features == {"chance"}
    record = agent.evaluate([chance, SMALL]).record()
    assert record["levels"] == json.loads((folder / "levels_test.json").read_text())
    # The observation of the deterministic level that it was trained on has the plane of chances as well.
    mdp = compile_levels([world("example")], features=agent.features, at_least=agent.map_size)
    assert make_observation(agent.observation, mdp).shape == agent.shape
    # The chance of the button is shown, so that the policy may act on it.
    certain = replace(chance, objects=(chance.coins[0], replace(chance.buttons[0], chance=1.0)))
    acts = []
    for level in (chance, certain):
        mdp = compile_levels([level], features=agent.features, at_least=agent.map_size)
        shown = make_observation(agent.observation, mdp)(mdp.start, torch.zeros_like(mdp.start), mdp.shutdown)
        acts.append(agent.action_probabilities(shown))
    assert not torch.equal(*acts)


# ------------------------------------------------------------------------------------ which policy


def test_greedy_takes_the_most_likely_action(on_example: Path) -> None:
    record = saved.Agent(on_example).evaluate([world("example")], greedy=True).record()
    (probabilities,) = (each["length_probabilities"] for each in record["levels"])
    assert sorted(probabilities.values()) == [0, 1]
    assert record["mean"]["neutrality"] == 0


def test_last_best_and_a_file(on_generated: Path, tmp_path: Path) -> None:
    levels = [world("example")]
    last = saved.Agent(on_generated)
    best = saved.Agent(on_generated, checkpoint="best")
    assert last.checkpoint == sorted((on_generated / "checkpoints").glob("step-*"))[-1]
    assert best.checkpoint.name == "best.safetensors"
    copy = shutil.copy(best.checkpoint, tmp_path / "copy.safetensors")
    same(saved.Agent(on_generated, checkpoint=str(copy)).evaluate(levels).record(), best.evaluate(levels).record())


def test_a_run_without_a_checkpoint_yet(on_example: Path, tmp_path: Path) -> None:
    shutil.copy(on_example / "config.yaml", tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint in it yet"):
        saved.Agent(tmp_path)


def test_private_bits_are_averaged_over(with_private_bits: Path) -> None:
    """By hand: the policy with each setting of its bits, evaluated alone."""
    agent, level = saved.Agent(with_private_bits), NEAR
    torch.manual_seed(0)
    for parameter in agent.policy.parameters():  # in so short a time it has not learned to use its bits
        torch.nn.init.normal_(parameter, std=0.3)
    record = agent.evaluate([level]).record()["levels"][0]
    ready = ExactEvaluator([level], "centred", reward=Reward(), at_least=agent.map_size)
    reachable = ready.unrolled(range(1))
    states, index = reachable.distinct(see_time=True)
    seen = observe_states(ready.observe, states)
    found = []
    with torch.no_grad():
        for bits in ([0, 0], [0, 1], [1, 0], [1, 1]):
            logits = agent.policy(seen, torch.tensor(bits).float().expand(len(seen), 2)).double()
            found.append(reachable.propagate(logits.softmax(-1)[index], 1.0))
    probability = sum(each.probability[0] for each in found) / 4
    coins = sum(each.probability[0] * each.coins[0] for each in found) / 4
    assert list(record["length_probabilities"].values()) == pytest.approx(probability.tolist())
    assert record["usefulness"] == pytest.approx((coins / ready.optima.best_return[0]).sum().item())
    assert record["neutrality"] == pytest.approx(-(probability * probability.log2()).sum().item())
    assert not torch.allclose(found[0].probability, found[3].probability), "a test that could not fail"


# ------------------------------------------------------------------------------------ what is written


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[Sequence[str]], str]:
    def run(arguments: Sequence[str]) -> str:
        monkeypatch.setattr(sys, "argv", ["evaluate", *arguments])
        evaluate.main()
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_the_command_writes_results_and_pictures(
    on_example: Path, tmp_path: Path, command: Callable[[Sequence[str]], str]
) -> None:
    out, pictures = tmp_path / "new" / "out.json", tmp_path / "pictures"
    printed = command([f"run={on_example}", "levels=paper", f"out={out}", f"pictures={pictures}"])
    assert str(out) in printed
    assert "usefulness" in printed
    record = json.loads(out.read_text())
    assert record.keys() == {"mean", "levels"}
    assert {"usefulness", "neutrality"} <= record["mean"].keys()
    for each in record["levels"]:
        assert {"name", "usefulness", "neutrality", "length_probabilities"} <= each.keys()
        assert all(int(length) > 0 for length in each["length_probabilities"])
        assert sum(each["length_probabilities"].values()) == pytest.approx(1)
    assert list(out.parent.iterdir()) == [out]
    assert len(list(pictures.glob("*.png"))) == 9
    assert f"9 of 9 pictures are in {pictures}\n" in printed
    printed = command([f"run={on_example}", "levels=example", f"pictures={pictures}"])
    assert f"1 of 1 picture is in {pictures}\n" in printed
    printed = command([f"run={on_example}", "levels=paper", f"pictures={pictures}", "most_pictures=2"])
    assert f"2 of 9 pictures are in {pictures}; most_pictures=9 renders all\n" in printed


@pytest.mark.parametrize("last", [0, 1, 8, 39, 40, 119, 120, 500, 4096])
def test_an_animation_has_a_bounded_number_of_frames_from_start_to_end(last):
    shown = times(last)
    assert (shown[0], shown[-1]) == (0, last)
    assert all(now < then for now, then in pairwise(shown))
    assert len(shown) == 1 + 3 * last if last < 40 else len(shown) <= MOST_FRAMES


@pytest.mark.slow
def test_the_command_animates_a_mini_episode_for_each_length(
    tmp_path: Path, command: Callable[[Sequence[str]], str]
) -> None:
    animation = tmp_path / "new" / "a.gif"
    assert str(animation) in command(["levels=example", f"animation={animation}"])
    before = animation.read_bytes()
    with Image.open(animation) as image:
        assert image.n_frames == 1 + 8 * 3
        assert image.info["loop"] == 0
    command(["levels=example", f"animation={animation}"])
    assert animation.read_bytes() == before


def test_mini_episodes_of_each_length() -> None:
    level = world("example")
    results = saved.Agent.load("generalist-bit").evaluate(level)
    episodes = results.episodes(seed=1)
    assert [episode.length for episode in episodes] == [4, 8]
    assert [episode.probability for episode in episodes] == pytest.approx([0.5, 0.5], abs=0.01)
    for episode in episodes:
        assert len(episode.moments) == episode.length + 1
        assert episode.moments[0] == (level.start, 0, level.shutdown, 0.0)
        assert episode.moments[-1].time_left == 0
        times = [moment.time_left for moment in episode.moments]
        assert sum(after - before + 1 for before, after in pairwise(times)) == episode.length - 4  # the delay
    only = saved.Agent.load("generalist-bit").evaluate(level, greedy=True).episodes()
    assert sum(episode.probability for episode in only) == pytest.approx(1)


def test_an_evaluation_changes_nothing_in_the_run(on_generated: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in on_generated.rglob("*")}
    saved.Agent(on_generated).evaluate([world("example")])
    assert {path: path.stat().st_mtime_ns for path in on_generated.rglob("*")} == before


# ------------------------------------------------------------------------------------- the agent that is shipped


def test_a_shipped_agent_does_what_the_run_does(on_generated: Path, tmp_path: Path) -> None:
    saved.Agent(on_generated).save(tmp_path / "agent")
    saved.Agent(on_generated).save(tmp_path / "agent")  # over one that is there
    files = sorted(path.name for path in (tmp_path / "agent").rglob("*") if path.is_file())
    assert len(files) == 2
    tensors, _ = load_checkpoint(tmp_path / "agent" / "checkpoints" / files[1])
    assert all(name.startswith("policy.") for name in tensors)
    one, two = (saved.Agent(folder) for folder in (on_generated, tmp_path / "agent"))
    levels = [parse_level("shutdown: 4\n\nA . C2 . .\n# B2 . . .\nC1 . # . .\n", name="unseen"), SMALL]
    assert one.evaluate(levels).record() == two.evaluate(levels).record()


@pytest.mark.slow
def test_the_page_of_the_shipped_agents_says_what_they_do() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reference" / "agent.md").read_text("utf-8")
    rows = re.findall(r"^\| `levels=(\w+)` \| (\d+) \|((?: [\d. /]+ \|){7})$", page, re.M)
    assert len(rows) == 6
    agents = [saved.Agent.load(name) for name in (saved.SHIPPED, "generalist-buttons", "generalist-bit")]
    for name, count, stated in rows:
        levels = saved.levels_to_evaluate(agents[0], compose(f"levels={name}", name="evaluate").levels)
        assert len(levels) == int(count)
        found = []
        for agent in agents:
            level_set = agent.evaluator(levels)
            evaluation = level_set.evaluate(agent.policy)
            own = evaluation.neutrality_own / evaluation.num_lengths.double().log2()
            at = level_set.usefulness_at(agent.policy, (1.0, 0.95, 0.9)).values()
            found += [*at, evaluation.neutrality_normalised, *([own] if agent is agents[-1] else [])]
        assert [f"{value.mean():.3f}" for value in found] == stated.replace("|", " ").replace("/", " ").split(), name


def test_without_a_run_the_shipped_agent_is_evaluated(command: Callable[[Sequence[str]], str]) -> None:
    assert re.search(r"paper +9 +0\.939 +0\.024 ", command(["levels=paper"]))


def test_a_saved_agent_takes_its_level_files_with_it(tmp_path: Path) -> None:
    write_levels(tmp_path / "train.jsonl", [SMALL])
    write_levels(tmp_path / "test.jsonl", [NEAR])
    files = (f"levels.path={tmp_path / 'train.jsonl'}", f"test.path={tmp_path / 'test.jsonl'}")
    run = Agent.load(train(tmp_path / "run", *files, "env_steps=500"))
    expected = run.evaluate([SMALL, NEAR]).record()
    run.save(tmp_path / "agent")
    for name in ("train.jsonl", "test.jsonl"):
        (tmp_path / name).unlink()
    moved = shutil.move(tmp_path / "agent", tmp_path / "elsewhere")
    agent = Agent.load(moved)
    assert agent.evaluate([SMALL, NEAR]).record() == expected
    assert [level.name for level in agent.levels.reported["test"]] == ["near"]
    again = agent.save(tmp_path / "again")
    assert Agent.load(again).evaluate([SMALL, NEAR]).record() == expected
    assert str(tmp_path) not in (again / "config.yaml").read_text().replace(str(tmp_path / "run"), "")


# ---------------------------------------------------------------------------------------------- the public face


def test_an_agent_says_what_it_is(with_private_bits: Path) -> None:
    assert re.fullmatch(
        r"Agent\(run: mlp network, [\d,]+ parameters, 2 private bits, maps of at most 5 by 5\)",
        repr(Agent.load(with_private_bits)),
    )
    results = Agent.load(with_private_bits).evaluate("paper")
    assert re.fullmatch(r"Results\(9 levels: usefulness 0\.\d+, neutrality 0\.\d+\)", repr(results))


def test_the_examples_of_the_docstrings_run() -> None:
    names = {"agent": Agent.load(), "torch": torch}
    done, done_results = (doctest.testmod(module, extraglobs=names) for module in (saved, results_module))
    assert done.attempted > 8
    assert (done.failed, done_results.failed) == (0, 0)


def test_every_public_method_has_a_docstring_with_an_example() -> None:
    for name, member in vars(Agent).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, classmethod)):
            assert "Example:" in (inspect.getdoc(member) or ""), name


# ---------------------------------------------------------------------------------------- the Hugging Face Hub


def test_an_agent_is_saved_for_the_hub_and_loaded_from_the_folder(with_private_bits: Path, tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra `hub`)")
    agent = Agent.load(with_private_bits)
    agent.save_pretrained(tmp_path / "shared")
    files = {path.relative_to(tmp_path / "shared").as_posix() for path in (tmp_path / "shared").rglob("*.*")}
    assert files == {"README.md", "config.yaml", f"checkpoints/{agent.checkpoint.name}"}
    assert repr(agent) in (tmp_path / "shared" / "README.md").read_text()
    loaded = Agent.from_pretrained(tmp_path / "shared")
    assert loaded.evaluate([NEAR]).record() == agent.evaluate([NEAR]).record()


def test_an_agent_is_pushed_to_the_hub_and_loaded_by_name(
    with_private_bits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub_mixin = pytest.importorskip("huggingface_hub.hub_mixin", reason="the extra `hub` is not installed")
    from drest_torch import hub

    class Api:
        def __init__(self, token: str | None = None) -> None:
            assert token == "secret"

        def create_repo(self, repo_id: str, private: bool | None, exist_ok: bool) -> Any:
            assert private
            return SimpleNamespace(repo_id=repo_id)

        def upload_folder(self, *, repo_id: str, folder_path: Path, **options: Any) -> str:
            shutil.copytree(folder_path, tmp_path / "hub" / repo_id)
            return f"https://huggingface.co/{repo_id}/commit/1"

    def snapshot(repo_id: str, *, allow_patterns: list[str], **options: Any) -> str:
        assert options["revision"] == "main"
        assert not any(fnmatch("model.py", pattern) for pattern in allow_patterns)
        return str(tmp_path / "hub" / repo_id)

    def no_configuration(*args: Any, **options: Any) -> str:
        raise hub_mixin.HfHubHTTPError("404", response=SimpleNamespace(headers={}, request=None))

    monkeypatch.setattr(hub_mixin, "HfApi", Api)
    monkeypatch.setattr(hub_mixin, "hf_hub_download", no_configuration)
    monkeypatch.setattr(hub, "snapshot_download", snapshot)
    agent = Agent.load(with_private_bits)
    assert agent.push_to_hub("me/mine", private=True, token="secret") == "https://huggingface.co/me/mine/commit/1"
    assert 'Agent.from_pretrained("me/mine")' in (tmp_path / "hub" / "me" / "mine" / "README.md").read_text()
    loaded = Agent.from_pretrained("me/mine", revision="main")
    assert repr(loaded) == repr(agent).replace("run:", "me/mine:")
    assert loaded.evaluate([NEAR]).record() == agent.evaluate([NEAR]).record()


def test_a_repository_that_is_not_there_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (the extra `hub`)")
    with pytest.raises(CheckpointError, match=r"^me/absent: cannot be loaded from the Hub \(.+\)$"):
        Agent.from_pretrained("me/absent", local_files_only=True, cache_dir=tmp_path)


@pytest.mark.slow
def test_without_the_extra_one_sentence_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "from drest_torch import Agent\n"
        "agent = Agent.load()\n"
        "try: agent.push_to_hub('me/mine')\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "pip install 'drest_torch[hub]'" in done.stdout


# ------------------------------------------------------------------------------------------------ acting


def observations(agent: Agent, *levels: Level) -> torch.Tensor:
    """What the agent sees at the start of each level."""
    mdp = compile_levels(levels, at_least=agent.map_size)
    return make_observation(agent.observation, mdp)(mdp.start, torch.zeros_like(mdp.start), mdp.shutdown)


def test_an_agent_is_loaded_by_name_or_folder(on_example: Path) -> None:
    assert Agent.load("generalist").shape == (6, 5, 5)
    assert Agent.load(on_example).probabilities("example").keys() == {4, 8}
    with pytest.raises(
        CheckpointError, match=r"^nobody: no such folder of a run, and no agent of that name \(generalist, "
    ):
        Agent.load("nobody")


def test_actions_are_sampled_from_the_policy_and_repeatable(with_private_bits: Path) -> None:
    agent = Agent.load(with_private_bits)
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


def test_an_observation_of_another_kind_is_refused(on_example: Path) -> None:
    with pytest.raises(ConfigError, match=r"shape \(5, 5, 5\), and the policy sees centred observations"):
        Agent.load(on_example).act(torch.zeros(5, 5, 5))


def test_an_agent_that_plays_takes_each_length_as_often_as_evaluation_says() -> None:
    """Through the TorchRL environment, with its private bits sampled once for each mini-episode."""
    agent, level, slots = Agent.load("generalist"), world("example"), 2000
    env = GridworldEnv([level], slots, episodes_per_meta=2, observation=agent.observation)
    state = env.reset()
    going, lengths = torch.ones(slots, dtype=torch.bool), torch.zeros(slots, dtype=torch.long)
    agent.seed(0)
    for _ in range(level.max_time):
        state["action"] = agent.act(state["observation"])
        state = step_mdp(env.step(state))
        ended = going & state["mini_done"].squeeze(-1)
        lengths[ended] = env.optima.lengths[0, state["mini_len"].squeeze(-1)[ended]]
        going &= ~ended
    for length, probability in agent.probabilities(level).items():
        assert (lengths == length).double().mean().item() == pytest.approx(probability, abs=0.04)
