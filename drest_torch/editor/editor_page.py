"""The page as one HTML file: its template, styles and scripts, and the levels and agents that it begins with.

The scripts draw, and send what is drawn to the server; they know no rule of the worlds. In a static page the answers
are part of the file.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from drest_torch.agent import Agent
from drest_torch.editor.answers import level_values
from drest_torch.envs.levels import CLOCKS, MAX_SIDE, Level
from drest_torch.envs.objects import KINDS
from drest_torch.report.themes import variables

SCRIPTS = ("drawing.js", "level.js", "board.js", "tools.js", "results.js", "player.js", "page.js")
"""The scripts in the order in which they are run, in one scope."""


def render(levels: Sequence[Level], agents: Mapping[str, Agent], further: Mapping[str, Any]) -> str:
    """Return the page; ``further`` values are those of a server or of a static page."""
    script = "\n".join(['"use strict";', "{", *map(_file, SCRIPTS), "}"])
    start = {
        "levels": [level_values(level) for level in levels],
        "agents": [{"name": name, "description": description(agent)} for name, agent in agents.items()],
        "kinds": [{"noun": kind.noun, "letters": kind.letters, "example": kind.example} for kind in KINDS],
        "clocks": list(CLOCKS),
        "largest": MAX_SIDE,
        **further,
    }
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_file("page.html.j2")).render(
        css=Markup(_file("page.css")),
        light=variables(0),
        dark=variables(1),
        script=Markup(script),
        digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        start=Markup(_in_script(start)),
        is_static="answers" in start,
        start_texts=start.get("texts"),
    )


def description(agent: Agent) -> str:
    """Return the network and the origin of an agent in a few words."""
    parameters = sum(parameter.numel() for parameter in agent.policy.parameters())
    bits = agent.spec.policy.private_bits
    words = [f"{agent.spec.policy.network} network", f"{parameters:,} parameters"]
    if bits:
        words.append("1 private bit" if bits == 1 else f"{bits} private bits")
    origin = agent.spec.origin
    words.append(f"{origin.algorithm} with the reward {origin.reward} on {origin.place} levels")
    return ", ".join(words)


def _in_script(value: Any) -> str:
    """Return JSON that a script element can hold: no text in it ends the element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _file(name: str) -> str:
    return files("drest_torch.editor").joinpath(name).read_text("utf-8")
