"""Every study: its configuration, its quick version from runs to pages, and failed runs."""

import re
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from importlib.util import find_spec

import pytest

from drest_torch.commands.help import help_text
from drest_torch.config.compose import options, register
from drest_torch.errors import ConfigError
from drest_torch.jobs.job import Job
from drest_torch.jobs.local import Local
from drest_torch.jobs.store import Store
from drest_torch.jobs.tabular_job import last
from drest_torch.studies.catalogue import COLLECTIONS, StudyCommand, all_studies, study_schemas
from drest_torch.studies.catalogue import STUDIES as REGISTRY
from drest_torch.studies.engine import Done
from drest_torch.studies.runner import _command, run_studies
from drest_torch.studies.site import READING_ORDER
from drest_torch.studies.study_page import study_page
from drest_torch.studies.study_rows import read_rows
from tests.helpers.chromium import BROWSER, check_page
from tests.helpers.documents import ROOT, blocks, follow
from tests.helpers.studies import composed, composed_study

STUDIES = sorted(all_studies())
PAGE = ROOT / "docs" / "howto" / "studies.md"


def settings(folder, **changes):
    return StudyCommand(**{"quick": True, "workers": 1, "progress": False, "out": str(folder)} | changes)


def test_every_study_is_documented():
    """A study is an option of the command, has a line in its help, and is in the table of the documentation."""
    assert {*options("study")} == {*STUDIES, *COLLECTIONS}
    assert all(f"\n  {name} " in help_text("study") for name in STUDIES)
    assert set(composed_study("paper").studies) <= set(STUDIES)
    assert composed_study("all").studies == [name for name in READING_ORDER if name not in ("language", "smollm2")]
    assert {*re.findall(r"\n\| `(\w+)` \| [a-z0-9 ]+ \| ", PAGE.read_text("utf-8"))} >= {*STUDIES, *COLLECTIONS}


@pytest.mark.parametrize(
    "name", [name if name == "gap" else pytest.param(name, marks=pytest.mark.slow) for name in STUDIES]
)
def test_runs_of_a_study_have_unique_names(name):
    """A quick version has different runs. It may share runs without training, such as evaluations of existing
    agents."""
    full, quick = ([*all_studies()[name].jobs(cfg).values()] for cfg in (composed_study(name), composed(name)))
    for jobs in (full, quick):
        assert len({job.name for job in jobs}) == len(jobs) == len({job.digest() for job in jobs})
    assert {job.digest() for job in quick} - {job.digest() for job in full}


def skip_without_extra(name):
    """Skip the test of a study of language models if their extra is not installed."""
    if name in ("language", "smollm2") and not all(map(find_spec, ("transformers", "tokenizers"))):
        pytest.skip("needs the extra [language]")


@pytest.mark.slow
@pytest.mark.in_turn
@pytest.mark.parametrize("name", STUDIES)
def test_the_quick_version_of_a_study_makes_its_page(tmp_path, name, monkeypatch):
    """A second call repeats no run. A browser, if installed, finds room for the page on a phone."""
    skip_without_extra(name)
    assert run_studies([composed_study(name)], settings(tmp_path, workers=2)) == []
    folder = tmp_path / "quick" / name
    written = (folder / "rows.csv").read_bytes()
    page = (folder / "report.html").read_text("utf-8")
    assert f"study={name} quick=true" in page
    assert "quick version</text>" in page
    assert not re.search(r"\bnan\b", page)
    for width, dark in ((390, True), (1440, False)) if BROWSER else ():
        assert check_page(folder / "report.html", width, dark) == []
    monkeypatch.setattr(Local, "run", lambda executor, tasks: (pytest.fail(f"{task} again") for task in tasks))
    assert run_studies([composed_study(name)], settings(tmp_path)) == []
    assert (folder / "rows.csv").read_bytes() == written


@pytest.mark.slow
@pytest.mark.in_turn
@pytest.mark.parametrize("name", STUDIES)
def test_a_page_can_be_made_if_a_run_is_missing(tmp_path, name):
    """Several runs are left out, one at a time, and each page has a banner."""
    skip_without_extra(name)
    study, cfg = all_studies()[name], composed(name)
    assert run_studies([composed_study(name)], settings(tmp_path, workers=2)) == []
    store = Store(tmp_path / "quick" / "runs")
    planned = study.jobs(cfg)
    for lost in [*planned][:: max(len(planned) // 6, 1)]:
        done = Done({key: job for key, job in planned.items() if key != lost}, store)
        record = replace(read_rows(tmp_path / "quick" / name / "rows.csv")[1], runs=len(done))
        assert study_page(study, study.rows(cfg, done), record).banner


def test_an_invalid_option_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^executor=slurm; expected"):
        run_studies([composed_study("example")], settings(tmp_path, executor="slurm"))
    assert not (tmp_path / "quick").exists()


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        *(("example", wrong, "^study[.=].*expected") for wrong in ("agents=0", "worlds=[atlantis]", "training.lam=0")),
        *(("randomness", f"{key}=[nobody]", "^study[.=].*expected") for key in ("parts", "sees")),
        ("lambda_meta", "sizes=[8,60]", "60"),
        ("lotteries", "variants=[Z]", "^study.variants with 'Z'; expected some of DReST, sure lengths;"),
    ],
)
def test_an_invalid_value_is_refused_before_any_run(tmp_path, name, wrong, words):
    cfg = composed_study(name, f"++study.{wrong}")
    with pytest.raises(ConfigError, match=words):
        run_studies([cfg], settings(tmp_path, quick=False))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("name", "overrides", "arguments"),
    [
        ("theorem", [], ""),
        ("theorem", ["study.steps=50"], " study.steps=50"),
        ("generalization", ["study.seeds=2"], " study.seeds=2 study.follow_up_levels=null"),
        ("generalization", ["study.follow_up_levels=levels"], " study.follow_up_levels=FOLDER"),
    ],
)
def test_the_command_of_rows_has_changed_values_only(tmp_path, name, overrides, arguments):
    cfg = composed_study(name, *overrides)
    command = _command(cfg, all_studies()[name], settings(tmp_path, quick=False))
    assert command == f"drest study study={name}{arguments}"


