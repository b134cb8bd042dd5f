"""Training runs from end to end: files, logs, splits, checkpoints and interruptions."""

import json
import os
import signal

import pytest
from omegaconf import OmegaConf

from drest_torch.agents.checkpoints import load_checkpoint, step_checkpoints
from drest_torch.envs.levels import LevelError
from drest_torch.errors import ConfigError
from drest_torch.files import read_metrics
from drest_torch.tracking.provenance import read_provenance
from drest_torch.training.run import resume, start
from tests.helpers.commands import python
from tests.helpers.runs import FEW, QUIET, configured, metrics
from tests.helpers.wandb_reader import finished_files, read_config, read_history, read_summary


@pytest.fixture(scope="module")
def logged_run(tmp_path_factory):
    """Return the folder and the summary of a run with a logger."""
    folder = tmp_path_factory.mktemp("logged") / "run"
    return folder, start(configured(folder, "logger=wandb")).train()


def test_a_run_writes_its_summary(logged_run):
    folder, summary = logged_run
    assert json.loads((folder / "summary.json").read_text()) == summary
    assert {"algo", "reward", "seed", "env_steps", "wall_seconds", "splits"} <= summary.keys()
    train = summary["splits"]["train"]
    assert train["levels"] == 1
    assert train["optimum"] == {"usefulness": 1.0, "neutrality": 1.0}
    (level,) = json.loads((folder / train["file"]).read_text())
    assert level["name"] == "example"
    assert level["usefulness"] == pytest.approx(train["usefulness"])
    assert sum(level["length_probabilities"].values()) == pytest.approx(1)


def test_a_run_writes_pictures(logged_run):
    folder, _ = logged_run
    for picture in ("learning.png", "train/example.png"):
        assert (folder / "pictures" / picture).stat().st_size > 1000


def test_a_run_writes_the_metrics_of_updates_until_its_end(logged_run):
    folder, summary = logged_run
    assert len(step_checkpoints(folder / "checkpoints")) == 2
    rows = read_metrics(folder / "metrics.jsonl")
    assert rows[0]["step"] == 0
    assert rows[-1]["step"] == summary["env_steps"]
    assert rows[-1]["eval/train/usefulness"] == pytest.approx(summary["splits"]["train"]["usefulness"])
    assert sum("eval/train/usefulness" in row for row in rows) == 5
    assert {"eval/train/p_length/4", "eval/train/p_length/8"} <= rows[0].keys()


def test_a_logger_receives_everything(logged_run):
    folder, summary = logged_run
    train, rows = summary["splits"]["train"], read_metrics(folder / "metrics.jsonl")
    (file,) = finished_files(folder)
    assert read_config(file)["provenance"] == read_provenance(folder)[0]
    assert "provenance" not in OmegaConf.load(folder / "config.yaml")
    assert [{name: logged[name] for name in row} for row, logged in zip(rows, read_history(file), strict=False)] == rows
    for name in ("usefulness", "neutrality"):
        assert read_summary(file)[f"train/{name}"] == pytest.approx(train[name])


@pytest.mark.parametrize("algo", ["algo=exact algo.levels_at_once=1", "algo=ppo algo.episodes=16 reward.group=16"])
def test_observations_of_every_batch_have_the_same_planes(tmp_path, algo):
    """With one level in a batch, all its buttons may be reliable; observations still show their probabilities."""
    some = ["levels.generator.chance=[0.99,1.0]", "levels.symmetries=true", "env_steps=40000"]
    run = start(configured(tmp_path / "run", *algo.split(), *FEW, *some))
    chances = [level.buttons[0].chance for level in run.gridworlds.levels.train]
    assert min(chances) < 1 == max(chances)
    for _ in range(9):
        run.update()


def test_a_second_ctrl_c_stops_at_once(tmp_path, monkeypatch):
    run = start(configured(tmp_path / "run"))
    before = signal.getsignal(signal.SIGINT)

    def twice():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(run, "update", twice)
    with pytest.raises(KeyboardInterrupt):
        run.train()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.slow
