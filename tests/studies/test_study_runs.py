"""A training run as a run of a study: it has the configuration of a command, and resumes after a stop."""

import json
import shutil
import signal

import pytest

from drest_torch.agent import Agent
from drest_torch.config.schema import config_folder
from drest_torch.envs.levels import world
from drest_torch.errors import ConfigError
from drest_torch.evaluation.exact_evaluator import ExactEvaluator
from drest_torch.jobs.training_job import train, training_jobs
from drest_torch.reward import Reward
from drest_torch.training.run import Run

TINY = {"env_steps": 4000, "evaluations": 4, "policy": {"width": 16, "depth": 1}, "algo": {"episodes": 128}}


def tiny(values=TINY, **options):
    (job,) = training_jobs("run", [0], values, **{"algo": "ppo", "levels": "example"} | options)
    return job


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return the folder and the result of an undisturbed run."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(tiny().spec, folder)


def test_a_changed_default_makes_another_run(tmp_path, monkeypatch):
    digests = [tiny().digest()]
    for name, lr in (("same", "0.003"), ("changed", "0.002")):
        shutil.copytree(config_folder(), tmp_path / name)
        path = tmp_path / name / "algo" / "ppo.yaml"
        path.write_text(path.read_text("utf-8").replace("lr: 0.003", f"lr: {lr}"), "utf-8")
        monkeypatch.setattr("drest_torch.config.compose.config_folder", lambda name=name: tmp_path / name)
        digests.append(tiny().digest())
    assert digests[0] == digests[1] != digests[2]


def test_keys_of_later_versions_are_stored_if_they_are_used():
    values = TINY | {"levels": {"regret": {"every": 3}}}
    assert "sampler" not in tiny().spec["config"]["levels"]
    assert "regret" not in tiny().spec["config"]["levels"]
    assert tiny(values).spec["config"]["levels"]["regret"] == {"every": 3}


@pytest.mark.parametrize(
    ("network", "muon_lr", "stored"),
    [("symmetric", 0.02, True), ("planning", 0.02, True), ("mlp", 0.02, False), ("symmetric", None, False)],
)
def test_the_matrix_of_muon_is_stored_where_it_matters(network, muon_lr, stored):
    values = {"algo": {"episodes": 128, "muon_lr": muon_lr}}
    (job,) = training_jobs("run", [0], values, algo="ppo", levels="example", policy=network)
    assert ("muon_matrix" in job.spec["config"]["algo"]) == stored
    (job,) = training_jobs("run", [0], values, ["algo.muon_matrix=block"], algo="ppo", levels="example", policy=network)
    assert "muon_matrix" not in job.spec["config"]["algo"]


def test_arguments_of_a_study_override_common_arguments():
    (job,) = training_jobs("run", [0], arguments=["threads=2"])
    assert job.spec["config"]["threads"] == 2
    assert job.spec["config"]["keep_last"] == 1


def test_an_invalid_configuration_is_refused_before_any_run():
    with pytest.raises(ConfigError, match=r"^reward.group=7 does not divide algo.episodes"):
        training_jobs("one", range(3), {"reward": {"group": 7}})


def test_a_job_can_need_a_device_of_another_machine(tmp_path):
    """The device is checked only when the run is executed."""
    job = tiny(values=TINY | {"device": "cuda:99"})
    assert job.spec["config"]["device"] == "cuda:99"
    with pytest.raises(ConfigError, match=r"^device=cuda:99, but torch finds \d+ CUDA devices here"):
        train(job.spec, tmp_path)


def content(result):
    """Return the content of a result without the wall-clock time."""
    numbers, arrays = result.checked().numbers | {"wall_seconds": 0}, result.arrays.items()
    return numbers, {name: (array.dtype, array.tolist()) for name, array in arrays}


def test_a_result_agrees_with_the_folder_of_the_run(whole):
    folder, result = whole
    summary = json.loads((folder / "summary.json").read_text("utf-8"))
    assert result.numbers == {name: summary[name] for name in result.numbers}
    assert {"splits", "env_steps", "mini_episodes", "wall_seconds"} == result.numbers.keys()
    arrays = result.arrays
    assert len(arrays["steps"]) == 5  # before the first update, and four times
    assert arrays["steps"][0] == 0
    assert arrays["steps"][-1] == result.numbers["env_steps"]
    for name in ("usefulness", "neutrality", "p_length/4", "p_length/8"):
        assert arrays[f"eval/train/{name}"].shape == (5,)
    metrics = summary["splits"]["train"]
    for name in ("usefulness", "neutrality"):
        assert arrays[f"train/{name}"] == pytest.approx([metrics[name]])
        assert arrays[f"eval/train/{name}"][-1] == pytest.approx(metrics[name])
    assert arrays["train/lengths"].tolist() == [4, 8]
    assert arrays["train/p_length"].sum() == pytest.approx(1)
    assert arrays["train/p_longest"] == pytest.approx(arrays["train/p_length"][-1:])
    assert arrays["train/p_length"] @ arrays["train/share_of_best"] == pytest.approx(metrics["usefulness"])
    agent = Agent(folder)  # the same folder, read as a user does it
    ready = ExactEvaluator([world("example")], "centred", reward=Reward())
    assert arrays["train/policy"] == pytest.approx(ready.probabilities(agent.policy).numpy(), abs=1e-6)


def test_a_run_on_several_levels_has_a_value_for_each(tmp_path):
    result = train(tiny(algo="reinforce", levels="paper").spec, tmp_path)
    assert result.arrays["train/usefulness"].shape == result.arrays["train/neutrality"].shape == (9,)
    assert "train/policy" not in result.arrays
    mean = result.numbers["splits"]["train"]["usefulness"]
    assert result.arrays["train/usefulness"].mean() == pytest.approx(mean, abs=1e-6)


def power_cut(*_):
    raise SystemError


@pytest.mark.parametrize(
    ("interrupt", "error", "updates"),
    [
        (lambda: signal.raise_signal(signal.SIGTERM), KeyboardInterrupt, 5),
        (power_cut, SystemError, 5),
        (power_cut, SystemError, 0),
    ],
    ids=["stopped", "killed", "killed at once"],
)
def test_an_interrupted_run_ends_like_an_undisturbed_run(whole, tmp_path, monkeypatch, interrupt, error, updates):
    update, calls = Run.update, iter(range(100))

    def interrupted_update(run):
        if next(calls) == updates:
            interrupt()
        return update(run)

    with monkeypatch.context() as patched:
        patched.setattr(Run, "update", interrupted_update)
        with pytest.raises(error):
            train(tiny().spec, tmp_path / "parts")
    assert not (tmp_path / "parts" / "summary.json").exists()
    moved = (tmp_path / "parts").rename(tmp_path / "moved")
    assert content(train(tiny().spec, moved)) == content(whole[1])


def test_a_finished_run_without_a_result_is_not_retrained(whole, monkeypatch):
    folder, result = whole
    monkeypatch.setattr(Run, "update", power_cut)
    again = train(tiny().spec, folder)
    assert content(again) == content(result)
    assert again.numbers["wall_seconds"] == result.numbers["wall_seconds"]
