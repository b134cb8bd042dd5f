"""Outputs replace neither inputs nor files of runs, and a run writes only to its own folder."""

import shutil
from pathlib import Path
from unittest.mock import patch

import pytest
from omegaconf import OmegaConf

from drest_torch import Agent, compare, evaluate, hints
from drest_torch.envs.levels import WORLDS, world, write_levels
from drest_torch.envs.view import show
from drest_torch.errors import ConfigError, FileError, UserError
from drest_torch.files import LOCK, remove_partial
from drest_torch.outputs import check_outputs, is_run, refuse_links, refuse_taken
from drest_torch.studies.catalogue import StudyCommand, compose_study
from drest_torch.studies.runner import run_studies
from drest_torch.training.run import resume, start
from tests.helpers.runs import small

OURS = "algo:\n  name: ppo\nreward:\n  name: drest\nseed: 0\n"
LEVEL = "shutdown: 3\n\nC1 A B2\n. C2 .\n"


@pytest.fixture
def run(tmp_path):
    """Return a folder with the files of a run."""
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "config.yaml").write_text(OURS)
    return folder


def test_an_output_does_not_replace_an_input(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "levels.txt").write_text(LEVEL)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "to levels").symlink_to(tmp_path / "levels.txt")
    (tmp_path / "LEVELS.txt").hardlink_to(tmp_path / "levels.txt")  # as on a file system that ignores case
    reads = [tmp_path / "levels.txt", tmp_path / "folder", None]
    check_outputs(tmp_path / "out.json", tmp_path / "link" / "out.json", reads=reads)
    wrong = ("levels.txt", "folder", "folder/a/b.json", "folder/../levels.txt", "link/levels.txt", "to levels")
    for name in (*wrong, "LEVELS.txt"):
        with pytest.raises(FileError, match=r"would replace what is read \(.*expected another path$"):
            check_outputs(tmp_path / name, reads=reads)


@pytest.mark.parametrize(
    "name",
    [
        *("config.yaml", "metrics.jsonl", "summary.json", "Summary.JSON", "provenance.json", "levels_test.json"),
        *("checkpoints/mine.json", "pictures", "pictures/learning.png", "references/4/mine.json", "model/config.json"),
    ],
)
def test_an_output_does_not_replace_a_file_of_a_run(name, run, tmp_path):
    (tmp_path / "link").symlink_to(run)
    for path in (run / name, tmp_path / "link" / name):
        with pytest.raises(FileError, match=r"would replace what belongs to the run in .*/run; expected another path"):
            check_outputs(path)


def test_other_files_may_be_written_to_the_folder_of_a_run(run):
    check_outputs(run / "mine.json", run / "shutdownability.md", run / "more" / "summary.json")


@pytest.mark.parametrize("config", [None, "seed: 1\nmodel: mine\n", "language: model\n\ud800", "\0"])
def test_a_folder_with_a_foreign_configuration_is_not_a_run(config, tmp_path):
    if config is not None:
        (tmp_path / "config.yaml").write_bytes(config.encode(errors="surrogatepass"))
    assert is_run(tmp_path) is (config is not None and config.startswith("language"))
    if not is_run(tmp_path):
        check_outputs(tmp_path / "pictures", tmp_path / "summary.json")


def test_a_damaged_configuration_still_protects_a_run(run):
    (run / "config.yaml").write_bytes(b"\0")
    (run / "metrics.jsonl").write_text("")
    with pytest.raises(FileError, match="belongs to the run"):
        check_outputs(run / "summary.json")


def test_an_output_does_not_replace_a_result_of_a_study(tmp_path):
    job = tmp_path / "runs" / "example-0-0123456789abcdef"
    job.mkdir(parents=True)
    (job / "result.json").write_text("{}")
    with pytest.raises(FileError, match="belongs to the run"):
        check_outputs(job / "result.json")
    check_outputs(tmp_path / "result.json")


# ---------------------------------------------------------------------------------- start of a run


@pytest.mark.parametrize("name", ["provenance.json", "split.json", "levels_train.json", "pictures", "tensorboard"])
def test_a_run_does_not_start_in_a_folder_with_its_outputs(name, tmp_path):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ConfigError, match=f"holds {name} already, which a run would overwrite; choose another run_dir"):
        start(small(tmp_path))
    assert (tmp_path / name).read_text() == "mine"
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_a_run_overwrites_only_files_of_its_kind(tmp_path):
    (tmp_path / "model").symlink_to("nowhere")
    refuse_taken(tmp_path, hints.resume)
    with pytest.raises(ConfigError, match="holds model already"):
        refuse_taken(tmp_path, hints.resume, writes=["model"])


