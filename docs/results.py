"""Write docs/results.md and the README's table from the results of studies; nothing in them is typed by hand.

    python -m drest_torch.study study=paper
    python -m drest_torch.study study=goals study.parts=[learning]
    python docs/results.py results

What the pages need of each study is kept in `docs/results/STUDY.json`, beside the prose of the page. A study that is not
in the folder keeps its earlier results, and so do goals and figures that a study did not measure this time: those that
nobody measures any more are deleted by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import jinja2
import matplotlib.style
from matplotlib.figure import Figure

from drest_torch.plots.style import write_figure
from drest_torch.report.style import LIGHT
from drest_torch.report.tables import in_markdown as markdown
from drest_torch.report.tables import mean_range, median_range
from drest_torch.studies.scores import MARKS, MINI_EPISODES
from drest_torch.studies.sizes import cost_plot, sizes_plot

DOCS = Path(__file__).resolve().parent
README, PAGE, KEPT, IMAGES = DOCS.parent / "README.md", DOCS / "results.md", DOCS / "results", DOCS / "images"
PROSE = KEPT / "page.md.j2"
PLOTS = {"sizes": sizes_plot, "cost": cost_plot}
"""Plots of the study `goals`, by what is kept of it."""
BEGIN, END = "<!-- written by docs/results.py -->", "<!-- end -->"
SETS = {
    "train": "its training levels ({levels})",
    "test": "{levels} unseen levels of the same kind",
    "paper": "the paper's {levels} worlds, unseen",
    "file": "{file}: {levels} unseen levels",
}
"""What the README and the page call the sets of levels."""
HEADLINES = (
    ("default command", "test"),
    ("default command", "paper"),
    ("PPO with DReST", "file"),
    ("PPO on example with the default reward", "train"),
    ("PPO on example", "train"),
    ("CartPole", "test"),
)
"""The README's rows: goal and levels; first the default command. What the follow-up published follows its protocol."""
PROTOCOL, PUBLISHED = "docs/results.md#the-follow-ups-protocol", "https://arxiv.org/abs/2604.17502"
BEGUN = (
    "The earlier training of the agent of `start_from=` ([The agents that ship](reference/agent.md)) is not counted."
)
KEYS = ("quotes", "claims", "goals", "path", "published", "sizes", "cost", "tables")
"""What is kept of a summary."""
Found = Mapping[str, Any]


def collect(results: Path) -> dict[str, dict[str, Any]]:
    """Return what is kept of every study that has a summary in the folder and was done as it is published."""
    kept = {}
    for path in sorted(results.glob("*/summary.json")):
        name, summary = path.parent.name, json.loads(path.read_text(encoding="utf-8"))
        others = [key for key in summary.get("changed", ()) if key != "parts"]
        if others and "goals" not in summary:
            print(f"{name}: made with another study.{others[0]} than the published one; that one stays")
        else:  # quotes of goals are of what was pursued last: each goal has a row, which says by how many seeds
            kept[name] = {
                key: summary[key] for key in KEYS if key in summary and not (key == "quotes" and "goals" in summary)
            }
    return kept


def kept_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what was kept of each study."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def with_earlier(found: Found, earlier: Found) -> dict[str, Any]:
    """Return the results of a study, with the earlier ones of goals that it did not pursue this time."""
    merged = {**earlier, **{key: value for key, value in found.items() if value or key not in earlier}}
    new, old = ({row["title"]: [] for row in each.get("goals", [])} for each in (found, earlier))
    for each, rows in ((new, found), (old, earlier)):
        for row in rows.get("goals", []):
            each[row["title"]].append(row)
    if new or old:  # in the order of the earlier
        merged["goals"] = [row for rows in (old | new).values() for row in rows]
    if quotes := {row["what"]: row for results in (earlier, found) for row in results.get("quotes", [])}:
        merged["quotes"] = [*quotes.values()]
    if tables := earlier.get("tables", {}) | found.get("tables", {}):
        merged["tables"] = tables
    return merged


