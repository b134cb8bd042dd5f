"""Build the documentation: make docs, or python -m sphinx docs build/docs. Nothing is fetched from the network.

The pages of studies are generated first, from their rows in ``docs/results``, into the folder ``docs/studies``. So is a
page of `drest play` that needs no server.
"""

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.ext.napoleon import GoogleDocstring

from drest_torch import Agent, __version__
from drest_torch.editor.answers import EvaluationLimits
from drest_torch.editor.export import export
from drest_torch.envs.levels import world
from drest_torch.studies.site import write_site

DOCS = Path(__file__).resolve().parent
LEVELS_OF_PAGE = ("example", "around_the_corner", "spacious")
AGENTS_OF_PAGE = ("generalist", "generalist-bit")

write_site(DOCS / "results", DOCS / "studies")
agents = {name: Agent.load(name) for name in AGENTS_OF_PAGE}
export([world(name) for name in LEVELS_OF_PAGE], agents, EvaluationLimits(), DOCS / "studies" / "static" / "play.html")

project = "drest_torch"
author = copyright = "The drest_torch authors"
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode", "sphinx_copybutton"]
exclude_patterns = ["images", "tutorials/my_study", "**/.ipynb_checkpoints"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
html_math_renderer = "mathml"  # browsers render it; MathJax would be fetched from the network
myst_heading_anchors = 4
nb_execution_mode = "off"  # notebooks are executed by the tests, and keep their outputs

default_role = "code"
autodoc_inherit_docstrings = False
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
suppress_warnings = ["ref.python"]  # `Config` is the name of many classes
python_use_unqualified_type_names = True
maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"drest_torch {version}"
html_theme_options = {"navigation_with_keys": True}
html_show_sphinx = False
html_static_path = ["static", "studies/static"]
html_css_files = ["site.css", "studies.css"]
copybutton_prompt_text = "$ "  # a prompt and the output below it are not part of a command


def escape(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Keep Sphinx from reading P(L | x) and [*batch] in a docstring as markup, outside of code."""
    for index, line in enumerate(lines):
        if line.startswith((">>>", "    ")):
            continue
        outside = re.compile(r"(`+[^`]*`+)|([|*])(?!\s)")
        lines[index] = outside.sub(lambda match: match[1] or f"\\{match[2]}", line)


# Sphinx would read the text before a colon in the docstring of an attribute as its type.
GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end


def write_formula(writer: Any, node: Any) -> None:
    """Write a formula as MathML, inline or as a block."""
    is_block = node.tagname == "math_block"
    formula = tex2mathml(node.astext(), as_block=is_block)
    writer.body.append(f'<div class="math">{formula}</div>' if is_block else formula)
    raise nodes.SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    app.connect("autodoc-process-docstring", escape)
