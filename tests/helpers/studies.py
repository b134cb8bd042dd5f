"""Studies of tests: configurations, made-up results, and what a study publishes from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from markupsafe import Markup
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from drest_torch.jobs.job import Job, Result
from drest_torch.metrics import neutrality
from drest_torch.report.blocks import Block, Details, Gallery, Lead, Page, Plot, Section, Table
from drest_torch.report.html import Picture, render
from drest_torch.report.style import LIGHT
from drest_torch.studies.study import Analysis, Report, compose_study, report

# ------------------------------------------------------------------------------------ configuration


def composed_study(name: str, *overrides: str) -> Any:
    """Return the configuration of a study."""
    return compose_study(name, *overrides).study


def composed(name: str) -> Any:
    """Return the configuration of a study's quick version."""
    cfg = composed_study(name)
    return OmegaConf.merge(cfg, cfg.quick)


# ------------------------------------------------------------------------------------------ results


class Pretended:
    """Results of tabular runs that nobody did, in place of `Finished`.

    ``lost`` says which runs are missing. ``ends`` gives a run's values at the end of training, by metric for
    every clock or by ``clock/metric``: a number for all agents, or a list with one for each. Other values are random.
    """

    def __init__(
        self,
        agents: int = 3,
        lost: Callable[[Job], bool] = lambda job: False,
        ends: Callable[[Job], Mapping[str, float | Sequence[float]]] = lambda job: {},
    ) -> None:
        self.agents, self.lost, self.ends = agents, lost, ends

    def get(self, job: Job) -> Result | None:
        """Return the made-up result of a run."""
        if self.lost(job):
            return None
        rng = np.random.default_rng(int(job.digest(), 16))
        arrays = {"episodes": np.array([0, 1])}
        for clock in job.spec["evaluated_on"]:
            p = rng.random((2, self.agents))
            arrays[f"{clock}/p_length"] = np.stack((1 - p, p), -1)
            arrays[f"{clock}/neutrality"] = neutrality(torch.from_numpy(np.stack((1 - p, p), -1))).numpy()
            arrays[f"{clock}/usefulness"] = rng.random((2, self.agents))
        for name, value in self.ends(job).items():
            for key in [key for key in arrays if key == name or key.endswith(f"/{name}")]:
                arrays[key][-1] = value
        return Result({"lengths": [4, 8]}, arrays)

    def of(self, jobs: Sequence[Job]) -> list[tuple[Job, Result]]:
        """Return those of the runs that are not missing, with their results."""
        return [(job, result) for job in jobs if (result := self.get(job)) is not None]


# --------------------------------------------------------------------------------------- publishing


@dataclass
class Published:
    """A study's analysis and report."""

    analysis: Analysis
    report: Report

    @property
    def text(self) -> str:
        """Return the words of the page, without markup, pictures and line breaks."""
        return page_text(self.report)

    @property
    def tables(self) -> dict[str, dict[str, list[str]]]:
        """Return the tables that the page shows, by caption: for each row its cells, by the row's name."""
        tables = [block for block in all_blocks(self.report.sections) if isinstance(block, Table)]
        return {table.caption: {name: cells for name, *cells in table.rows} for table in tables}

    @property
    def plots(self) -> list[Plot]:
        """Return the plots that the page shows; each of them has been plotted."""
        return plotted(self.report)

    def opens_with_its_answer(self) -> bool:
        """Return whether the page begins with the answer in words, and shows a picture before its first section."""
        intro = [block for block in self.report.sections if not isinstance(block, Section)]
        return isinstance(intro[0], Lead) and any(isinstance(block, Plot) for block in all_blocks(intro))


def publish(study: ModuleType, cfg: Any, finished: Any) -> Published:
    """Analyse these results, and render the study's template."""
    return Published(study.analyse(cfg, finished), report(study, cfg, finished))


def page_text(report: Report) -> str:
    """Return the words of a report's page."""
    sections = [block for block in report.sections if isinstance(block, Section)]
    intro = [block for block in report.sections if not isinstance(block, Section)]
    with patch("drest_torch.report.html.plot_picture", lambda plot, name: Picture(Markup(), (1, 1), 1, 1)):
        page = render(Page(report.title, report.question, sections, intro))
    body = re.sub(r"(?s).*<main[^>]*>|</main>.*", "", page)
    words = re.sub(r"<[^>]*>", " ", re.sub(r"</?(?:strong|em|code|a|span)\b[^>]*>", "", body))
    return " ".join(unescape(words).split())


def all_blocks(blocks: Sequence[Block]) -> Iterator[Block]:
    """Return blocks and those within them."""
    for block in blocks:
        yield block
        match block:
            case Section(_, inside) | Details(_, inside) | Gallery(inside):
                yield from all_blocks(inside)


def plotted(report: Report) -> list[Plot]:
    """Plot everything that a report shows, and return it."""
    plots = [block for block in all_blocks(report.sections) if isinstance(block, Plot)]
    for plot in plots:
        assert "nan" not in plot.alt
        plot.draw(Figure(), LIGHT)
    return plots


def drawn(report: Report) -> int:
    """Plot everything that a report shows, and return how many plots there are."""
    return len(plotted(report))


def written(report: Report, path: Path, monkeypatch: Any) -> str:
    """Return the words of a report: only for studies that write their reports in Python."""
    return page_text(report)
