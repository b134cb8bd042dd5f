"""Tests of the command that erodes an agent: its arguments, its page and its files."""

import csv
import json

import pytest

from drest_torch.__main__ import main as drest
from drest_torch.commands import erode
from drest_torch.commands.erode import conditions_of, remedies_of, settings_of
from drest_torch.jobs.erosion import CONDITIONS
from drest_torch.jobs.erosion_page import numbers_text
from drest_torch.training.remedies import Remedy
from tests.helpers.runs import train

SHORT = ("updates=[0,1]", "ladders=[]")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run of a few exact updates."""
    folder = tmp_path_factory.mktemp("erode") / "run"
    size = ("policy.width=8", "policy.depth=1", "pictures=0", "evaluations=1")
    return train(folder, "algo=exact", "levels=royal_road", "algo.lr=0.02", "env_steps=40960", *size)


def test_the_command_writes_a_page_for_each_curve(run, call, tmp_path):
    words = ("conditions=[default]", "remedies=[none,freeze]", "seeds=[0,1]", "out=page")
    done = call(erode.main, f"run={run}", "updates=[0,1]", "ladders=[later]", "designs=1", *words)
    assert done.code == 0, done.err
    assert (tmp_path / "page.md").read_text() in done.out
    page = json.loads((tmp_path / "page.json").read_text())
    curves = {(curve["condition"], curve["remedy"], curve["seed"]) for curve in page["curves"]}
    assert len(curves) == len(page["curves"]) == 4
    rows = list(csv.DictReader((tmp_path / "page.csv").open()))
    assert len(rows) == 8
    assert float(rows[1]["neutrality"]) == page["curves"][0]["steps"][1]["neutrality"]
    assert float(rows[1]["paid_later"]) == page["curves"][0]["steps"][1]["paid"]["later"]
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_the_page_replaces_only_an_earlier_one(run, call, tmp_path):
    (tmp_path / "page.md").write_text("mine")
    words = ("conditions=[default]", "out=page")
    assert "page.md: is not an earlier output" in call(erode.main, f"run={run}", *SHORT, *words).sentence
    assert (tmp_path / "page.md").read_text() == "mine"


def test_a_condition_that_does_not_fit_is_left_out(run, call, tmp_path):
    (tmp_path / "wide.txt").write_text("shutdown: 3\n\nC1 . A B2 . C3 . . . . . . .\n")
    words = ("conditions=[default,other_levels]", "other=wide.txt", "out=page")
    done = call(erode.main, f"run={run}", *SHORT, *words)
    assert done.code == 0, done.err
    page = json.loads((tmp_path / "page.json").read_text())
    assert [curve["condition"] for curve in page["curves"]] == ["default"]
    assert "Left out: other levels." in (tmp_path / "page.md").read_text()


# ------------------------------------------------------------------------------------ arguments


def conditions(*words):
    return conditions_of(*settings_of(words))


def test_arguments_of_training_are_a_condition_of_their_own():
    words = ["reward=default", "algo.lr=0.1"]
    assert conditions(*words) == {"yours": words}
    assert conditions(*words, "conditions=[doubled]") == {"doubled": [*CONDITIONS["doubled"], *words]}
    assert conditions().keys() == CONDITIONS.keys()


@pytest.mark.parametrize("word", ["threads=2", "precision=float32", "logger=csv", "logger.mode=disabled", "pictures=0"])
def test_keys_of_the_machine_or_of_logging_are_no_condition(word):
    assert conditions(word) == {name: [*words, word] for name, words in conditions().items()}
    assert conditions(word, "levels/vary=usual") == {"yours": [word, "levels/vary=usual"]}


@pytest.mark.parametrize("word", ["+algo.lr=0.1", "~levels.vary", "objective=unequal", "policy=conv", "env.base=9"])
def test_keys_of_training_are_a_condition(word):
    assert erode.changes_training(word)


def test_other_levels_are_a_name_or_a_file():
    assert conditions("other=easy")["other_levels"][-1] == "levels=easy"
    assert conditions("other=mine.txt")["other_levels"][-2:] == ["levels=file", "levels.path=mine.txt"]


def test_remedies_have_the_strengths_of_the_keys():
    words = ["remedies=[none,mix,tie,freeze,penalty]", "mix=5", "tie=0.2", "freeze=[net.body.0]", "penalty=3"]
    settings, _ = settings_of(words)
    remedies = {name: remedy for name, (remedy, _) in remedies_of(settings).items()}
    assert remedies == {
        "none": Remedy(),
        "mix": Remedy(mix=5),
        "tie": Remedy(tie=0.2),
        "freeze": Remedy(freeze=("net.body.0",)),
        "penalty": Remedy(penalty=3.0),
    }


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run=nowhere"], "nowhere: no such folder of a run"),
        (["conditions=[usual]"], "conditions: usual; expected some of default, other_levels"),
        (["remedies=[prayer]"], "remedies=['prayer']; expected one of none, mix"),
        (["ladders=[sooner]"], "ladders: sooner; expected some of later"),
        (["updates=[]"], "updates=[]: expected at least one value"),
        (["updates=[10,0]"], "updates=[10, 0]; expected ascending numbers"),
        (["mix=0"], "mix=0"),
        (["--fast"], "--fast: no such option; see drest erode --help"),
        (["run_dir=x"], "run_dir=x: belongs to a training of its own; leave it out"),
        (["reward=drst"], "drst"),
    ],
)
def test_invalid_arguments_get_one_sentence(words, sentence, run, call, tmp_path):
    others = [] if words[0].startswith("run=") else [f"run={run}"]
    assert sentence in call(erode.main, *others, *words).sentence
    assert [*tmp_path.iterdir()] == []


def test_the_help_names_all_keys(call):
    out = call(drest, "erode", "--help").out
    for key in ("run=generalist", "conditions=null", "penalty=1.0", "measured=null"):
        assert key in out


@pytest.mark.parametrize(
    ("values", "text"), [([3, 3], "3"), ([10, 3], "3 to 10"), ([None, 3], "3 to never"), ([None], "never")]
)
def test_numbers_of_updates_are_a_range_over_seeds(values, text):
    assert numbers_text(values) == text
