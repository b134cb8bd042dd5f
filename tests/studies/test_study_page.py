"""The page of a study: made from rows and Markdown, without conclusions if there are too few runs."""

from dataclasses import replace
from types import ModuleType

import pandas as pd
import pytest
from omegaconf import OmegaConf

from drest_torch.errors import FileError, StudyError
from drest_torch.jobs.job import Job, Result
from drest_torch.jobs.store import Store
from drest_torch.report.blocks import Checklist, Plot, Prose, Section, Table
from drest_torch.report.figures import Curve, curve_figure
from drest_torch.report.html import in_site, render
from drest_torch.report.tables import PAPER
from drest_torch.studies import study_rows
from drest_torch.studies.engine import Done, file_of
from drest_torch.studies.runner import _claims
from drest_torch.studies.study_page import claims_of, question_of, study_page, title_of
from drest_torch.studies.study_rows import Record, listed, read_rows, record_of, write_rows
from drest_torch.tracking.provenance import append_provenance
from tests.helpers.studies import all_blocks, page_text

PAGE = """# How large is a?

Is a larger
than b?

{{ claims() }}

{{ figure("sizes") }}

## Details

The mean of a is {{ mean|num(2) }}. {{ claim("It is") }} See [metrics](../explanation/metrics.md#u).

{{ table("sizes") }}
"""
ROWS = pd.DataFrame({"x": [1, 2, 3], "a": [0.5, 0.6, 0.7]})
RECORD = Record(
    study="small",
    command="drest study study=small",
    quick=False,
    commit="abc",
    date="today",
    machine="here",
    versions="python 3",
    runs=4,
    planned=4,
    minutes=1.5,
    seeds="4 seeds",
    config="0f",
)


@pytest.fixture
def study(tmp_path):
    module = ModuleType("small")
    module.__file__ = str(tmp_path / "small.py")
    (tmp_path / "small.md").write_text(PAGE, "utf-8")
    module.FIGURES = {"sizes": figure}
    module.TABLES = {"sizes": table}
    module.NUMBERS = {"mean": lambda rows: rows.a.mean()}
    module.CLAIMS = {"It is {mean}.": lambda rows: rows.a.mean() > 0.5, "No: 1.": lambda rows: rows.a.max() > 1}
    return module


def figure(rows):
    return curve_figure([Curve("a", rows.x, rows.a)], title="Sizes", xlabel="x", ylabel="size of a")


def table(rows):
    return Table("Sizes", ["", "measured", PAPER], [["a", f"{rows.a.mean():.1f}", "0.9"]])


def words(page):
    return page_text(page.blocks)


def test_the_markdown_begins_with_the_title(study):
    """The question is the paragraph below it."""
    page = study_page(study, ROWS, RECORD)
    assert page.title == title_of(study) == "How large is a?"
    assert page.subtitle == question_of(study) == "Is a larger than b?"


def test_numbers_of_the_page_come_from_rows(study):
    text = words(study_page(study, ROWS.assign(a=0.8), RECORD))
    assert "The mean of a is 0.80." in text
    assert "a 0.8 0.9" in text


def test_a_claim_that_fails_is_marked(study):
    assert claims_of(study, ROWS) == {"It is 0.6.": True, "No: 1.": False}
    page = study_page(study, ROWS, RECORD)
    (claims,) = [block for block in all_blocks(page.blocks) if isinstance(block, Checklist)]
    assert claims.sentences == ["✓ It is 0.6.", "✗ No: 1."]


def test_a_list_can_be_limited_to_some_claims(study):
    path = file_of(study, ".md")
    path.write_text(path.read_text("utf-8").replace("claims()", 'claims("No")'), "utf-8")
    (claims,) = [block for block in all_blocks(study_page(study, ROWS, RECORD).blocks) if isinstance(block, Checklist)]
    assert claims.sentences == ["✗ No: 1."]
    path.write_text(path.read_text("utf-8").replace('claims("No")', 'claims("Yes")'), "utf-8")
    with pytest.raises(StudyError, match="0 claims begin with 'Yes'; expected one"):
        study_page(study, ROWS, RECORD)


def test_a_failed_claim_in_the_text_is_marked(study):
    study.CLAIMS = {"It is {mean}.": lambda rows: False}
    assert "(This does not hold in these results: It is 0.6.)" in words(study_page(study, ROWS, RECORD))


