"""Studies of tests: configurations, and the words and blocks of what a study publishes."""

import re
from html import unescape
from types import SimpleNamespace
from unittest.mock import patch

from markupsafe import Markup
from omegaconf import OmegaConf

from drest_torch.report.blocks import Details, Gallery, Page, Section
from drest_torch.report.html import Picture, render
from drest_torch.studies.engine import Done, publish
from drest_torch.studies.registry import compose_study


def composed_study(name, *overrides):
    """Return the configuration of a study."""
    return compose_study(name, *overrides).study


def composed(name):
    """Return the configuration of a study's quick version."""
    cfg = composed_study(name)
    return OmegaConf.merge(cfg, cfg.quick)


def published(study, cfg, get):
    """Return what a study publishes if ``get`` gives the results of its jobs."""
    return publish(study, cfg, Done(study.jobs(cfg), SimpleNamespace(get=get)))


def page_text(blocks):
    """Return the words of a page of these blocks, without markup, pictures and line breaks."""
    with patch("drest_torch.report.html.plot_picture", lambda plot, name: Picture(Markup(), (1, 1), 1, 1)):
        page = render(Page("", "", blocks))
    body = re.sub(r"(?s).*<main[^>]*>|</main>.*", "", page)
    words = re.sub(r"<[^>]*>", " ", re.sub(r"</?(?:strong|em|code|a|span)\b[^>]*>", "", body))
    return " ".join(unescape(words).split())


def all_blocks(blocks):
    """Return blocks and those within them."""
    for block in blocks:
        yield block
        match block:
            case Section(_, inside) | Details(_, inside) | Gallery(inside):
                yield from all_blocks(inside)
