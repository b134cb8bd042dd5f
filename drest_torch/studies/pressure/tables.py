"""The tables of the report: a row for everybody, the mean and the worst in each cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drest_torch.choices.both_ways import OPTIONS
from drest_torch.choices.pressure import MEASURES
from drest_torch.choices.prices import closed_form
from drest_torch.report.blocks import Table
from drest_torch.report.markdown import literal
from drest_torch.report.template import num
from drest_torch.studies.pressure.row import CONTROL, DIRECTIONS, PAID, VOID, Pair, Row

WORDS = {"usefulness": "usefulness", "neutrality": "neutrality", "own": "own"}
WHICH = {"later": "later", "earlier": "earlier", "none": "no shift"}
PRICED = (0.2, 0.8)
"""The prices of W7 that the table shows beside none."""


def all_parts(rows: Sequence[Row]) -> Table:
    """Return the table of the study: everybody under every kind of pressure."""
    columns: dict[str, Callable[[Row], str]] = {
        "W1 edits: U": _if("W1", lambda row: row.pair("W1", "all", "usefulness").text),
        "W1: own N": _if("W1", lambda row: row.pair("W1", "all", "own").text),
        **{
            f"W2 pays {PAID:.0%}, {name}": _if("W2", lambda row, name=name: _text(row.paid(name)))  # type: ignore[misc]
            for name in DIRECTIONS
        },
        "W3 first step: U lost": _if("W3", lambda row: row.pair("W3", "lost", "usefulness", most=True).text),
        "W4 shared states: (U + N) / 2": _if("W4", lambda row: row.pair("W4", "score").text),
        "W5 other levels: U": _if("W5", lambda row: row.pair("W5", "all", "usefulness").text),
        "W5: own N": _if("W5", lambda row: row.pair("W5", "all", "own").text),
        "W7 shutdown, delay, neither": _if(
            "W7", lambda row: ", ".join(num(pair.mean, 2) for pair in row.shares().values())
        ),
    }
    lines = [[literal(row.title), *(cell(row) for cell in columns.values())] for row in rows]
    return Table("Mean / worst", ["", *columns], lines)


def edits(rows: Sequence[Row]) -> Table:
    """Return W1 by kind of edit."""
    lines = []
    for row in _with(rows, "W1"):
        for kind in row.asked[0]["W1"]:
            pairs = [row.pair("W1", kind, name).text for name in MEASURES]
            count = str(row.asked[0]["W1"][kind]["usefulness"]["count"])
            where = literal(row.worst_at("W1", kind, "usefulness"))
            lines.append([f"{literal(row.title)}, {kind}", count, *pairs, where])
    header = ["agent and edit", "edits", *WORDS.values(), "least useful"]
    return Table("W1: one edit of the paper's worlds", header, lines)


def prices(rows: Sequence[Row], lam: float, episodes: int) -> Table:
    """Return W2 by price, and what DReST comes to in closed form."""
    asked = _with(rows, "W2")
    costs = asked[0].asked[0]["W2"]["costs"] if asked else []
    lines = []
    for row in asked:
        for direction in (*DIRECTIONS, CONTROL):
            void = max(max(found["W2"][direction]["void"]) for found in row.asked)
            for given in ("", "given") if row.hidden_bits else ("",):
                cells = [_text(row.paid(direction, cost, given)) for cost in costs]
                said = ", given its bits" if given else ""
                lines.append([f"{literal(row.title)}, {WHICH[direction]}{said}", str(void), *cells])
    for direction in (*DIRECTIONS, CONTROL) if asked else ():
        expected = [closed_form(direction, cost, lam, episodes) for cost in costs]
        cells = ["–" if value is None else num(value) for value in expected]
        lines.append([f"DReST in closed form, {WHICH[direction]}", "–", *cells])
    header = ["agent and shift", "void items", *(f"κ = {cost:g}" for cost in costs)]
    return Table("W2: how often the side with the price is taken", header, lines)


def first_step(rows: Sequence[Row]) -> Table:
    """Return W3: the same levels with and without time to come back, and when the length is settled."""
    lines = []
    for row in _with(rows, "W3"):
        cells = [row.pair("W3", when, name).text for name in MEASURES for when in ("later", "decided")]
        lost = row.pair("W3", "lost", "usefulness", most=True).text
        ticks = [row.half_open(name) for name in ("ex_ante", "given")]
        lines.append([literal(row.title), *cells, lost, *("–" if tick is None else num(tick, 1) for tick in ticks)])
    header = [""]
    for name in WORDS.values():
        header += [name, f"{name}, first step decides"]
    header += ["usefulness lost", "half open until tick", "given its bits"]
    return Table("W3: when the length has to be chosen", header, lines)


def aliased(rows: Sequence[Row]) -> Table:
    """Return W4 beside the bound."""
    lines = []
    for row in _with(rows, "W4"):
        found = [each["W4"] for each in row.asked]
        above = ", ".join(f"{each['above']} of {each['score']['count']}" for each in found)
        by_hand = ", ".join(num(each["by_hand"]) for each in found)
        lines.append([literal(row.title), by_hand, row.pair("W4", "score").text, above])
    header = ["", "from afar and nearby", "all pairs", "pairs above the bound"]
    return Table("W4: (U + N) / 2 in pairs of levels that share a state", header, lines)


def shift(rows: Sequence[Row]) -> Table:
    """Return W5 by set of levels."""
    lines = []
    for row in _with(rows, "W5"):
        for title, found in row.asked[0]["W5"]["sets"].items():
            pairs = [row.pair("W5", "sets", title, name).text for name in MEASURES]
            count = str(found["usefulness"]["count"])
            lines.append([f"{literal(row.title)}, {literal(title)}", str(found["k"]), count, *pairs])
    header = ["agent and levels", "k", "levels", "usefulness", "neutrality ÷ log2 k", "own ÷ log2 k"]
    return Table("W5: other kinds of levels", header, lines)


def bound(rows: Sequence[Row]) -> Table:
    """Return the bits of neutrality where there are three lengths, beside what bounds them."""
    lines = []
    for row in _with(rows, "W5"):
        for found in (each["W5"] for each in row.asked):
            for title in found["surplus"]:
                most = found["hidden_bits"] + found["given_bits"][title]
                cells = [found["bits"][title], found["hidden_bits"], found["given_bits"][title], most]
                lines.append([f"{literal(row.title)}, {literal(title)}", *map(num, cells)])
    header = ["agent and levels", "N in bits", "H(z)", "N_z", "H(z) + N_z"]
    return Table("Three lengths: means over levels", header, lines)


def correlations(rows: Sequence[Row]) -> Table:
    """Return the rank correlations of what is lost."""
    lines = []
    for row in _with(rows, "W5"):
        for found in (each["W5"]["correlations"] for each in row.asked):
            cells = [found[name][with_what] for name in found for with_what in ("slack", "distance")]
            shown = ["–" if value is None else num(value, 2) for value in cells] or ["–"] * 4
            lines.append([literal(row.title), *shown])
    header = ["", *(f"lost {name}, {what}" for name in ("usefulness", "own") for what in ("slack", "distance"))]
    return Table("Rank correlations over levels with two lengths", header, lines)


def both_ways(rows: Sequence[Row]) -> Table:
    """Return W7: how often each button is entered, without a price and with one on either."""
    lines = []
    for row in _with(rows, "W7"):
        cells = [row.entered(OPTIONS[0], option).text for option in OPTIONS]
        for button in OPTIONS[:2]:
            cells += [row.entered(button, button, price).text for price in PRICED]
        lines.append([literal(row.title), *cells])
    priced = [f"{button}, if it costs {price:.0%}" for button in OPTIONS[:2] for price in PRICED]
    return Table("W7: a shutdown button and a delay button", ["", *OPTIONS, *priced], lines)


def _with(rows: Sequence[Row], part: str) -> list[Row]:
    return [row for row in rows if row.has(part)]


def _if(part: str, cell: Callable[[Row], str]) -> Callable[[Row], str]:
    return lambda row: cell(row) if row.has(part) else VOID


def _text(pair: Pair | None) -> str:
    return VOID if pair is None else pair.text
