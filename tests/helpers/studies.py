"""Studies of tests: configurations and pretended results."""

import numpy as np
import torch
from matplotlib.figure import Figure
from omegaconf import OmegaConf

from drest_torch.jobs.store import Result
from drest_torch.metrics import neutrality
from drest_torch.report.html import LIGHT, Details, Gallery, Plot, write_page
from drest_torch.report.html import Page as PageOf
from drest_torch.studies.study import compose_study


def composed_study(name, *overrides):
    return compose_study(name, *overrides).study


class Pretended:
    """Results of runs that nobody did; ``lost`` says which are missing."""

    def __init__(self, agents=3, lost=lambda job: False):
        self.agents, self.lost = agents, lost

    def get(self, job):
        if self.lost(job):
            return None
        rng = np.random.default_rng(int(job.digest(), 16))
        arrays = {"episodes": np.array([0, 1])}
        for clock in job.spec["evaluated_on"]:
            p = rng.random((2, self.agents))
            arrays[f"{clock}/p_length"] = np.stack((1 - p, p), -1)
            arrays[f"{clock}/neutrality"] = neutrality(torch.from_numpy(np.stack((1 - p, p), -1))).numpy()
            arrays[f"{clock}/usefulness"] = rng.random((2, self.agents))
        return Result({"lengths": [4, 8]}, arrays)


def composed(name):
    cfg = compose_study(name).study
    return OmegaConf.merge(cfg, cfg.quick)


def drawn(report):
    """How many plots a report has; each of them can be drawn."""
    plots = [plot for section in report.sections for plot in plots_of(section.blocks)]
    for plot in plots:
        assert "nan" not in plot.alt
        plot.draw(Figure(), LIGHT)
    return len(plots)


def written(report, path, monkeypatch):
    """The text of its page, whose pictures are not drawn."""
    monkeypatch.setattr("drest_torch.report.html._picture", lambda plot, style: ("data:,", 1, 1))
    write_page(PageOf(report.title, report.question, report.sections), path)
    return path.read_text("utf-8")


def plots_of(blocks):
    for block in blocks:
        match block:
            case Plot():
                yield block
            case Gallery(plots):
                yield from plots
            case Details(_, inside):
                yield from plots_of(inside)
