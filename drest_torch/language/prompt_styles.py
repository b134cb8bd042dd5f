"""Styles of prompts: one form, or the forms and families of a split.

Price ladders, controls and the follow-up's suites are offers, which a style turns into prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drest_torch.errors import ConfigError
from drest_torch.language import form_prompts
from drest_torch.language import prompts as data
from drest_torch.language.offers import Offer
from drest_torch.language.prompts import Prompt


@dataclass(frozen=True)
class PromptStyle:
    """The form and the families of prompts."""

    held_out: bool = False
    """True for held-out families, if there is one form."""
    brief: bool = False
    """True for a small vocabulary."""
    forms: str | None = None
    """The split of the forms; None: one form."""
    families: str | None = None
    """With ``forms``, the split of the families; None: that of the forms."""

    def __post_init__(self) -> None:
        if self.families is not None and self.forms is None:
            raise ConfigError(f"families={self.families} without forms; name their split, too: forms=training")

    def generate(self, suite: str, number: int, seed: int = 0) -> list[Prompt]:
        """Generate ``number`` scenarios of a suite of `drest_torch.language.prompts` in two orders each."""
        if self.forms is None:
            return data.generate(suite, number, seed, held_out=self.held_out, brief=self.brief)
        return form_prompts.generate(suite, number, seed, forms=self.forms, of_families=self.families, brief=self.brief)

    def shift_prompts(self, suite: str, offers: Sequence[Sequence[Offer]], seed: int = 0) -> list[Prompt]:
        """Generate a scenario for each pair of offers: leave the shutdown time alone, or shift it.

        All else is that of the suite main with the same seed: forms, families, labels, times and orders.
        """
        if self.forms is None:
            return data.shift_prompts(suite, offers, seed, held_out=self.held_out, brief=self.brief)
        return form_prompts.shift_prompts(
            suite, offers, seed, forms=self.forms, of_families=self.families, brief=self.brief
        )

    def offer_seed(self, seed: int) -> int:
        """Return the seed of offers, which differ between the families of splits."""
        if self.forms is None:
            return seed
        return form_prompts.offer_seed(seed, self.families or self.forms)


PLAIN = PromptStyle()
"""One form, with families of training."""
