"""The representation of an agent in a notebook."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from typing import Any

from drest_torch.tracking.console import MEASURES, with_interval


def html_summary(agent: str, where: str, numbers: Mapping[str, Any], picture: bytes | None) -> str:
    """Return the agent's description, a table of its measures beside those of a random policy, and the picture."""
    agent_cells = [with_interval(numbers, measure) for measure in MEASURES]
    uniform_cells = [f"{numbers['uniform'][measure]:.3f}" for measure in MEASURES]
    heads = "".join(f"<th>{measure}</th>" for measure in MEASURES)
    image = ""
    if picture is not None:
        image = f'<img src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
    return (
        f"<p>{html.escape(agent)}</p><table><tr><th></th>{heads}</tr>"
        f"<tr><td>{html.escape(where)}</td><td>{'</td><td>'.join(agent_cells)}</td></tr>"
        f"<tr><td>uniform policy</td><td>{'</td><td>'.join(uniform_cells)}</td></tr>"
        f"</table>{image}"
    )
