"""How a notebook shows an agent."""

from __future__ import annotations

import base64
import html
from collections.abc import Mapping
from typing import Any

from drest_torch.tracking.console import MEASURES, of_agent


def page(agent: str, where: str, numbers: Mapping[str, Any], picture: bytes | None) -> str:
    """Return the agent's description, a table of its numbers and those of a uniform policy, and the picture."""
    of_the_agent = [of_agent(numbers, measure) for measure in MEASURES]
    of_uniform = [f"{numbers['uniform'][measure]:.3f}" for measure in MEASURES]
    heads = "".join(f"<th>{measure}</th>" for measure in MEASURES)
    image = ""
    if picture is not None:
        image = f'<img src="data:image/png;base64,{base64.b64encode(picture).decode()}">'
    return (
        f"<p>{html.escape(agent)}</p><table><tr><th></th>{heads}</tr>"
        f"<tr><td>{html.escape(where)}</td><td>{'</td><td>'.join(of_the_agent)}</td></tr>"
        f"<tr><td>uniform policy</td><td>{'</td><td>'.join(of_uniform)}</td></tr>"
        f"</table>{image}"
    )