def test_the_page_states_its_provenance(study):
    text = words(study_page(study, ROWS, RECORD))
    for fact in ("drest study study=small", "commit abc", "4 of 4, 1.5 minutes", "4 seeds", "0f"):
        assert fact in text


@pytest.mark.parametrize("record", [replace(RECORD, quick=True), replace(RECORD, runs=3)], ids=["quick", "incomplete"])
def test_a_page_of_too_few_runs_draws_no_conclusion(study, record):
    page = study_page(study, ROWS, record)
    text = words(page)
    assert page.banner
    assert "The mean of a is 0.60." in text
    assert "It is 0.6." not in text
    assert PAPER not in text
    assert "0.9" not in text


def test_every_figure_of_a_quick_page_has_a_watermark(study):
    html = render(study_page(study, ROWS, replace(RECORD, quick=True)))
    assert html.count(">quick version</text>") == 1
    assert "quick version</text>" not in render(study_page(study, ROWS, RECORD))


def test_parts_that_need_a_missing_run_are_left_out(study):
    study.FIGURES = {"sizes": lambda rows: rows["lost"]}
    study.NUMBERS = {"mean": lambda rows: rows["lost"].mean()}
    text = words(study_page(study, ROWS, replace(RECORD, runs=3)))
    assert "The mean of a is –." in text
    with pytest.raises(KeyError):
        study_page(study, ROWS, RECORD)


def test_claims_about_absent_values_are_left_out(study):
    study.CLAIMS["Size 64 is large."] = lambda rows: rows.set_index("x").a[64] > 0
    changed = replace(RECORD, command="drest study study=small 'study.numbers=[1, 2]'")
    (claims, *_) = [block for block in study_page(study, ROWS, changed).blocks if isinstance(block, Checklist)]
    assert claims.sentences == ["✓ It is 0.6.", "✗ No: 1."]
    with pytest.raises(KeyError):
        study_page(study, ROWS, RECORD)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{{ figure("lost") }}', "figure 'lost'.* it has sizes"),
        ('{{ table("lost") }}', "table 'lost'.* it has sizes"),
        ('{{ claim("Lost") }}', "0 claims begin with 'Lost'"),
        ('{{ claim("It is") }}', "2 claims begin with 'It is'"),
        ("{{ lost }}", "'lost' is undefined"),
    ],
)
def test_an_unknown_part_is_refused(study, text, message):
    study.CLAIMS = {"It is.": bool, "It is not.": bool}
    with open(study.__file__.replace(".py", ".md"), "w", encoding="utf-8") as file:
        file.write(f"# Title\n\nQuestion?\n\n{text}\n")
    with pytest.raises(StudyError, match=message):
        study_page(study, ROWS, RECORD)


def test_a_page_without_a_title_is_refused(study):
    with open(study.__file__.replace(".py", ".md"), "w", encoding="utf-8") as file:
        file.write("No title\n")
    with pytest.raises(StudyError, match="expected '# Title' in its first line"):
        study_page(study, ROWS, RECORD)


def test_an_empty_table_is_refused(study):
    study.TABLES = {"sizes": lambda rows: Table("Sizes", ["", "measured"], [])}
    with pytest.raises(StudyError, match="the table 'sizes' of study=small has no rows"):
        study_page(study, ROWS, RECORD)


# ------------------------------------------------------------------------------------- rows as a file


def test_written_rows_are_read_unchanged(tmp_path):
    columns = {"part": ["a", "b"], "steps": [131072, 20_000_000], "value": [0.123456789, None], "ok": [True, False]}
    rows = pd.DataFrame(columns)
    write_rows(tmp_path / "rows.csv", RECORD, rows)
    read, record = read_rows(tmp_path / "rows.csv")
    assert record == RECORD
    pd.testing.assert_frame_equal(read, rows, check_exact=False, rtol=1e-6)


def test_rows_of_an_earlier_version_are_read(tmp_path):
    path = tmp_path / "rows.csv"
    write_rows(path, replace(RECORD, runs_of="abc × 4"), ROWS)
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(("# runs_of", "# missing"))), "utf-8")
    assert read_rows(path)[1] == RECORD


