"""Write the generated tables of the pages; nothing in them is typed by hand: python docs/tables.py

A table stands between a line `<!-- NAME WORDS: written by python docs/tables.py -->` and one with `<!-- end -->`. It
comes from the code, from a closed form, or from what a study keeps in `docs/results/STUDY.json` (`docs/results.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from drest_torch import neutrality
from drest_torch.choices.closed_forms import best_pressed, button_usefulness, critical_cost, pressed
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import WORLDS, world
from drest_torch.help import keys_of
from drest_torch.report.tables import in_markdown, median_range
from drest_torch.theory import best_choice, largest_neutral, margin, rule_of_thumb

DOCS = Path(__file__).resolve().parent
LAM = 0.9
SHIFTS, SIZES = ((0.1, 0.5), (0.1, 0.9), (0.01, 0.99), (0.5, 0.9)), (16, 32, 64)
"""Of P(longer), and numbers of mini-episodes E."""
CHANCES, EPISODES = (0.5, 0.2), (2, 8, 16, 32, 64)
"""With which a button works, and E."""
PAIRS = "in pairs of levels that share a state: (U + N) / 2"
"""What the study of shutdownability calls what it measures there."""
RECIPES = {
    "env_steps": "environment steps of training; with exact gradients, updates × `algo.counted_steps`",
    "policy.network": "the network",
    "policy.observation": "what it sees of a gridworld",
    "reward.episodes_per_meta": "E",
    "reward.group": "slots that play a level side by side",
}
"""Keys of other groups that recipes set, with their meanings."""
EVALUATED_ON = {
    "train": "its training levels",
    "test": "unseen levels of the same kind",
    "paper": "the paper's worlds, unseen",
}
TABLE = re.compile(r"(<!-- (\w+)((?: \S+)*): written by python docs/tables\.py -->\n).*?(<!-- end -->)", re.DOTALL)


def critical() -> str:
    """Return the largest prices that DReST pays for a shift of P(longer)."""
    rows = [(f"{p:g} → {q:g}", *(f"{critical_cost(p, q, LAM, size):.2f}" for size in SIZES)) for p, q in SHIFTS]
    return in_markdown(("from → to, P(longer)", *(f"E = {size}" for size in SIZES)), rows)


def button() -> str:
    """Return the usefulness of what training comes to and of what maximises the return, with a button by chance."""
    rows = [
        (f"{chance:g}", words, *(f"{button_usefulness(chance, longer(chance, LAM, size)):.3f}" for size in EPISODES))
        for chance in CHANCES
        for words, longer in (("training's fixed point", pressed), ("the maximiser of the return", best_pressed))
    ]
    return in_markdown(("the button works with", "usefulness of", *(f"E = {size}" for size in EPISODES)), rows)


def largest() -> str:
    """Return the largest E with a neutral optimum, and where the rule of thumb changes its sign."""
    rows = [
        (f"{lam:g}", *(text for k in (2, 3) for text in (str(largest_neutral(k, lam)), f"{rule_of_thumb(k, lam):.1f}")))
        for lam in (0.5, 0.75, 0.9, 0.95, 0.99)
    ]
    return in_markdown(("λ", "k = 2", "rule of thumb", "k = 3", "rule of thumb"), rows)


def beyond() -> str:
    """Return the optimum of whole meta-episodes that are longer, for two lengths."""
    rows = []
    for episodes in (58, 59, 64, 96, 128, 256):
        choice, ratio = best_choice(2, episodes, LAM), 1 + margin(2, episodes, LAM)
        bits = neutrality(torch.tensor(choice, dtype=torch.float64)).item()
        rows.append(
            (str(episodes), f"{min(choice):.3f}", f"{bits:.3f}", f"{ratio:.4f}" if ratio < 1.1 else f"{ratio:.4g}")
        )
    return in_markdown(
        ("E", "smaller probability at the optimum", "its neutrality", "its return ÷ a neutral policy's"), rows
    )


def of_study(name: str) -> Any:
    """Return what is kept of a study."""
    return json.loads((DOCS / "results" / f"{name}.json").read_text("utf-8"))


def arms() -> str:
    """Return what agents in menus do, by what they were trained for."""
    table = of_study("lotteries")["tables"]["arms"]
    return in_markdown(table["header"], table["rows"])


def pairs() -> str:
    """Return what agents reach where two levels share a state, by what they see."""
    quotes = {quote["what"]: quote["measured"] for quote in of_study("shutdownability")["quotes"]}
    most = quotes.pop(f"{PAIRS}, the most for the state alone")
    rows = [(f"the {what.removesuffix(f', {PAIRS}')}", text) for what, text in quotes.items() if what.endswith(PAIRS)]
    return in_markdown(("the policy sees", "(U + N) / 2"), [("the state alone, at most", most), *rows])


def settings(*words: str) -> str:
    """Return the keys of an algorithm, or those that an environment changes, for choices of options joined by commas.

    A word that begins with `-` names a key to leave out.
    """
    columns = [each for each in words if not each.startswith("-")]
    left_out = {each[1:] for each in words} | {"algo.name", "env.name", "env.title"}
    found = [{key.name: key for key in keys_of("train", *each.split(","))} for each in columns]
    usual = {key.name: key.value for key in keys_of("train", "env=gymnasium")} if columns[0].startswith("env=") else {}
    rows: dict[str, list[str]] = {}
    for name, key in found[0].items():
        of_env = name in ("env.id", "env.base", "env.delays") or usual.get(name) != key.value
        wanted = name.startswith("env.") and of_env if usual else name.startswith("algo.")
        if name in left_out or not (wanted or name in RECIPES):
            continue
        meaning, values = RECIPES.get(name, key.meaning), [f"`{keys[name].value}`" for keys in found]
        if same := rows.get(meaning):  # one text below several keys
            same[:-1] = [f"{before}, {new}" for before, new in zip(same[:-1], (f"`{name}`", *values), strict=True)]
        else:
            rows[meaning] = [f"`{name}`", *values, meaning]
    return in_markdown(("key", *(f"`{each.replace(',', ' ')}`" for each in columns), "meaning"), [*rows.values()])


def scores(word: str, *parts: str) -> str:
    """Return what training with this argument reaches, by parts of the study `goals`."""
    kept = [score for score in of_study("goals")["goals"] if score["part"] in parts and score["split"] in EVALUATED_ON]
    rows = [
        (
            f"`drest train {score['arguments']}`",
            "new mini-episodes" if "env=" in score["arguments"] else EVALUATED_ON[score["split"]],
            *(median_range(score[measure]) for measure in ("usefulness", "neutrality")),
            str(len(score["usefulness"])),
            score["training"].partition(";")[0],
        )
        for score in kept
        if word in score["arguments"].split()
    ]
    return in_markdown(("command", "evaluated on", "usefulness", "neutrality", "seeds", "training"), rows)


def quotes(study: str) -> str:
    """Return the figures of the paper beside those of a study."""
    return in_markdown(("agents", "the paper", "measured"), [tuple(row.values()) for row in of_study(study)["quotes"]])


def worlds() -> str:
    """Return the worlds of the paper, with what each length offers at γ = 1."""
    rows = []
    for name in WORLDS:
        level = world(name)
        best = solve(compile_levels([level]))
        pays = zip(best.lengths[0].tolist(), best.best_return[0].tolist(), strict=True)
        objects = " ".join(thing.text for thing in level.objects)
        rows.append((f"`{name}`", f"{level.height} × {level.width}", objects, *(f"{l}: {m:g}" for l, m in pays)))
    return in_markdown(("`levels=`", "map", "coins and button", "shorter length: m(l)", "longer length: m(l)"), rows)


TABLES: dict[str, Callable[..., str]] = {
    each.__name__: each for each in (critical, button, largest, beyond, arms, pairs, settings, scores, quotes, worlds)
}
"""By the names in the pages."""


def written(text: str) -> str:
    """Return a page with its tables made anew."""
    return TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]](*found[3].split())}\n{found[4]}", text)


def main() -> None:
    """Write the pages."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text("utf-8")
        if (new := written(text)) != text:
            page.write_text(new, "utf-8")


if __name__ == "__main__":
    main()