def test_no_run_starts_inside_another(run):
    with pytest.raises(FileError, match="belongs to the run"):
        start(small(run / "checkpoints"))
    assert list((run / "checkpoints").iterdir()) == []


def test_a_run_keeps_the_partial_files_of_others(tmp_path):
    name = ".0123456789abcdef.partial"
    for folder in (tmp_path / "mine", tmp_path / "theirs"):
        folder.mkdir()
        (folder / name).write_text("")
    (tmp_path / "theirs" / LOCK).write_text("")
    remove_partial(tmp_path)
    assert [*tmp_path.rglob("*.partial")] == [tmp_path / "theirs" / name]


# ---------------------------------------------------------------------------------- resuming a run


@pytest.mark.parametrize(
    "name", ["checkpoints", "pictures", "pictures/train", "model", "model/config.json", "wandb/latest-run"]
)
def test_no_run_is_resumed_with_a_link_out_of_its_folder(name, run, tmp_path):
    target = tmp_path / "elsewhere"
    (target / "checkpoints").mkdir(parents=True)
    link = run / name
    if name == "checkpoints":
        link.rmdir()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target if "." not in name else target / "config.json")
    with pytest.raises(FileError, match=f"{name}: is a link that leads out of .*/run, to .*elsewhere.*move all"):
        refuse_links(run)


def test_harmless_links_are_accepted(run, tmp_path):
    (tmp_path / "levels.txt").write_text(LEVEL)
    (run / "levels.txt").symlink_to(tmp_path / "levels.txt")  # no run writes it
    (run / "checkpoints" / "best.safetensors").symlink_to(tmp_path / "best")  # is replaced
    (tmp_path / "best").write_text("")
    session = run / "wandb" / "offline-run-1" / "logs"
    session.mkdir(parents=True)
    (session / "debug-core.log").symlink_to(tmp_path / "core.log")  # a link of W&B, to which no later session writes
    (run / "pictures").symlink_to("images")
    (run / "images").mkdir()
    (tmp_path / "link").symlink_to(run)
    refuse_links(run)
    refuse_links(tmp_path / "link")


def test_resuming_with_a_link_keeps_its_target(run, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    (run / "checkpoints").rename(elsewhere)
    for step in (1, 2, 3):
        (elsewhere / f"step-{step}.safetensors").write_text("theirs")
    (run / "checkpoints").symlink_to(elsewhere)
    with patch("drest_torch.training.run.load_config"), pytest.raises(FileError, match=r"leads out of .*/run, to"):
        resume(run)
    assert [path.read_text() for path in elsewhere.iterdir()] == ["theirs"] * 3


# ---------------------------------------------------------------------------------- commands


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return Agent.load("generalist").save(tmp_path_factory.mktemp("agent") / "run")


@pytest.fixture
def agent(saved, tmp_path):
    """Return a run with the shipped agent, the folder ``run`` in the working directory."""
    folder = shutil.copytree(saved, tmp_path / "run")
    (folder / "metrics.jsonl").write_text("")
    (tmp_path / "mine.txt").write_text(LEVEL)
    return folder


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "words",
    [
        "suite=shutdownability out=run/summary",
        "suite=shutdownability out=run/summary.md",
        "levels=example out=run/summary.json",
        "levels.path=mine.txt out=mine.txt",
        "levels=example out=run/mine",
        "levels=example pictures=run/checkpoints/pictures",
        "levels=example pictures=run/pictures",
        "levels.path=mine.txt pictures=mine.txt",
        "levels=example animation=run/pictures/learning.gif",
        "suite=shutdownability out=notes.json",
    ],
)
def test_evaluate_refuses_destructive_outputs(words, agent, tmp_path, call):
    (tmp_path / "notes.md").write_text("# Notes of another kind\n")
    before = contents(tmp_path)
    done = call(evaluate.main, "run=run", *words.split())
    assert "expected" in done.sentence or "choose another out" in done.sentence
    assert contents(tmp_path) == before


def test_evaluate_refuses_to_replace_the_levels_of_the_run(agent, tmp_path, call):
    config = (agent / "config.yaml").read_text()
    (agent / "config.yaml").write_text(config.replace("path: null", f"path: {tmp_path / 'mine.txt'}", 1))
    with pytest.raises(FileError, match="would replace what is read"):
        check_outputs(tmp_path / "mine.txt", reads=Agent.load(agent).files)


