"""Write the generated tables of the README and the pages; nothing in them is typed by hand: python docs/tables.py

A table stands between a line `<!-- NAME WORDS: written by python docs/tables.py -->` and one with `<!-- end -->`. It
comes from the code, from a closed form, or from what is kept of studies in `docs/results/STUDY.json`. With a folder of
results, as in `python docs/tables.py results`, what the tables need of its studies is kept first. Studies, goals and
figures that are not in it keep their earlier results: those that nobody measures any more are deleted by hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
import yaml

from drest_torch.commands.help import keys_of
from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import solve
from drest_torch.envs.levels import WORLDS, world
from drest_torch.metrics import neutrality
from drest_torch.report.plots import write_plot
from drest_torch.report.tables import in_markdown
from drest_torch.studies.scores import (
    MINI_EPISODES,
    PARTS,
    Score,
    at_gamma,
    cost_plot,
    cost_table,
    follow_up_table,
    gammas,
    goals_table,
    size_table,
    sizes_plot,
)
from drest_torch.theory import best_choice, largest_neutral, margin, rule_of_thumb

DOCS = Path(__file__).resolve().parent
KEPT = DOCS / "results"
TABLE = re.compile(r"(<!-- (\w+)((?: \S+)*): written by python docs/tables\.py -->\n).*?(<!-- end -->)", re.DOTALL)
LAM = 0.9
PLOTS = {"sizes": sizes_plot, "cost": cost_plot}  # of the study `goals`, by what is kept of it
SETS, HEADLINES, RECIPES = yaml.safe_load((KEPT / "names.yaml").read_text("utf-8")).values()
KEYS = ("quotes", "claims", "goals", "path", "published", "sizes", "cost", "tables")  # kept of a summary
PROTOCOL, PUBLISHED = "docs/results.md#the-follow-ups-protocol", "https://arxiv.org/abs/2604.17502"


def of_study(name: str) -> Any:
    """Return what is kept of a study."""
    path = KEPT / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.exists() else {}


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


def kept(study: str, name: str) -> str:
    """Return a table that is kept of a study."""
    return in_markdown(**of_study(study)["tables"][name])


def settings(*words: str) -> str:
    """Return the keys of an algorithm, or those that an environment changes, for choices of options joined by commas.

    A word that begins with `-` names a key to leave out.
    """
    columns = [each for each in words if not each.startswith("-")]
    left_out = {each[1:] for each in words} | {"algo.name", "env.name", "env.title"}
    found = [{key.name: key for key in keys_of("train", *each.split(","))} for each in columns]
    usual = {key.name: key.value for key in keys_of("train", "env=gymnasium")} if columns[0].startswith("env=") else {}
    rows: list[list[str]] = []
    for name, key in found[0].items():
        of_env = name in ("env.id", "env.base", "env.delays") or usual.get(name) != key.value
        wanted = name.startswith("env.") and of_env if usual else name.startswith("algo.")
        if name in left_out or not (wanted or name in RECIPES):
            continue
        meaning, values = RECIPES.get(name, key.meaning), [f"`{keys[name].value}`" for keys in found]
        rows.append([f"`{name}`", *values, meaning])
    return in_markdown(("key", *(f"`{each.replace(',', ' ')}`" for each in columns), "meaning"), rows)


def kept_scores() -> list[Score]:
    """Return what is kept of the scores of the study `goals`."""
    return [Score(**{"neutrality_own": [], **each}) for each in of_study("goals")["goals"]]


def set_name(score: Score) -> str:
    """Return what the levels of a score are called, with their number."""
    few = score.designs is not None and score.designs < score.levels
    name = SETS.get(score.split, f"{of_study('goals').get('path')}: {{}} unseen levels").format(score.levels)
    return MINI_EPISODES if "env=" in score.arguments else f"{name} ({score.designs} designs)" if few else name


def goals(*words: str) -> str:
    """Return what agents reach, by parts of the study `goals`, and the arguments that train them as a list below it.

    A word with `=` chooses those that are trained with this argument.
    """
    given = {word for word in words if "=" in word}
    made = [each for each in kept_scores() if each.part in words and given <= {*each.arguments.split()}]
    table = goals_table(made, "Goals")
    rows = [[row[0], set_name(each), *row[2:-1]] for each, row in zip(made, table.rows, strict=True)]
    commands = {each.title: f"- {each.title}: `{each.arguments}`" for each in made}
    listed = ("\n`drest train` trains them with these arguments:\n", *commands.values())
    return "\n".join((in_markdown(table.header[:-1], rows), *listed))


def headlines() -> str:
    """Return the README's table."""
    known = {(score.title, score.split): score for score in kept_scores()}
    chosen = [known[title, split] for title, split in HEADLINES if (title, split) in known]
    at, rows = gammas(chosen), []
    for score in chosen:
        follows = score.part == "follow_up"
        title = f"{score.title} [as the follow-up]({PROTOCOL})" if follows else f"`{score.arguments}`"
        numbers = (score.usefulness, *(score.usefulness_at.get(gamma) for gamma in at), score.neutrality)
        reached = (*map(at_gamma, numbers), str(len(score.usefulness)))
        rows.append((title, set_name(score), score.training.partition(";")[0], *reached))
        if theirs := of_study("goals").get("published", {}).get(score.title, {}).get("test"):
            title = f"{score.title}, [published]({PUBLISHED}), means"
            reached = (f"{theirs[0]:.3f}", *["–"] * len(at), f"{theirs[1]:.3f}", "5")
            rows.append((title, "its 200 test levels (25 designs)", "100 M steps", *reached))
    header = ("`drest train …`", "evaluated on", "training", "usefulness", *(f"at γ = {gamma}" for gamma in at))
    return in_markdown((*header, "neutrality", "seeds"), rows)


