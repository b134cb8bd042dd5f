"""Pages for tests: a sample page with every kind of block, and a reader that returns a page as a tree."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

import numpy as np

from drest_torch.report.blocks import Commands, Gallery, Page, Plot, Prose, Section, Table
from drest_torch.report.html import write_page

VOID = {"meta", "link", "img", "source", "br", "hr", "input", "base"}


@dataclass
class Element:
    """An element of a page."""

    tag: str
    attributes: dict[str, str]
    children: list["Element | str"] = field(default_factory=list)

    def all(self, *tags):
        """Yield the descendants with these tags in order; with any tag if none is named."""
        for child in self.children:
            if isinstance(child, Element):
                if not tags or child.tag in tags:
                    yield child
                yield from child.all(*tags)

    def only(self, tag):
        """Return the only descendant with this tag."""
        (element,) = self.all(tag)
        return element

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class Reader(HTMLParser):
    """A reader that builds the tree of a page, and checks that every element is closed where it has to be."""

    def __init__(self):
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attributes})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    reader.close()
    (root,) = reader.open
    return root.only("html")


def written(tmp_path, *blocks, **parts):
    """Write a page with these blocks in a single section, and return its tree."""
    page = Page(**{"title": "T", "subtitle": "", "blocks": [Section("S", blocks)], **parts})
    write_page(page, tmp_path / "page.html")
    return read(tmp_path / "page.html")


def nothing(figure, style):
    """Draw an empty figure, which is fast."""


def curves(figure, style):
    axes = figure.subplots()
    steps = np.linspace(0, 300, 150)
    for colour, label, end in ((style.series[0], "default reward", 0.12), (style.series[1], "DReST", 0.95)):
        axes.plot(steps, end * (1 - np.exp(-steps / 60)), color=colour, label=label)
    axes.set(xlabel="thousand steps", ylabel="neutrality (bits)", title="Neutrality")
    axes.legend()


def heat(figure, style):
    axes = figure.subplots()
    axes.grid(False)
    figure.colorbar(axes.imshow(np.arange(400).reshape(20, 20) % 37), label="P(L = l)")


def bars(figure, style):
    figure.subplots().bar(["tabular", "reinforce", "a2c", "ppo"], [0.9, 0.8, 0.7, 0.95], color=style.series[:4])


LONG = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"


def sample():
    """Return a page with every kind of block, and with words that are too long for a phone in every place."""
    plots = [
        Plot("DReST rises to one bit.", "Neutrality; see [the paper](https://arxiv.org/abs/2407.00805).", curves),
        Plot("A heat map.", f"The chance of each length: {LONG}.", heat),
        Plot("Four bars.", "", bars),
    ]
    compared = Table(
        "Side by side",
        ["measure", "paper", "ours", "agrees"],
        [
            ["Usefulness", "0.93", "0.934 ± 0.004", "✓ within the interval"],
            ["Neutrality (bits)", "0.99", "0.941 ± 0.010", "✗"],
            [LONG, "–", "", f"◐ {LONG}"],
        ],
        note=f"± is half the interval, from `drest_torch.statistics.intervals.{LONG}`.",
    )
    wide = Table(
        f"Every seed, {LONG}",
        ["level", *(f"seed {seed}" for seed in range(30))],
        [[f"level {level}", *(f"{level + seed / 100:.3f}" for seed in range(30))] for level in range(3)],
    )
    remarks = Table("Remarks", ["level", "remark"], [["one", "a remark that is longer than a phone is wide " * 3]])
    question = [Prose(LONG, "lead"), Prose(f"`{LONG}` and https://example.org/{LONG}"), Prose(f"- {LONG}\n- b")]
    results = [compared, Gallery(plots), wide, Plot("Wide.", "Wide.", curves, (10, 3))]
    commands = Commands(["make install", f"python -m drest_torch.study name={LONG} out=runs/{LONG}"])
    more = [Prose(LONG), wide, remarks, Commands([LONG * 2]), plots[2], Gallery(plots)]
    how = [commands, Section(f"More {LONG}", more)]
    sections = [Section("What was asked", question), Section(f"Results {LONG}", results), Section("How", how)]
    title, subtitle = f"Are the agents neutral, or {LONG}?", f"What we measure, {LONG}, and what the paper reports"
    return Page(title, subtitle, sections, footer=f"In `{LONG}.json`.")