def test_the_record_counts_the_commits_of_runs(tmp_path):
    jobs = {seed: Job(f"run {seed}", "a.module:run", {"seed": seed}) for seed in range(5)}
    for seed, commit in enumerate(["old", "new", "new"]):
        Store(tmp_path, commit).put(jobs[seed], Result({}), 90.0)
    store = Store(tmp_path, "newest")
    cfg = OmegaConf.create({"name": "small", "seeds": 5})
    record = record_of(cfg, ROWS, done=Done(jobs, store), store=store, command="drest study", quick=False)
    assert record.commit == "newest"
    assert record.runs_of == "new × 2, old × 1"
    assert record.missing == "run 3, run 4"
    assert record.runs == 3
    assert record.planned == 5
    assert record.minutes == 4.5


def test_rows_name_the_machines_of_runs_if_they_differ(tmp_path):
    """A run is attributed to the machine of its last session."""
    folders = [tmp_path / name for name in "abc"]
    for folder, version in zip(folders, ("2.13", "2.11", "2.13"), strict=True):
        folder.mkdir()
        for session in ("2.9", version):
            append_provenance(folder, {"packages": {"torch": session}, "processor": "x86_64"})
    assert study_rows._runs_on([*folders, tmp_path]) == "torch 2.13 on x86_64 × 2, torch 2.11 on x86_64 × 1"
    assert study_rows._runs_on(folders[::2]) == ""


@pytest.mark.parametrize(
    ("argument", "has_changed"),
    [("study.levels=FOLDER", False), ("study.levels=null", True), ("'study.numbers=[1, 2]'", True), ("", False)],
)
def test_the_path_of_files_is_not_a_changed_value(argument, has_changed):
    assert replace(RECORD, command=f"drest study study=small {argument}").has_changed_values == has_changed


def test_a_report_on_studies_omits_claims_of_changed_values(study, tmp_path):
    write_rows(tmp_path / "rows.csv", RECORD, ROWS)
    (claims,) = _claims(study, tmp_path)
    assert claims.sentences == ["✓ It is 0.6.", "✗ No: 1."]
    write_rows(tmp_path / "rows.csv", replace(RECORD, command="drest study study=small study.seeds=1"), ROWS)
    assert _claims(study, tmp_path) == []


def test_ten_of_many_missing_runs_are_named():
    names = [f"run {number}" for number in range(1, 14)]
    assert listed(names[:2]) == "run 1, run 2"
    assert listed(names[:10]).endswith("run 9, run 10")
    assert listed(names).endswith("run 9, run 10 and 3 more")


def test_the_page_names_missing_runs(study):
    """The page also names the commits of the finished runs."""
    page = study_page(study, ROWS, replace(RECORD, runs=3, missing="a/b_1", runs_of="abc × 3"))
    assert "**1 of 4 runs are missing**" in page.banner
    assert "not done: a/b_1." in page.banner
    assert "Commits of the runs: abc × 3" in words(page)


@pytest.mark.parametrize(
    ("old", "new"),
    [("# rows of the study: small", "x,y"), ("# runs: 4", "# runs: many"), ("# seeds: 4 seeds\n", "")],
)
def test_a_damaged_file_of_rows_is_refused(tmp_path, old, new):
    path = tmp_path / "rows.csv"
    write_rows(path, RECORD, ROWS)
    path.write_text(path.read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(FileError, match=r"rows\.csv: (its record is damaged|does not begin with)"):
        read_rows(path)


# -------------------------------------------------------------------------------------------- the site


def test_prose_of_the_site_stays_markdown(study):
    text = in_site(study_page(study, ROWS, RECORD))
    assert text.startswith("# How large is a?\n\nIs a larger than b?\n")
    assert "\n## Details\n" in text
    assert "See [metrics](../explanation/metrics.md#u)." in text


def test_the_site_has_the_html_of_the_report(study):
    page = study_page(study, ROWS, RECORD)
    report, site = render(page), in_site(page)
    assert "<table>" in site
    table = report[report.index("<table>") : report.index("</table>")]
    assert table in site


def test_local_links_are_plain_words_in_a_report(study):
    report = render(study_page(study, ROWS, RECORD))
    assert "See metrics." in report
    assert "metrics.md" not in report


def test_a_section_holds_its_prose(study):
    page = study_page(study, ROWS, RECORD)
    details, provenance = [block for block in page.blocks if isinstance(block, Section)]
    assert provenance.title == "How this was made"
    assert [type(block) for block in details.blocks] == [Prose, Table]
    assert isinstance(page.blocks[1], Plot)
