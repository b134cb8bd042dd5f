"""Every study: its yaml, its quick version from the runs to the pages, and what happens when runs fail."""

import json
import re
import sys
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import find_spec

import pandas as pd
import pytest
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from drest_torch.config.compose import options, register
from drest_torch.errors import ConfigError
from drest_torch.help import help_text
from drest_torch.jobs.job import Job
from drest_torch.jobs.local import Local
from drest_torch.jobs.store import Store
from drest_torch.jobs.tabular_job import last
from drest_torch.jobs.training_job import training_jobs
from drest_torch.report.blocks import Plot, Prose, Table
from drest_torch.report.style import LIGHT
from drest_torch.studies.engine import Done, publish
from drest_torch.studies.registry import STUDIES as REGISTRY
from drest_torch.studies.registry import StudyCommand, all_studies, study_schemas
from drest_torch.studies.runner import run_studies, samples
from tests.helpers.chromium import BROWSER, check_page
from tests.helpers.documents import ROOT, blocks, follow
from tests.helpers.studies import all_blocks, composed, composed_study, page_text

STUDIES = sorted(all_studies())
PAGE = ROOT / "docs" / "howto" / "studies.md"


def settings(folder, **changes):
    return StudyCommand(**{"quick": True, "workers": 1, "progress": False, "out": str(folder)} | changes)


def test_every_study_is_an_option_with_its_sentence_and_on_the_page():
    assert {*options("study")} == {*STUDIES, "paper"}
    assert all(f"\n  {name} " in help_text("study") for name in STUDIES)
    assert set(composed_study("paper").studies) <= set(STUDIES)
    assert {*re.findall(r"\n\| `(\w+)` \| [a-z0-9 ]+ \| ", PAGE.read_text("utf-8"))} >= {*STUDIES, "paper"}


@pytest.mark.mostly_slow
@pytest.mark.parametrize("name", STUDIES)
def test_runs_are_known_by_their_names_and_the_quick_ones_are_others(name):
    cfg = composed_study(name)
    full, quick = ([*all_studies()[name].jobs(each).values()] for each in (cfg, OmegaConf.merge(cfg, cfg.quick)))
    for jobs in (full, quick):
        assert len({job.name for job in jobs}) == len(jobs) == len({job.digest() for job in jobs})
    assert not {job.digest() for job in full} & {job.digest() for job in quick}


class Without:
    """A store from which some runs are missing."""

    def __init__(self, store, lost):
        self.store, self.lost = store, lost

    def get(self, job):
        return None if job.name in self.lost else self.store.get(job)


def prose(blocks):
    return [block for block in all_blocks(blocks) if isinstance(block, Prose)]


