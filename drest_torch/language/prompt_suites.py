"""The suites of prompts by name: those of `drest_torch.language.prompts`, ladders, controls and the follow-up's."""

from __future__ import annotations

from drest_torch.errors import ConfigError
from drest_torch.language import controls, follow_up_suites, prompt_ladder
from drest_torch.language import prompts as data
from drest_torch.language.prompt_styles import PLAIN, PromptStyle

GROUPS = {
    "all": data.MEASURED,
    "ladder": prompt_ladder.SUITES,
    "controls": controls.SUITES,
    "followup": follow_up_suites.SUITES,
}
"""Names of several suites."""
SUITES = (*data.SUITES, *prompt_ladder.SUITES, *controls.SUITES, *follow_up_suites.SUITES)


def suites_of(names: str) -> list[str]:
    """Return the suites that are named, separated by commas; `GROUPS` are replaced by their suites."""
    suites: list[str] = []
    for name in names.split(","):
        suites += GROUPS.get(name, (name,))
    if unknown := [suite for suite in suites if suite not in SUITES]:
        raise ConfigError(f"suite={unknown[0]}; expected one of {', '.join((*SUITES, *GROUPS))}")
    return suites


def are_ladders(names: str) -> bool:
    """Return whether all named suites are price ladders, which are evaluated as curves."""
    return set(suites_of(names)) <= set(prompt_ladder.SUITES)


def generate(suite: str, number: int, seed: int = 0, style: PromptStyle = PLAIN) -> list[data.Prompt]:
    """Generate ``number`` scenarios of any suite in two orders each; a ladder has them on each of its rungs."""
    if suite in prompt_ladder.SUITES:
        return prompt_ladder.ladder_prompts(suite.removeprefix(prompt_ladder.PREFIX), number, seed, style)
    if suite in controls.SUITES:
        return controls.control_prompts(suite.removeprefix(controls.PREFIX), number, seed, style)
    if suite in follow_up_suites.SUITES:
        return follow_up_suites.follow_up_prompts(suite.removeprefix(follow_up_suites.PREFIX), number, seed, style)
    return style.generate(suite, number, seed)
