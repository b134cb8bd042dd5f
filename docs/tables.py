"""Write the generated tables of the README and of the pages: python docs/tables.py

A table stands between a line `<!-- NAME WORDS: written by python docs/tables.py -->` and one with `<!-- end -->`. It
comes from the code, from a closed form, from the record of a campaign, or from the published rows of studies
(`docs/results/STUDY.csv`). Nothing in it is typed by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import torch

from drest_torch.commands.help import keys_of
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import WORLDS, world
from drest_torch.metrics import neutrality
from drest_torch.report.tables import in_markdown, median_range
from drest_torch.studies.generalization.pages import FOLLOW_UP
from drest_torch.studies.study_rows import read_rows
from drest_torch.theory import best_choice, largest_neutral, margin, rule_of_thumb

DOCS = Path(__file__).resolve().parent
TABLE = re.compile(r"(<!-- (\w+)((?: \S+)*): written by python docs/tables\.py -->\n).*?(<!-- end -->)", re.DOTALL)
LAM = 0.9
FOLLOW_UP_PAPER = "https://arxiv.org/abs/2604.17502"
RECIPES = {
    "env_steps": "environment steps of training; with exact gradients, updates × `algo.counted_steps`",
    "policy.network": "the network",
    "policy.observation": "what it sees of a gridworld",
    "reward.episodes_per_meta": "E",
    "reward.group": "slots that play a level side by side",
}
"""Keys of other groups that recipes set, with their meanings in tables of settings."""


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
        choice = best_choice(2, episodes, LAM)
        ratio = 1 + margin(2, episodes, LAM)
        compared = f"{ratio:.4f}" if ratio < 1.1 else f"{ratio:.4g}"
        bits = neutrality(torch.tensor(choice, dtype=torch.float64)).item()
        rows.append((str(episodes), f"{choice[0]:.3f}", f"{bits:.3f}", compared))
    header = ("E", "smaller probability at the optimum", "its neutrality", "its return ÷ a neutral policy's")
    return in_markdown(header, rows)


def settings(*words: str) -> str:
    """Return the keys of an algorithm, or those that an environment changes, for choices of options joined by commas.

    A word that begins with `-` names a key to leave out.
    """
    choices = [word for word in words if not word.startswith("-")]
    left_out = {word[1:] for word in words} | {"algo.name", "env.name", "env.title"}
    keys_by_name = [{key.name: key for key in keys_of("train", *choice.split(","))} for choice in choices]
    usual: dict[str, str] = {}
    if choices[0].startswith("env="):
        usual = {key.name: key.value for key in keys_of("train", "env=gymnasium")}
    rows: list[list[str]] = []
    for name, key in keys_by_name[0].items():
        is_of_env = name in ("env.id", "env.base", "env.delays") or usual.get(name) != key.value
        is_relevant = name.startswith("env.") and is_of_env if usual else name.startswith("algo.")
        if name in left_out or not (is_relevant or name in RECIPES):
            continue
        values = [f"`{keys[name].value}`" for keys in keys_by_name]
        rows.append([f"`{name}`", *values, RECIPES.get(name, key.meaning)])
    header = [choice.replace(",", " ") for choice in choices]
    return in_markdown(("key", *(f"`{words}`" for words in header), "meaning"), rows)


def headlines() -> str:
    """Return the README's table, from the rows of studies that are published."""
    header = ("`drest train …`", "evaluated on", "steps", "usefulness", "neutrality", "agents")
    return in_markdown(header, [*_in_gridworlds(), *_as_the_follow_up(), *_in_paper_worlds(), *_in_cartpole()])


Cells = tuple[str, ...]


def _rows_of(study: str, part: str, **where: str) -> pd.DataFrame:
    """Return those rows of a study, none if it is not published."""
    path = DOCS / "results" / f"{study}.csv"
    if not path.exists():
        return pd.DataFrame()
    rows, _ = read_rows(path)
    chosen = rows.part == part
    for column, value in where.items():
        chosen &= rows[column] == value
    return rows[chosen]