@pytest.mark.slow
@pytest.mark.in_turn
@pytest.mark.parametrize("name", STUDIES)
def test_every_study_keeps_the_contract(tmp_path, name, monkeypatch):
    """With the results of its quick version: the whole page, each part missing, and nothing finished.

    Nothing is done a second time. A browser, where there is one, finds room for the page on a phone and on a laptop.
    """
    if name == "language" and not all(map(find_spec, ("transformers", "tokenizers"))):
        pytest.skip("needs the extra [language]")
    assert run_studies([composed_study(name)], settings(tmp_path, workers=2)) == []
    folder = tmp_path / "quick" / name
    written = (folder / "summary.json").read_bytes()
    for quote in json.loads(written)["quotes"]:
        assert quote["what"]
        assert "nan" not in quote["measured"]
    page = (folder / "report.html").read_text("utf-8")
    assert [
        words for words in ("How this was made", f"study={name}", " – quick version</title>") if words not in page
    ] == []
    assert "failed" not in page
    for width, dark in ((390, True), (1440, False)) if BROWSER else ():
        assert check_page(folder / "report.html", width, dark) == []
    with monkeypatch.context() as patch:
        patch.setattr(Local, "run", lambda executor, tasks: (pytest.fail(f"{task} again") for task in tasks))
        assert run_studies([composed_study(name)], settings(tmp_path)) == []
    assert (folder / "summary.json").read_bytes() == written
    study, store, cfg = all_studies()[name], Store(tmp_path / "quick" / "runs"), composed(name)
    planned = study.jobs(cfg)
    whole = publish(study, cfg, Done(planned, store))
    assert whole.quotes
    assert prose(whole.blocks)
    assert not re.search(r"\bnan\b", page_text(whole.blocks))
    assert {"metric", "value"} <= {*whole.results}
    for block in all_blocks(whole.blocks):
        if isinstance(block, Plot):
            block.draw(Figure(), LIGHT)
        if isinstance(block, Table):
            assert "neutrality" not in block.header, "a head names its unit"
    names = [job.name for job in planned.values()]
    parts = [publish(study, cfg, Done(planned, Without(store, {lost}))) for lost in names[:: max(len(names) // 6, 1)]]
    assert not any(prose(part.blocks) or part.quotes for part in parts)
    assert any(part.blocks for part in parts)
    assert publish(study, cfg, Done(planned, Without(store, {*names}))).blocks == []


def test_a_setting_that_nothing_can_be_done_with_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^executor=slurm; expected"):
        run_studies([composed_study("tax")], settings(tmp_path, executor="slurm"))
    assert not (tmp_path / "quick").exists()


REFUSED = [
    *(("example", wrong, "^study[.=].*expected") for wrong in ("agents=0", "worlds=[atlantis]", "training.lam=0")),
    *(("shutdownability", f"{key}=[nobody]", "^study[.=].*expected") for key in ("parts", "archetypes", "sees")),
    ("lambda_meta", "world=atlantis", "^study[.=].*expected"),
    ("lambda_meta", "sizes=[8,60]", "60"),
    *(("lotteries", f"arms={arms}", "expected D, B and others of A, A'") for arms in ("[D,B,Z]", "[D]")),
]


@pytest.mark.parametrize(("name", "wrong", "words"), REFUSED)
def test_a_value_that_no_run_can_be_made_of_is_refused_before_any_run(tmp_path, name, wrong, words):
    cfg = composed_study(name, f"++study.{wrong}")
    with pytest.raises(ConfigError, match=words):
        run_studies([cfg], settings(tmp_path, quick=False))
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_several_studies_have_a_page_together(tmp_path, capsys):
    assert run_studies([composed_study(name) for name in ("lambda_meta", "tax")], settings(tmp_path)) == []
    page = tmp_path / "quick" / "report.html"
    text = page.read_text("utf-8")
    assert str(page) in capsys.readouterr().out
    assert [words for words in ("At a glance", "This is the quick version.") if words not in text] == []


@pytest.mark.slow
def test_failed_runs_are_listed_and_the_rest_is_reported(tmp_path, monkeypatch, capsys):
    module, cfg = all_studies()["tax"], composed("tax")
    (key, first), *others = module.jobs(cfg).items()
    broken = Job("broken", first.runner, first.spec | {"world": "atlantis"})
    monkeypatch.setattr(module, "jobs", lambda cfg: {key: broken, **dict(others)})
    failures = run_studies([cfg], settings(tmp_path, quick=False))
    assert [failure.job.name for failure in failures] == ["tax/broken"]
    page = (tmp_path / "tax" / "report.html").read_text("utf-8")
    assert "Runs that failed" in page
    assert "atlantis" in page
    assert "Failed: tax/broken" in capsys.readouterr().err
    done = Done(module.jobs(cfg), Store(tmp_path / "runs"))
    assert ([job.name for job in done.missing], len(done)) == (["broken"], len(others))


def test_a_report_calls_its_numbers_exact_only_where_the_settings_of_its_runs_make_them_so():
    tabular = all_studies()["tax"].jobs(composed_study("tax")).values()
    exact, *_ = training_jobs("a", [0], {"policy": {"private_bits": 2}}, algo="ppo")
    sampled, *_ = training_jobs("a", [0], {"sampled": 50}, algo="ppo")
    uniform, *_ = training_jobs("a", [0], {"policy": {"private_bits": 1, "private_kind": "uniform"}}, algo="ppo")
    assert not samples([*tabular, exact])
    assert samples([exact, sampled])
    assert samples([uniform])


@pytest.fixture
def documented(tmp_path, monkeypatch):
    """The example of docs/howto/studies.md as a module that can be imported; gives its path."""
    follow("howto/studies", "An example", tmp_path / "outside")
    files = [block for block in blocks(PAGE, "An example") if block.file]
    assert [block.file for block in files] == ["my_project/lambdas.py", "my_project/lambdas.md"]
    assert sum(len(block.text.splitlines()) for block in files) <= 60
    monkeypatch.syspath_prepend(tmp_path / "outside")
    yield tmp_path / "outside" / "my_project" / "lambdas.py"
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_project"]:
        del sys.modules[name]


def composed_outside(name, *overrides):
    register(study_schemas([f"study={name}"]))
    return composed_study(name, *overrides)


@pytest.mark.slow
def test_the_documented_study_does_what_the_page_says(documented, tmp_path):
    cfg = composed_outside("my_project.lambdas", "study.lams=[0.9,1.0]", "study.agents=2", "study.meta_episodes=32")
    assert run_studies([cfg], settings(tmp_path, quick=False)) == []
    folder = tmp_path / "my_project.lambdas"
    results = pd.read_csv(folder / "results.csv")
    store = Store(tmp_path / "runs")
    for lam, job in REGISTRY[cfg.name].jobs(cfg).items():
        assert results[results.lam == lam].value.tolist() == last(store.get(job), "moves", "neutrality").tolist()
    page = (folder / "report.html").read_text("utf-8")
    assert "<h1>A few values of λ</h1>" in page
    assert "python -m drest_torch.study study=my_project.lambdas" in page
    assert "Every number in this report is exact" in page
    assert "Means of 2 agents" in page


def test_the_values_of_a_study_from_outside_are_checked_and_can_stand_in_a_file(documented):
    assert composed_outside("my_project.lambdas").agents == 10
    documented.with_suffix(".yaml").write_text("agents: 7\n", "utf-8")
    assert composed_outside("my_project.lambdas").agents == 7
    with pytest.raises(ConfigError, match="not_a_number; expected a whole number"):
        composed_outside("my_project.lambdas", "study.agents=not_a_number")


def test_an_installed_study_is_found_by_the_name_of_its_entry_point(documented, monkeypatch):
    points = EntryPoints([EntryPoint("lambdas", "my_project.lambdas", REGISTRY.group)])
    monkeypatch.setattr("drest_torch.registry.entry_points", points.select)
    assert composed_outside("lambdas").agents == 10


@pytest.mark.parametrize("name", ["my_project.lost", "nowhere.lambdas"])
def test_a_study_that_is_nowhere_is_a_sentence(documented, name):
    with pytest.raises(ConfigError, match=f"study={name}; expected one of example, .*, or the path of a module"):
        composed_outside(name)
