"""The tutorial notebook is valid, its code runs from top to bottom, and its stored outputs are true."""

import ast
import re

import pytest

from tests.helpers.documents import ROOT

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed (the extra `dev`)")

NOTEBOOK = ROOT / "docs" / "tutorials" / "agent.ipynb"
NUMBER = re.compile(r"\d+\.\d+")


def test_the_notebook_is_valid_and_small():
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert NOTEBOOK.stat().st_size < 300_000
    assert not any(output.output_type == "error" for cell in notebook.cells for output in cell.get("outputs", []))


def shown(cell, names, capsys):
    """Run a cell, and return what a notebook shows of it: what is printed, and the table of an agent."""
    tree = ast.parse(cell.source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, cell.id, "exec"), names)
    value = None if last is None else eval(compile(ast.Expression(last.value), cell.id, "eval"), names)
    return capsys.readouterr().out + (without_picture(value._repr_html_()) if hasattr(value, "_repr_html_") else "")


def stored(cell):
    return "".join(output.get("text") or without_picture(output["data"]["text/html"]) for output in cell.outputs)


def without_picture(page):
    return re.sub(r"<img[^>]*>", "", page)


@pytest.mark.slow
def test_the_notebook_shows_what_its_agents_do_today(tmp_path, monkeypatch, capsys):
    """Run `python docs/pictures.py notebook` where this fails for a change that is meant."""
    monkeypatch.chdir(tmp_path)
    names = {}
    code = [cell for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code"]
    compared = 0
    for cell in code:
        now, before = shown(cell, names, capsys), stored(cell)
        if "Agent.train(" in cell.source:
            assert before == ""  # its table is of no use here
            continue
        compared += len(NUMBER.findall(before))
        assert NUMBER.sub("", now) == NUMBER.sub("", before)
        # What is trained on another machine may differ a little.
        within = 0.05 if "runs/" in cell.source or "agents" in cell.source else 0.002
        assert [*map(float, NUMBER.findall(now))] == pytest.approx([*map(float, NUMBER.findall(before))], abs=within)
    assert compared >= 20