@pytest.mark.slow
def test_a_report_on_several_studies_names_failed_runs(tmp_path, monkeypatch, capsys):
    module = all_studies()["example"]
    (key, first), *rest = module.jobs(composed("example")).items()
    planned = {key: Job("broken", first.runner, first.spec | {"world": "atlantis"}), **dict(rest)}
    monkeypatch.setattr(module, "jobs", lambda cfg: planned)
    failures = run_studies([composed_study(name) for name in ("theorem", "example")], settings(tmp_path))
    assert [failure.job.name for failure in failures] == ["example/broken"]
    for page, words in (
        ("example/report.html", [f"{len(rest)} of {len(planned)}"]),
        ("report.html", ["This is the quick version", "Theorem 5.1", "nine worlds"]),
    ):
        text = (tmp_path / "quick" / page).read_text("utf-8")
        assert [word for word in words if word not in text] == []
    printed = capsys.readouterr()
    assert str(tmp_path / "quick" / "report.html") in printed.out
    assert "Failed: example/broken" in printed.err
    done = Done(planned, Store(tmp_path / "quick" / "runs"))
    assert [job.name for job in done.missing] == ["broken"]
    assert len(done) == len(rest)


@pytest.fixture
def documented(tmp_path, monkeypatch):
    """Make the example of docs/howto/studies.md importable, and return the path of its module."""
    follow("howto/studies", "An example", tmp_path / "outside")
    files = [block for block in blocks(PAGE, "An example") if block.file]
    assert [block.file for block in files] == ["my_project/lambdas.py", "my_project/lambdas.md"]
    assert sum(len(block.text.splitlines()) for block in files) <= 70
    monkeypatch.syspath_prepend(tmp_path / "outside")
    yield tmp_path / "outside" / "my_project" / "lambdas.py"
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_project"]:
        del sys.modules[name]


def composed_outside(name, *overrides):
    register(study_schemas([f"study={name}"]))
    return composed_study(name, *overrides)


@pytest.mark.slow
def test_the_documented_study_makes_its_page(documented, tmp_path):
    cfg = composed_outside("my_project.lambdas", "study.lams=[0.9,1.0]", "study.agents=2", "study.meta_episodes=32")
    assert run_studies([cfg], settings(tmp_path, quick=False)) == []
    folder = tmp_path / "my_project.lambdas"
    rows, record = read_rows(folder / "rows.csv")
    assert record.command.startswith("drest study study=my_project.lambdas study.agents=2 ")
    assert record.command.endswith(" 'study.lams=[0.9, 1.0]'")
    store = Store(tmp_path / "runs")
    for lam, job in REGISTRY[cfg.name].jobs(cfg).items():
        assert rows[rows.lam == lam].neutrality.tolist() == pytest.approx(last(store.get(job), "moves", "neutrality"))
    page = (folder / "report.html").read_text("utf-8")
    assert "<h1>A few values of λ</h1>" in page
    assert "These are means of 2 agents" in page
    assert "A smaller λ makes agents more neutral." in page


def test_an_external_study_can_have_a_yaml_file(documented):
    assert composed_outside("my_project.lambdas").agents == 10
    documented.with_suffix(".yaml").write_text("agents: 7\n", "utf-8")
    assert composed_outside("my_project.lambdas").agents == 7


def test_invalid_values_of_an_external_study_are_refused(documented):
    with pytest.raises(ConfigError, match="not_a_number; expected a whole number"):
        composed_outside("my_project.lambdas", "study.agents=not_a_number")


@pytest.mark.parametrize("name", ["my_project.lost", "nowhere.lambdas"])
def test_an_unknown_external_study_is_refused(documented, name):
    with pytest.raises(ConfigError, match=f"study={name}; expected one of .*, or the path of a module"):
        composed_outside(name)


def test_a_study_of_an_installed_package_has_a_short_name(documented, monkeypatch):
    points = EntryPoints([EntryPoint("lambdas", "my_project.lambdas", REGISTRY.group)])
    monkeypatch.setattr("drest_torch.registry.entry_points", points.select)
    assert composed_outside("lambdas").agents == 10
