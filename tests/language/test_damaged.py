"""Runs and models that are damaged, changed or a stranger's: a sentence says why, and nothing is lost."""

import math
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from drest_torch.agent import Agent
from drest_torch.agents.checkpoints import load_checkpoint, save_checkpoint, step_checkpoints
from drest_torch.commands import language_models as command
from drest_torch.errors import CheckpointError
from drest_torch.language import prompt_files
from drest_torch.language import prompts as data
from drest_torch.language.config import stored
from drest_torch.language.model import load, small
from drest_torch.language.training import resume, trained
from tests.helpers.language import SHORT, begun, transformers


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with a model of transformers, ``base``, and a run that was trained from it, ``run``."""
    folder = tmp_path_factory.mktemp("kept")
    save(small(0), folder / "base")
    begun(folder / "run", model=str(folder / "base"), muon_lr=0.01, **SHORT).train()
    return folder


@pytest.fixture
def copied(kept, tmp_path):
    """A copy of its run."""
    return Path(shutil.copytree(kept / "run", tmp_path / "run"))


def save(model, folder):
    for part in (model.model, model.tokenizer):
        part.save_pretrained(folder)


def lacking(*starts):
    """Return a change of tensors that leaves out those whose names begin so."""
    return lambda tensors: {name: value for name, value in tensors.items() if not starts or not name.startswith(starts)}


def changed(name, change):
    return lambda tensors: tensors | {name: change(tensors[name])}


NORM = "policy.model.norm.weight"
DAMAGED = {
    "no weights": (lacking("policy."), "is missing"),
    "a weight is missing": (lacking(NORM), f"the tensor '{NORM}' is missing"),
    "a weight too many": (lambda tensors: tensors | {"policy.more": torch.zeros(1)}, "1 policy tensors too many"),
    "another shape": (changed(NORM, lambda value: value[:5].clone()), r"torch.float32 \(5,\)"),
    "another type": (changed(NORM, Tensor.double), "torch.float64"),
    "not a number": (changed(NORM, lambda value: value * math.nan), "values that are not finite"),
}
"""What is wrong with the tensors of a checkpoint, for resuming and for evaluating."""


@transformers
@pytest.mark.parametrize("kind", DAMAGED)
def test_a_checkpoint_without_its_weights_is_refused(kind, copied):
    change, sentence = DAMAGED[kind]
    (path,) = step_checkpoints(copied / "checkpoints")
    tensors, meta = load_checkpoint(path)
    save_checkpoint(path, change(tensors), meta)
    for read in (trained, resume):
        with pytest.raises(CheckpointError, match=sentence):
            read(copied)


@transformers
@pytest.mark.parametrize(
    ("change", "values"),
    [
        (lacking("generator"), {}),
        (changed("generator", lambda value: value[:9].clone()), {}),
        (lacking("optimizer.adam.0.exp_avg_sq"), {}),
        (lacking(), {"updates": -1}),
        (lacking(), {"updates": 10**9}),
        (lacking(), {"updates": "1"}),
        (lacking(), {"steps": -1}),
        (lacking(), {"steps": 10**30}),
        (lacking(), {"wall_seconds": None}),
        (lacking(), {"wall_seconds": -1.0}),
        (lacking(), {"processor_seconds": 1e30}),
    ],
)
def test_a_checkpoint_without_its_progress_is_not_resume(change, values, copied):
    (path,) = step_checkpoints(copied / "checkpoints")
    tensors, meta = load_checkpoint(path)
    save_checkpoint(path, change(tensors), meta | values)
    with pytest.raises(CheckpointError, match=r"no checkpoint of this run \(.+\); use another one of the run"):
        resume(copied)


@transformers
def test_a_run_of_an_earlier_version_is_evaluated_and_resumed(copied):
    """It had names of its own for weights, random numbers and progress."""
    learned = trained(copied).weights()
    (path,) = step_checkpoints(copied / "checkpoints")
    tensors, meta = load_checkpoint(path)
    earlier = {re.sub("^policy", "weights", name).replace("generator", "rng"): value for name, value in tensors.items()}
    save_checkpoint(path, earlier, {"updates": 1, "seconds": 2.5, "of": meta["of"]})
    for weights in (trained(copied).weights(), resume(copied).algorithm.policy.weights()):
        assert all(torch.equal(value, weights[name]) for name, value in learned.items())
    state = resume(copied).state
    assert (state.steps, state.updates, state.processor_seconds) == (1, 1, 2.5)


@transformers
def test_a_language_model_is_no_agent_of_another_evaluation(copied):
    with pytest.raises(CheckpointError, match="is of a language model, which `drest language evaluate` measures"):
        Agent.load(copied)


@transformers
def test_the_base_of_a_run_must_be_the_same(kept, tmp_path):
    """The weights of LoRA mean nothing without those that they are added to."""
    shutil.copytree(kept / "base", tmp_path / "base")
    run_of_lora = begun(tmp_path / "run", model=str(tmp_path / "base"), lora=2, **SHORT)
    run_of_lora.train()
    again = trained(tmp_path / "run").weights()
    learned = run_of_lora.algorithm.policy.weights()
    assert all(torch.equal(value, again[name]) for name, value in learned.items())
    save(small(1), tmp_path / "base")
    for read in (trained, resume):
        with pytest.raises(CheckpointError, match="was saved with another model"):
            read(tmp_path / "run")


@transformers
def test_the_model_of_a_run_with_lora_is_whole(tmp_path):
    made = begun(tmp_path / "run", lora=2, **SHORT | {"updates": 3, "lr": 0.1})
    made.train()
    prompts = data.generate("post", 2, brief=True)
    with torch.no_grad():
        found, trained_to = (
            each.log_probabilities(prompts) for each in (load(str(tmp_path / "run/model")), made.algorithm.policy)
        )
        assert torch.allclose(found, trained_to, atol=1e-4)
        assert not torch.allclose(found, small(0).log_probabilities(prompts), atol=1e-2)


@transformers
def test_the_matrices_of_lora_follow_from_the_seed():
    first, again, other = (load("small", seed=seed, lora=2).model.state_dict() for seed in (0, 0, 1))
    names = [name for name in first if "lora_A" in name]
    assert names
    assert all(torch.equal(first[name], again[name]) for name in names)
    assert not any(torch.equal(first[name], other[name]) for name in names)


@transformers
def test_prompts_that_were_changed_end_a_run(tmp_path, call):
    prompt_files.write(data.generate("post", 2, brief=True), tmp_path / "own.jsonl")
    begun(tmp_path / "run", tasks=str(tmp_path / "own.jsonl"), **SHORT).train()
    assert resume(tmp_path / "run").state.steps == 1
    prompt_files.write(data.generate("post", 2, 1, brief=True), tmp_path / "own.jsonl")
    with pytest.raises(CheckpointError, match="was saved with another tasks"):
        resume(tmp_path / "run")


def cut(folder):
    tensors = load_file(folder / "model.safetensors")
    half = {name: value for name, value in tensors.items() if "mlp" not in name}
    save_file(half, folder / "model.safetensors", {"format": "pt"})


def text(name, words):
    return lambda folder: (folder / name).write_text(words)


MODELS = {
    "half of the tensors": (cut, "12 of its tensors are missing, such as model.layers.0.mlp"),
    "weights that are cut off": (
        lambda folder: os.truncate(folder / "model.safetensors", 1000),
        "cannot be loaded",
    ),
    "a tokenizer that is junk": (text("tokenizer.json", '{"model": 3}'), "cannot be loaded"),
    "a template that raises": (text("chat_template.jinja", "{{ raise_exception('no') }}"), "TemplateError: no"),
    "a template that is none": (text("chat_template.jinja", "{% for"), "the chat template of the model"),
    "a template of nothing": (text("chat_template.jinja", "{{ '' }}"), "has 0 tokens"),
    "code of its own": (
        text("config.json", '{"auto_map": {"AutoConfig": "evil.C"}, "model_type": "evil"}'),
        "cannot be loaded",
    ),
}


@transformers
@pytest.mark.parametrize("kind", MODELS)
def test_a_damaged_model_is_refused(kind, kept, tmp_path, call):
    damage, sentence = MODELS[kind]
    shutil.copytree(kept / "base", tmp_path / "base")
    damage(tmp_path / "base")
    assert sentence in call(command.main, "evaluate", "model=base", "suite=post", "scenarios=2").sentence


@transformers
def test_a_run_goes_on_from_another_directory(kept, tmp_path, monkeypatch):
    monkeypatch.chdir(kept)
    prompt_files.write(data.generate("post", 2, brief=True), kept / "own.jsonl")
    made = begun(tmp_path / "run", model="base", tasks="own.jsonl", **SHORT)
    monkeypatch.chdir(tmp_path)
    assert stored(tmp_path / "run").model == str(kept / "base")
    assert resume(tmp_path / "run").task.prompts == made.task.prompts


@transformers
@pytest.mark.parametrize("words", [["model=nowhere/base"], ["model=base"], ["model=/nowhere/base"]])
def test_no_model_is_looked_up_in_the_network(words, call, monkeypatch):
    def connect(*arguments):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", connect)
    monkeypatch.setattr("socket.getaddrinfo", connect)
    assert "no such folder, and no model of that name was downloaded" in call(command.main, "evaluate", *words).sentence


@transformers
def test_what_a_kill_left_half_written_is_deleted(copied):
    (copied / ".0123456789abcdef.partial").write_text("half")
    (copied / ".x.partial-model").mkdir()
    (copied / ".x.partial-model" / "model.safetensors").write_text("half")
    resume(copied)
    assert not list(copied.glob(".*partial*"))


@transformers
@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", "model=run", "out=run/metrics.json"],
        ["evaluate", "model=run", "out=run/model/config.json"],
        ["evaluate", "model=base", "out=base/config.json"],
        ["evaluate", "model=run", "picture=run/checkpoints/a.png"],
        ["evaluate", "tasks=t.json", "out=t.json"],
        ["tasks", "tasks=t.jsonl", "out=t.jsonl"],
        ["train", "run_dir=run"],
        ["train", "run_dir=other"],
        ["train", "model=model", "run_dir=."],
    ],
)
def test_no_output_replaces_what_is_read(words, kept, tmp_path, call):
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    shutil.copytree(kept / "base", tmp_path / "model")
    for name in ("t.json", "t.jsonl"):
        prompt_files.write(data.generate("post", 2, brief=True), tmp_path / name)
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    (tmp_path / "other" / "checkpoints" / "step-000000000001.safetensors").write_text("mine")
    (tmp_path / "run" / "metrics.json").symlink_to("metrics.jsonl")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    short = [f"{key}={value}" for key, value in SHORT.items()] if words[0] == "train" else ["scenarios=2", "suite=post"]
    assert call(command.main, *words, *short).sentence
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