def reproduction(kept: Mapping[str, Found]) -> str:
    """Return the table of the paper's figures beside ours."""
    rows = [(f"`{study}`", *row.values()) for study, found in kept.items() for row in found.get("quotes", ())]
    return markdown(("study", "what", "the paper", "measured"), rows)


def goals(results: Found, part: str) -> str:
    """Return the table of what the agents of a part reach, and the arguments that train them as a list below it."""
    scores = [score for score in results["goals"] if score["part"] == part]
    own = any(score.get("neutrality_own", []) not in ([], score["neutrality"]) for score in scores)
    at, trained = columns(scores)
    header = ["agent", "levels", "wanted", "usefulness", *(f"at γ = {gamma}" for gamma in at), "neutrality"]
    header += [*["neutrality given its bits"] * own, "seeds that reach it", *["training"] * trained]
    rows = [
        [
            score["title"],
            set_name(score, results),
            ", ".join(MARKS[key][1].format(mark) for key, mark in score["wanted"].items()) or "–",
            median_range(score["usefulness"]),
            *(at_gamma(score, gamma) for gamma in at),
            median_range(score["neutrality"]),
            *[median_range(score.get("neutrality_own") or score["neutrality"])] * own,
            "–" if score["reached"] is None else f"{score['reached']} of {len(score['usefulness'])}",
            *[score.get("training") or "–"] * trained,
        ]
        for score in scores
    ]
    commands = [f"- {title}: `{words}`" for title, words in {s["title"]: s["arguments"] for s in scores}.items()]
    return "\n".join((markdown(header, rows), "\n`drest train` trains them with these arguments:\n", *commands))


def columns(scores: Sequence[Found]) -> tuple[list[str], bool]:
    """Return the discounts at which usefulness is known, and whether it is said how long training was."""
    at = dict.fromkeys(gamma for score in scores for gamma in score.get("usefulness_at", {}))
    return [*at], any(score.get("training") for score in scores)


def at_gamma(score: Found, gamma: str) -> str:
    """Return the median usefulness at a discount, or a dash if it is not known."""
    numbers = score.get("usefulness_at", {}).get(gamma)
    return f"{median(numbers):.3f}" if numbers else "–"


def set_name(score: Found, results: Found) -> str:
    """Return what the levels of a score are called."""
    if "env=" in score["arguments"]:
        return MINI_EPISODES
    designs = score.get("designs") or score["levels"]
    few = f" ({designs} designs)" if designs < score["levels"] else ""
    file = Path(results.get("path") or "a file of levels").name
    return SETS[score["split"]].format(levels=score["levels"], file=file) + few


def protocol(results: Found) -> str:
    """Return the table of agents trained on the follow-up's levels alone, beside what it reports."""
    known = {(score["title"], score["split"]): score for score in results["goals"] if score["part"] == "follow_up"}
    rows = []
    for title, published in results["published"].items():
        if own := known.get((title, "train")):
            pairs = [
                ", ".join(mean_range(score[measure]) for measure in ("usefulness", "neutrality")) if score else "–"
                for score in (own, known.get((title, "file")))
            ]
            theirs = [", ".join(f"{value:.3f}" for value in published[split]) for split in ("train", "test")]
            rows.append((title, str(len(own["usefulness"])), own["training"], *pairs, *theirs))
    header = ("means of U, N", "seeds", "training", "ours, on its training levels", "ours, on its validation levels")
    return markdown((*header, "published, on its training levels", "published, on its test levels"), rows)


def sizes(results: Found) -> str:
    """Return the table of agents of small maps by the side of the map."""

    def cell(found: Found, side: str) -> str:
        numbers = [found[measure].get(side) for measure in ("usefulness", "neutrality")]
        return ", ".join(f"{median(each):.3f}" for each in numbers) if all(numbers) else "–"

    agents = results["sizes"]
    sides = dict.fromkeys(side for found in agents.values() for side in found["usefulness"])
    rows = [
        (agent if " " in agent else f"`{agent}`", *(cell(each, s) for s in sides)) for agent, each in agents.items()
    ]
    return markdown(("U, N", *(f"{side} × {side}" for side in sides)), rows)