def test_only_selection_levels_choose_the_best_checkpoint(tmp_path):
    run = start(configured(tmp_path / "run", *FEW))
    assert "selection" not in run.gridworlds.levels.reported
    names = {name: {level.name for level in levels} for name, levels in run.gridworlds.levels.reported.items()}
    chosen = {level.name for level in run.gridworlds.levels.selection}
    assert len(chosen) == 10
    assert not any(chosen & names_of_split for names_of_split in names.values())
    assert not names["train"] & names["test"]
    summary = run.train()
    assert summary["splits"].keys() == {"train", "test"}
    key = "eval/selection/usefulness"
    evaluated = [row for row in metrics(tmp_path / "run") if key in row][1:]
    best = max(evaluated, key=lambda row: row[key] * row["eval/selection/neutrality_normalised"])
    assert load_checkpoint(tmp_path / "run" / "checkpoints" / "best.safetensors")[1]["steps"] == best["step"]
    assert best["step"] != evaluated[0]["step"]  # the choice is not trivial
    assert not any(name.startswith("eval/test") for row in evaluated for name in row)


def test_the_best_checkpoint_has_the_largest_score(tmp_path, monkeypatch):
    """The score is the product of usefulness and neutrality."""
    run = start(configured(tmp_path / "run", *FEW))
    written = []
    monkeypatch.setattr(run, "_write", written.append)
    for usefulness in (0.5, 0.9, 0.7):
        run._save_best({"eval/selection/usefulness": usefulness, "eval/selection/neutrality_normalised": 0.5})
    assert [path.name for path in written] == ["best.safetensors"] * 2
    assert run.state.best_score == 0.45


def test_a_run_verifies_the_fingerprint_of_its_split(tmp_path):
    run = start(configured(tmp_path / "run", *FEW, "levels.generator.height=[3,5]", "levels.generator.walls=[0,5]"))
    assert run.gridworlds.map_size == (5, 5)  # the limits of the generator
    path = tmp_path / "run" / "split.json"
    record = json.loads(path.read_text("utf-8"))
    assert record["levels"] == {"train": 40, "selection": 10, "test": 10}
    written = path.read_bytes()
    path.unlink()  # as if the run had been killed before writing it
    resume(tmp_path / "run")
    assert path.read_bytes() == written
    path.write_text(json.dumps(record | {"sha256": record["sha256"] | {"train": "0" * 64}}), "utf-8")
    with pytest.raises(LevelError, match=r"split\.json"):
        resume(tmp_path / "run")


def test_infinite_logits_of_a_table_are_refused(tmp_path):
    wild = ["algo=tabular", "algo.random_episodes=0", "reward.lam=0.5", "reward.episodes_per_meta=4096"]
    wild += ["levels.clock=moves", "reward.gamma=0.95", "env_steps=800000", "algo.episodes=4096"]
    with pytest.raises(ConfigError, match="no longer finite"):
        start(configured(tmp_path / "run", *wild)).train()


@pytest.mark.slow
def test_numba_does_not_change_torchs_number_of_threads(tmp_path):
    program = (
        "import sys, torch; torch.set_num_threads(1)\n"
        "from drest_torch.config.compose import compose\nfrom drest_torch.training.run import start\n"
        "start(compose(*sys.argv[1:])).update()\n"
        "print(torch.get_num_threads())"
    )
    words = ["algo=tabular", "levels=spacious", *QUIET, f"run_dir={tmp_path / 'run'}"]
    assert python("-c", program, *words) == "1\n"


@pytest.mark.parametrize("network", ["mlp", "convolutional"])
def test_exact_gradients_count_the_rows_of_the_network(tmp_path, network):
    """The count includes the rows of the second pass, for the gradient."""
    values = ["algo=exact", "env_steps=12000", "evaluations=1", "pictures=0"]
    sizes = ["policy.width=8", "policy.private_bits=1", f"policy={network}"]
    run = start(configured(tmp_path / "run", *values, *sizes))
    ran, backward = [], 0
    counting = run.algorithm.policy.register_forward_pre_hook(lambda _, inputs: ran.append(len(inputs[0])))
    for _ in range(2):
        run.update()
        backward += ran[-1]  # the last pass of an update is the one for the gradient
    assert run.state.forward_rows == sum(ran)
    assert run.state.backward_rows == backward
    counting.remove()
    summary = run.train()
    assert summary["training"] == "3 updates of 1 level"
    assert summary["updates"] == 3
    assert summary["levels_per_update"] == 1
    assert summary["forward_rows"] > summary["backward_rows"] > 0
    assert not (tmp_path / "run" / "pictures").exists()
    assert summary["forward_rows"] == read_metrics(tmp_path / "run" / "metrics.jsonl")[-1]["rows/forward"]