def _mean(values: pd.Series) -> str:
    return f"{values.mean():.3f}"


def _cells(
    name: str, place: str, steps: str, ends: pd.DataFrame, number: Callable[[pd.Series], str] = median_range
) -> Cells:
    """Return the cells of some agents; ``number`` summarises usefulness and neutrality."""
    return (name, place, steps, number(ends.usefulness), number(ends.neutrality), str(ends.seed.nunique()))


def _in_gridworlds() -> Iterator[Cells]:
    default, settings = "`algo=ppo`", "docs/results.md"
    same_kind, paper = "{:.0f} unseen levels of the same kind", "the paper's {:.0f} worlds, unseen"
    agents = [
        ("PPO", "unseen", default, same_kind),
        ("PPO", "paper", default, paper),
        ("PPO, convolutional", "unseen", f"`algo=ppo policy=convolutional` [and more]({settings})", same_kind),
    ]
    for agent, level_set, command, place in agents:
        ends = _rows_of("generalization", "long", agent=agent, set=level_set)
        if len(ends):
            yield _cells(command, place.format(ends.levels.max()), f"{ends.effort.max() / 1e6:.0f} million", ends)


def _as_the_follow_up() -> Iterator[Cells]:
    ends = _rows_of("generalization", "follow_up", agent="PPO, DReST", set="file")
    if len(ends):
        name = "PPO, [as the follow-up](docs/results.md)"
        place = f"{ends.levels.max():.0f} of its validation levels"
        yield _cells(name, place, f"{ends.effort.max() / 1e6:.0f} million", ends, _mean)
        useful, neutral = FOLLOW_UP["PPO, DReST"]["file"]
        name = f"PPO, [published]({FOLLOW_UP_PAPER})"
        yield (name, "200 of its test levels", "100 million", f"{useful:.3f}", f"{neutral:.3f}", "5")


def _in_paper_worlds() -> Iterator[Cells]:
    for reward, words in {"default": " reward=default", "drest": ""}.items():
        ends = _rows_of("neural", "end", algorithm="ppo", reward=reward)
        if len(ends):
            command = f"`algo=ppo levels=paper{words}` [and more](docs/algorithms/ppo.md)"
            yield _cells(command, "the paper's 9 worlds, trained on", "3 million", ends)


def _in_cartpole() -> Iterator[Cells]:
    ends = _rows_of("environments", "end", environment="CartPole", reward="drest")
    if len(ends):
        yield _cells("`env=cartpole algo=ppo`", "new mini-episodes", "1.2 million", ends)


def campaign() -> str:
    """Return what came of the last campaign against runs, files and commands (`make chaos`)."""
    record = json.loads((DOCS / "explanation" / "reliability.json").read_text("utf-8"))
    rows = []
    for row in record["rows"]:
        outcomes = ", ".join(f"{count:,} {kind}" for kind, count in row["found"].items())
        rows.append((row["what"], f"{row['tried']:,}", outcomes, str(len(row["broken"]))))
    share = f"{record['share']:.0%} of the whole campaign, seed {record['seed']}:"
    table = in_markdown(("tried", "how often", "what came of it", "broken"), rows)
    return "\n\n".join(filter(None, (share, table, record.get("note"))))


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


def with_tables(text: str) -> str:
    """Return a page with its tables generated anew, each by the function of its name."""

    def table(match: re.Match[str]) -> str:
        beginning, name, words, end = match.groups()
        return f"{beginning}{globals()[name](*words.split())}\n{end}"

    return TABLE.sub(table, text)


def main() -> None:
    """Write the tables of all pages."""
    for page in (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))):
        text = page.read_text("utf-8")
        page_with_tables = with_tables(text)
        if page_with_tables != text:
            page.write_text(page_with_tables, "utf-8")


if __name__ == "__main__":
    main()
