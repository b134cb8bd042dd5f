"""Every published study, made from its rows: claims hold, and the page places all figures and tables."""

import pandas as pd
import pytest

from drest_torch.report.blocks import Plot, Prose, Table
from drest_torch.report.html import write_page
from drest_torch.studies.catalogue import STUDIES
from drest_torch.studies.engine import file_of
from drest_torch.studies.site import READING_ORDER
from drest_torch.studies.study_page import claims_of, study_page
from drest_torch.studies.study_rows import MOST_BYTES, digest_of, read_rows
from tests.helpers.chromium import check_page, needs_chromium
from tests.helpers.documents import ROOT
from tests.helpers.studies import composed_study, page_text

FILES = sorted((ROOT / "docs" / "results").glob("*.csv"))
each_study = pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])


def test_studies_are_published():
    assert {path.stem for path in FILES} >= {"theorem", "generalization"}
    assert {path.stem for path in FILES} <= {*READING_ORDER}


@each_study
def test_published_rows_are_complete(path):
    """A published file is small enough for the repository."""
    rows, record = read_rows(path)
    assert path.stat().st_size <= MOST_BYTES
    assert len(rows)
    assert record.study == path.stem
    assert record.is_complete
    assert not record.quick


@each_study
def test_the_commit_of_rows_has_no_changes(path):
    _, record = read_rows(path)
    assert len(record.commit) == 12, "commit, then run the study"
    assert "with changes" not in record.runs_of, "runs of uncommitted code"


@each_study
def test_rows_have_the_current_values_of_the_study(path):
    _, record = read_rows(path)
    assert record.config == digest_of(composed_study(path.stem)), f"its values have changed: {record.command}"


@each_study
def test_every_claim_holds(path):
    rows, _ = read_rows(path)
    claims = claims_of(STUDIES[path.stem], rows)
    assert claims
    assert [sentence for sentence, holds in claims.items() if not holds] == []


@each_study
def test_every_figure_is_on_the_page(path):
    study, (rows, _) = STUDIES[path.stem], read_rows(path)
    text = file_of(study, ".md").read_text("utf-8")
    for name, figure in study.FIGURES.items():
        assert isinstance(figure(rows), Plot)
        assert f'"{name}"' in text


@each_study
def test_every_table_is_on_the_page(path):
    study, (rows, _) = STUDIES[path.stem], read_rows(path)
    text = file_of(study, ".md").read_text("utf-8")
    for name, make_table in study.TABLES.items():
        table = make_table(rows)
        assert isinstance(table, Table)
        assert table.rows
        assert f'"{name}"' in text


@each_study
def test_every_claim_is_on_the_page(path):
    study, (rows, record) = STUDIES[path.stem], read_rows(path)
    text = page_text(study_page(study, rows, record).blocks)
    claims = (page_text([Prose(claim)]) for claim in claims_of(study, rows))
    assert [claim for claim in claims if claim not in text] == []


@each_study
def test_figures_do_not_change_rows(path):
    study, (rows, record) = STUDIES[path.stem], read_rows(path)
    before = rows.copy()
    study_page(study, rows, record)
    pd.testing.assert_frame_equal(rows, before)


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1440, False), (1440, True)])
@each_study
def test_a_browser_has_room_for_the_page(path, width, dark, tmp_path):
    page = tmp_path / "report.html"
    write_page(study_page(STUDIES[path.stem], *read_rows(path)), page)
    assert check_page(page, width, dark) == []
