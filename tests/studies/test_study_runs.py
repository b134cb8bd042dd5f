"""A training run as a run of a study: it has the values of a command, and goes on where it was stopped."""

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf

from drest_torch.agent import Agent
from drest_torch.config.compose import compose
from drest_torch.config.schema import config_folder
from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.evaluation.exact import ExactEvaluator
from drest_torch.jobs.executor import run_jobs
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.local import Local
from drest_torch.jobs.store import Store
from drest_torch.jobs.training_job import run_config, train, training_jobs
from drest_torch.reward import Reward
from drest_torch.training.run import Run

TINY = {"env_steps": 4000, "evaluations": 4, "policy": {"width": 16, "depth": 1}, "algo": {"episodes": 128}}


def plain(cfg: Any) -> Any:
    return OmegaConf.to_container(cfg, resolve=True)


def tiny(seed: int = 0, values: Any = TINY, **options: str) -> Job:
    (job,) = training_jobs("run", [seed], values, **{"algo": "ppo", "levels": "example"} | options)
    return job


@pytest.fixture(scope="module")
def job() -> Job:
    return tiny()


@pytest.fixture(scope="module")
def whole(job: Job, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """The folder and the result of the run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(job.spec, folder)


def test_options_are_chosen_and_values_set_last() -> None:
    values = {"run_dir": "x", "env_steps": 1000, "reward": {"gamma": 0.95}, "logger": {"tags": ["a", "b"]}}
    expected = ["env_steps=1000", "reward.gamma=0.95", "logger.tags=[a,b]", "run_dir=x"]
    found = run_config(values, algo="a2c", levels="spacious", reward="default")
    assert plain(found) == plain(compose("algo=a2c", "levels=spacious", "reward=default", *expected))
    assert plain(run_config(OmegaConf.create(values), algo="a2c", levels="spacious", reward="default")) == plain(found)


def test_a_job_holds_every_value(job: Job) -> None:
    said = ["algo=ppo", "levels=example", "logger=none", "env_steps=4000", "evaluations=4", "policy.width=16"]
    said += ["policy.depth=1", "algo.episodes=128"]
    kept = ["test.paper=false", "threads=1", "keep_last=1", "pictures=0", "progress=false"]
    expected = plain(compose(*said, *kept, "run_dir=x")) | {"run_dir": ""}
    del expected["reward"]["rule"]
    assert job.spec["config"] == expected
    assert tiny(values=dict(reversed(TINY.items()))).digest() == job.digest()
    others = [tiny(algo="a2c"), tiny(1), tiny(values=TINY | {"seed": 1}, seed=2)]
    assert len({each.digest() for each in [job, *others]}) == 4
    assert [each.spec["config"]["seed"] for each in others] == [0, 1, 2]
    assert [each.name for each in training_jobs("name", range(2))] == ["name-0", "name-1"]


def test_a_changed_default_makes_another_run(job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("same", "changed"):
        shutil.copytree(config_folder(), tmp_path / name)
    monkeypatch.setattr("drest_torch.config.compose.config_folder", lambda: tmp_path / "same")
    assert tiny().digest() == job.digest()
    path = tmp_path / "changed" / "algo" / "ppo.yaml"
    path.write_text(path.read_text("utf-8").replace("lr: 0.003", "lr: 0.002"), "utf-8")
    monkeypatch.setattr("drest_torch.config.compose.config_folder", lambda: tmp_path / "changed")
    assert tiny().digest() != job.digest()


def test_a_value_that_nothing_can_be_done_with_is_refused_before_any_run() -> None:
    with pytest.raises(ConfigError, match=r"^algo.lr=-1.0; expected"):
        training_jobs("one", range(3), {"algo": {"lr": -1}})
    with pytest.raises(ConfigError, match=r"^reward.group=7 does not divide algo.episodes"):
        training_jobs("one", range(3), {"reward": {"group": 7}})


def test_a_run_for_a_device_that_only_other_machines_have_can_be_described(tmp_path: Path) -> None:
    job = tiny(values=TINY | {"device": "cuda:99"})
    assert job.spec["config"]["device"] == "cuda:99"
    with pytest.raises(ConfigError, match=r"^device=cuda:99, but torch finds \d+ CUDA devices here"):
        train(job.spec, tmp_path)
    with pytest.raises(ConfigError, match=r"^device=gpu; expected"):
        tiny(values=TINY | {"device": "gpu"})


def same(one: Result, two: Result) -> None:
    """Up to the clock on the wall."""
    first, second = one.checked(), two.checked()
    assert first.numbers | {"wall_seconds": 0} == second.numbers | {"wall_seconds": 0}
    assert first.arrays.keys() == second.arrays.keys()
    for name, array in first.arrays.items():
        assert array.dtype == second.arrays[name].dtype
        assert np.array_equal(array, second.arrays[name]), name


def test_a_result_says_what_the_run_has_left_behind(whole: tuple[Path, Result]) -> None:
    folder, result = whole
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert result.numbers == {name: summary[name] for name in result.numbers}
    assert {"splits", "env_steps", "mini_episodes", "wall_seconds"} == result.numbers.keys()
    arrays = result.arrays
    assert len(arrays["steps"]) == 5  # before the first update, and four times
    assert (arrays["steps"][0], arrays["steps"][-1]) == (0, result.numbers["env_steps"])
    for name in ("usefulness", "neutrality", "p_length/4", "p_length/8"):
        assert arrays[f"eval/train/{name}"].shape == (5,)
    found = summary["splits"]["train"]
    for name in ("usefulness", "neutrality"):
        assert arrays[f"train/{name}"] == pytest.approx([found[name]])
        assert arrays[f"eval/train/{name}"][-1] == pytest.approx(found[name])
    assert arrays["train/lengths"].tolist() == [4, 8]
    assert arrays["train/p_length"].sum() == pytest.approx(1)
    assert arrays["train/p_length"] @ arrays["train/share_of_best"] == pytest.approx(found["usefulness"])
    agent = Agent(folder)  # the same folder, read as a user does it
    ready = ExactEvaluator([world("example")], "centred", reward=Reward())
    assert arrays["train/policy"] == pytest.approx(ready.probabilities(agent.policy).numpy(), abs=1e-6)


def test_a_run_on_several_levels_has_their_values(tmp_path: Path) -> None:
    result = train(tiny(algo="reinforce", levels="paper").spec, tmp_path)
    assert result.arrays["train/usefulness"].shape == result.arrays["train/neutrality"].shape == (9,)
    assert "train/policy" not in result.arrays
    assert result.arrays["train/usefulness"].mean() == pytest.approx(
        result.numbers["splits"]["train"]["usefulness"], abs=1e-6
    )


def interrupted(monkeypatch: pytest.MonkeyPatch, updates: int, what: Any) -> None:
    """Let it happen in the update after so many."""
    update = Run.update
    count = 0

    def counted(run: Run) -> Any:
        nonlocal count
        count += 1
        if count == updates + 1:
            what()
        return update(run)

    monkeypatch.setattr(Run, "update", counted)


def stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def power_cut() -> None:
    raise SystemError


@pytest.mark.parametrize(("what", "seen"), [(stop, KeyboardInterrupt), (power_cut, SystemError)])
@pytest.mark.parametrize("updates", [0, 5])
def test_a_run_that_was_stopped_or_killed_goes_on_and_ends_as_if_it_had_not(
    job: Job,
    whole: tuple[Path, Result],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: Any,
    seen: Any,
    updates: int,
) -> None:
    with monkeypatch.context() as patched:
        interrupted(patched, updates, what)
        with pytest.raises(seen):
            train(job.spec, tmp_path / "parts")
    assert not (tmp_path / "parts" / "summary.json").exists()
    moved = (tmp_path / "parts").rename(tmp_path / "moved")
    same(train(job.spec, moved), whole[1])


def test_a_finished_run_without_a_result_is_evaluated_again_and_not_trained(
    job: Job, whole: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, result = whole
    monkeypatch.setattr(Run, "update", power_cut)
    again = train(job.spec, folder)
    same(again, result)
    assert again.numbers["wall_seconds"] == result.numbers["wall_seconds"]


def test_what_cannot_be_resumed_is_a_failure_and_takes_no_other_run_with_it(job: Job, tmp_path: Path) -> None:
    store = Store(tmp_path)
    checkpoints = store.folder_of(job) / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "step-000000002000.safetensors").write_bytes(b"not a checkpoint")
    other = tiny(1)
    (failure,) = run_jobs([job, other], store, Local(0))
    assert failure.job.name == job.name
    assert "CheckpointError" in failure.reason
    assert store.get(job) is None
    assert store.get(other) is not None