def protocol() -> str:
    """Return the table of agents trained on the follow-up's levels alone, beside what it reports."""
    made = [score for score in kept_scores() if score.part == "follow_up"]
    table = follow_up_table(of_study("goals")["published"], made)
    return in_markdown(table.header, table.rows)


def sizes() -> str:
    """Return the tables of agents of small maps by the side of the map, and their plot."""
    means = of_study("goals")["sizes"]
    sides = [*map(int, next(iter(means.values()))["usefulness"])]
    tables = [size_table(means, measure, sides) for measure in ("usefulness", "neutrality")]
    parts = [f"{table.caption}:\n\n{in_markdown(table.header, table.rows)}" for table in tables]
    return "\n\n".join(parts) + image("sizes")


def costs() -> str:
    """Return the table of what the size of a map costs, and its plot."""
    table = cost_table(of_study("goals")["cost"])
    return in_markdown(table.header, table.rows) + image("cost")


def image(name: str) -> str:
    """Return the reference to a plot of the study `goals`."""
    return f"\n\n![{PLOTS[name](of_study('goals')[name]).alt}](images/{name}.png)"


def campaign() -> str:
    """Return what came of the last campaign against runs, files and commands (`make chaos`)."""
    record = json.loads((DOCS / "explanation" / "reliability.json").read_text("utf-8"))
    rows = []
    for row in record["rows"]:
        found = ", ".join(f"{count:,} {kind}" for kind, count in row["found"].items())
        rows.append((row["what"], f"{row['tried']:,}", found, str(len(row["broken"]))))
    share = f"{record['share']:.0%} of the whole campaign, seed {record['seed']}:"
    table = in_markdown(("tried", "how often", "what came of it", "broken"), rows)
    return "\n\n".join(filter(None, (share, table, record.get("note"))))


def quotes(*studies: str) -> str:
    """Return the figures of the paper beside those of studies: of all of them, if none is named."""
    chosen = studies or [path.stem for path in sorted(KEPT.glob("*.json"))]
    rows = [(f"`{study}`", *row.values()) for study in chosen for row in of_study(study).get("quotes", ())]
    return in_markdown(("study", "what", "the paper", "measured"), rows)


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


def collect(results: Path) -> dict[str, dict[str, Any]]:
    """Return what is kept of every study that has a summary in the folder and was done as it is published."""
    kept = {}
    for path in sorted(results.glob("*/summary.json")):
        name, summary = path.parent.name, json.loads(path.read_text(encoding="utf-8"))
        others = [key for key in summary.get("changed", ()) if key not in ("parts", "device")]
        if others and "goals" not in summary:
            print(f"{name}: made with another study.{others[0]} than the published one; that one stays")
            continue
        if "goals" in summary:  # a row each, which says by how many seeds; quotes on parts are of what was pursued last
            summary["quotes"] = [row for row in summary.get("quotes", ()) if row["what"] not in PARTS.values()]
        kept[name] = {key: summary[key] for key in KEYS if key in summary}
    return kept


def with_earlier(found: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a study, with the earlier ones of goals that it did not pursue this time."""
    merged = {**earlier, **{key: value for key, value in found.items() if value or key not in earlier}}
    pursued = (groupby(results.get("goals", ()), itemgetter("title")) for results in (earlier, found))
    if goals := {title: [*rows] for each in pursued for title, rows in each}:  # in the order of the earlier
        merged["goals"] = [row for rows in goals.values() for row in rows]
    if quotes := {row["what"]: row for results in (earlier, found) for row in results.get("quotes", ())}:
        merged["quotes"] = [*quotes.values()]
    if several := earlier.get("tables", {}) | found.get("tables", {}):
        merged["tables"] = several
    return merged


def write_plots(results: Mapping[str, Any], folder: Path) -> None:
    """Write those plots of the study `goals` that these results have."""
    for name, make in PLOTS.items():
        if results.get(name):
            write_plot(make(results[name]), folder / f"{name}.png")


def written(text: str) -> str:
    """Return a page with its tables made anew, each by the function of its name."""
    return TABLE.sub(lambda found: f"{found[1]}{globals()[found[2]](*found[3].split())}\n{found[4]}", text)


def main(results: Path | None = None) -> None:
    """Keep what the studies in a folder found, if one is given, and write the pages."""
    new = {} if results is None else collect(results)
    if results is not None and not new:
        sys.exit(f"{results}: no summaries of studies in it; run drest study study=paper first")
    for study, found in new.items():
        text = json.dumps(with_earlier(found, of_study(study)), indent=1, ensure_ascii=False)
        (KEPT / f"{study}.json").write_text(f"{text}\n", "utf-8")
        write_plots(found, DOCS / "images")
    for page in (DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))):
        text = page.read_text("utf-8")
        if (made := written(text)) != text:
            page.write_text(made, "utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