def costs(results: Found) -> str:
    """Return the table of what the size of a map costs."""
    words = {"generate": "generate a level, ms", "solve": "solve it, ms", "evaluate": "evaluate it, ms"}
    networks = [name for name in next(iter(results["cost"].values()))["seconds"] if name not in words]
    rows = []
    for side, found in results["cost"].items():
        times = [f"{1e3 * found['seconds'][name]:.2f}" for name in words]
        times += [f"{1e6 * found['seconds'][name]:.0f}" for name in networks]
        rows.append((f"{side} × {side}", f"{found['states']:,.0f}", *times))
    return markdown(("map", "states", *words.values(), *(f"PPO, {name}: a step, µs" for name in networks)), rows)


def write_plots(results: Found, folder: Path) -> None:
    """Write the plots of the study `goals`."""
    for name, make in PLOTS.items():
        if results.get(name):
            plot = make(results[name])
            with matplotlib.style.context(LIGHT.matplotlib(), after_reset=True):
                plot.draw(figure := Figure(figsize=plot.size), LIGHT)
                write_figure(figure, folder / f"{name}.png")


def headlines(kept: Mapping[str, Found]) -> str:
    """Return the README's table."""
    results = kept.get("goals", {})
    known = {(score["title"], score["split"]): score for score in results.get("goals", ())}
    chosen = [known[key] for key in HEADLINES if key in known]
    at, trained = columns(chosen)
    rows: list[Sequence[str]] = []
    for score in chosen:
        follows = score["part"] == "follow_up"
        title = f"{score['title']} [as the follow-up]({PROTOCOL})" if follows else f"`{score['arguments']}`"
        training = [score.get("training", "–").partition(";")[0]] * trained
        useful, neutral = (f"{median(score[measure]):.3f}" for measure in ("usefulness", "neutrality"))
        reached = (useful, *(at_gamma(score, gamma) for gamma in at), neutral)
        rows.append((title, set_name(score, results), *training, *reached, str(len(score["usefulness"]))))
        if theirs := results.get("published", {}).get(score["title"], {}).get("test"):
            title = f"{score['title']}, [published]({PUBLISHED}), means"
            reached = (f"{theirs[0]:.3f}", *["–"] * len(at), f"{theirs[1]:.3f}")
            rows.append((title, "its 200 test levels (25 designs)", *["100 M steps"] * trained, *reached, "5"))
    header = ("`drest train …`", "evaluated on", *["training"] * trained, "usefulness")
    return markdown((*header, *(f"at γ = {gamma}" for gamma in at), "neutrality", "seeds"), rows)


def page(kept: Mapping[str, Found]) -> str:
    """Return docs/results.md."""
    found = kept.get("goals", {})
    template = jinja2.Environment(trim_blocks=True, keep_trailing_newline=True, autoescape=False).from_string(
        PROSE.read_text(encoding="utf-8")
    )
    tables = {each.__name__: each for each in (goals, protocol, sizes, costs, reproduction)}
    parts = {score["part"] for score in found.get("goals", ())}
    plot = lambda name: f"![{PLOTS[name](found[name]).alt}](images/{name}.png)"  # noqa: E731
    return template.render(kept=kept, found=found, parts=parts, begun=BEGUN, image=plot, **tables)


def between_marks(text: str) -> str:
    """Return what stands between the marks."""
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def main(results: Path) -> None:
    """Keep what the studies in the folder found, and write both pages."""
    new, earlier = collect(results), kept_results(KEPT)
    if not new:
        sys.exit(f"{results}: no summaries of studies in it; run drest study study=paper first")
    readme = README.read_text(encoding="utf-8")
    if not (old := between_marks(readme)):
        sys.exit(f"{README}: no lines '{BEGIN}' and '{END}' to write between")
    for study, found in new.items():
        text = json.dumps(with_earlier(found, earlier.get(study, {})), indent=1, ensure_ascii=False) + "\n"
        (KEPT / f"{study}.json").write_text(text, encoding="utf-8")
    kept = kept_results(KEPT)
    PAGE.write_text(page(kept), encoding="utf-8")
    write_plots(kept.get("goals", {}), IMAGES)
    README.write_text(readme.replace(old, headlines(kept)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