def test_compare_refuses_to_replace_the_pictures_of_a_run(agent, call):
    assert "belongs to the run" in call(compare.main, "run", "out=run/pictures/learning.png").sentence


def test_show_refuses_to_replace_a_picture_of_a_run(agent, tmp_path, capsys):
    assert show.main([WORLDS[0], "--picture", str(agent / "pictures" / "learning.png")]) == 2
    assert "belongs to the run" in capsys.readouterr().err


def test_an_agent_is_not_saved_over_a_run(agent, tmp_path):
    source = Agent.load("generalist")
    source.save(source.save(tmp_path / "saved"))
    before = contents(tmp_path)
    for name, match in (("run", "holds a run"), ("run/checkpoints/a", "belongs to the run")):
        with pytest.raises((ConfigError, FileError), match=match):
            source.save(tmp_path / name)
    (tmp_path / "other" / "checkpoints").mkdir(parents=True)
    with pytest.raises(ConfigError, match="holds checkpoints already"):
        source.save(tmp_path / "other")
    assert contents(tmp_path) == before


def test_an_earlier_output_is_replaced(tmp_path, call):
    Path(tmp_path / "out.json").write_text("[]")
    assert call(evaluate.main, "levels=example", "out=out.json").code == 0
    assert '"mean"' in (tmp_path / "out.json").read_text()


# ---------------------------------------------------------------------------------- from Python


def test_results_replace_neither_levels_nor_files_of_a_run(agent, tmp_path):
    write_levels(tmp_path / "set.jsonl", [world("example")])
    before = contents(tmp_path)
    loaded = Agent.load(agent)
    results = loaded.evaluate(tmp_path / "mine.txt")
    of_set = loaded.evaluate(tmp_path / "set.jsonl")
    wrong = [(results.write, "run/summary.json"), (results.plot, "run/pictures"), (results.write, "mine.txt")]
    for write, path in (*wrong, (of_set.write, "set.jsonl")):
        with pytest.raises(FileError, match="would replace what"):
            write(tmp_path / path)
    for path in ("run/pictures/learning.gif", "run/checkpoints/agent.png"):
        with pytest.raises(FileError, match="belongs to the run"):
            loaded.render(tmp_path / path)
        with pytest.raises((FileError, UserError)):
            results.animate(tmp_path / path)
    with pytest.raises(FileError, match="belongs to the run"):
        write_levels(agent / "metrics.jsonl", [world("example")])
    assert contents(tmp_path) == before


# ---------------------------------------------------------------------------------- studies


def settings_of(folder, **values):
    return OmegaConf.merge(OmegaConf.structured(StudyCommand), {"out": str(folder), "progress": False, **values})


@pytest.mark.parametrize("name", ["runs", "example", "quick", "runs/job-0", "runs/job-0/checkpoints"])
def test_no_study_continues_with_a_link_out_of_its_folder(name, tmp_path):
    out, elsewhere = tmp_path / "results", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (out / name).parent.mkdir(parents=True)
    (out / name).symlink_to(elsewhere)
    with pytest.raises(FileError, match=f"{name}: is a link that leads out of .*results, to .*elsewhere"):
        run_studies([compose_study("example").study], settings_of(out))
    assert list(elsewhere.iterdir()) == []


def test_a_study_does_not_append_to_the_target_of_a_link(tmp_path):
    (tmp_path / "results" / "runs" / "job-0").mkdir(parents=True)
    (tmp_path / "results" / "runs" / "job-0" / "output.txt").symlink_to(tmp_path / "mine.txt")
    with pytest.raises(FileError, match=r"output.txt: is a link that leads out"):
        run_studies([compose_study("example").study], settings_of(tmp_path / "results"))


@pytest.mark.parametrize("name", ["report.html", "example/report.html", "example/rows.csv"])
def test_a_study_replaces_only_outputs_of_studies(name, tmp_path):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    with pytest.raises(FileError, match=f"{name}: is not an earlier output of this command, which would replace it"):
        run_studies([compose_study("example").study], settings_of(tmp_path))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / name]


def test_a_study_does_not_write_to_a_run_with_its_name(tmp_path):
    (tmp_path / "example").mkdir()
    (tmp_path / "example" / "config.yaml").write_text(OURS)
    with pytest.raises(FileError, match=r"belongs to the run in .*/example"):
        run_studies([compose_study("example").study], settings_of(tmp_path))
