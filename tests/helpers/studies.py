"""Configurations of studies for tests, and the words and blocks of their pages."""

import re
from html import unescape
from unittest.mock import patch

import numpy as np
from markupsafe import Markup
from omegaconf import OmegaConf

from drest_torch.jobs.job import Result
from drest_torch.report.blocks import Gallery, Page, Section
from drest_torch.report.html import Picture, render
from drest_torch.studies.catalogue import compose_study


def composed_study(name, *overrides):
    """Return the configuration of a study."""
    return compose_study(name, *overrides).study


def composed(name):
    """Return the configuration of a study's quick version."""
    cfg = composed_study(name)
    return OmegaConf.merge(cfg, cfg.quick)


def table_ends(of_clocks, **numbers):
    """Return a result of tabular agents with this final neutrality, usefulness and P(longer), by clock of evaluation.

    All are 0 before the end.
    """
    arrays = {"episodes": np.array([0, 640])}
    for clock, (neutral, useful, longer) in of_clocks.items():
        for name, values in (("neutrality", neutral), ("usefulness", useful)):
            arrays[f"{clock}/{name}"] = np.stack([np.zeros(len(values)), np.array(values, float)])
        chances = np.stack([1 - np.array(longer, float), np.array(longer, float)], -1)
        arrays[f"{clock}/p_length"] = np.stack([0 * chances, chances])
    return Result(numbers, arrays)


def page_text(blocks):
    """Return the words of a page with these blocks, without markup, pictures and line breaks."""
    with patch("drest_torch.report.html.plot_picture", lambda plot, name: Picture(Markup(), (1, 1), 1, 1)):
        page = render(Page("", "", blocks))
    body = re.sub(r"(?s).*<main[^>]*>|</main>.*", "", page)
    words = re.sub(r"<[^>]*>", " ", re.sub(r"</?(?:strong|em|code|a|span)\b[^>]*>", "", body))
    return " ".join(unescape(words).split())


def all_blocks(blocks):
    """Yield blocks and the blocks within them."""
    for block in blocks:
        yield block
        match block:
            case Section(_, inside) | Gallery(inside):
                yield from all_blocks(inside)
