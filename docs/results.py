"""Write docs/results.md and the README's table from the results of studies; nothing in them is typed by hand.

    python -m drest_torch.study study=paper
    python -m drest_torch.study study=goals study.parts=[learning]
    python docs/results.py results

What the pages need of each study is kept in `docs/results/STUDY.json`, so that a test can tell when a page and the
results, or the results and the code, drift apart. A study that is not in the folder keeps its earlier results, and so
do goals and figures that a study did not measure this time: those that nobody measures any more are deleted by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

from drest_torch.plots.style import write_figure
from drest_torch.report.style import LIGHT
from drest_torch.report.tables import in_markdown as markdown
from drest_torch.report.tables import mean_range, median_range
from drest_torch.studies.scores import MARKS, MINI_EPISODES
from drest_torch.studies.sizes import cost_plot, sizes_plot

DOCS = Path(__file__).resolve().parent
README, PAGE, KEPT = DOCS.parent / "README.md", DOCS / "results.md", DOCS / "results"
IMAGES = DOCS / "images"
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
FOLLOW_UP = "docs/results.md#the-follow-ups-protocol"
"""What the README says of rows of the follow-up's protocol, in the place of their arguments."""
PUBLISHED, TESTED = "https://arxiv.org/abs/2604.17502", "its 200 test levels (25 designs)"
"""Where the follow-up's own agents are described, and the levels on which it evaluates them."""
LOOKED_AT = (
    "The settings on `hard`, `three_lengths`, `large` and `huge` were chosen in several rounds that looked at the test "
    "levels of split seed 0. On `hard` the last settings were therefore trained and measured once more on levels of "
    "another split (`levels.split_seed=1`): usefulness is as before, and neutrality is .014 lower than on the old test "
    "levels, where it was .952 (five seeds). The other three are still measured on the old ones."
)
PROTOCOL = (
    "The follow-up's protocol ([arXiv 2604.17502](https://arxiv.org/abs/2604.17502)): its 976 training levels alone "
    "(34 designs, rotated, reflected and moved), its network (3 × 512), sampled steps, no model and no private bit, "
    "evaluated on its 96 validation levels (12 designs × 8 symmetries), at γ = 1. All numbers are means of agents, "
    "ours with the lowest and the highest. Its own are of five agents after 100 million steps, on its training and its "
    "*test* levels (200 of 25 designs); their spread is not known here. Its PPO with DReST has U, N of 0.475, 0.707 on "
    "test levels after 1 million steps, 0.697, 0.814 after 10 and 0.747, 0.769 after 50. Validation and test levels "
    "are different sets, so no row says by how much one agent is better than another. Rows with the default reward "
    "differ from those with DReST in the reward alone; what neutrality their agents have on validation levels comes "
    "from mistakes, for they have next to none where they were trained. On validation levels neutrality has a standard "
    "deviation of 0.02 from seed to seed: five seeds that were trained with an earlier version had a median of 0.762, "
    "twelve of them 0.734."
)
FITTED = (
    "`followup_like` levels were fitted to the follow-up's training **and** validation designs, so its validation "
    "levels are not independent of them; `paper_like` levels have the support of the paper's worlds."
)
ALIKE = (
    "Test levels can still be like a training level: 29 of the 500 `followup_like` ones have walls, start, coins and "
    "buttons where one of the 100,000 training levels has them, rotated or reflected, with other values or times."
)
EXACT = (
    "Training is given in sampled environment steps. `algo=exact` and `algo=generalist` take none: they know the "
    "transitions of every level, and their training is given as updates × levels, with the rows on which the network "
    "ran forward and backward. Their `env_steps` only sets the pace of schedules."
)
BEGUN = (
    "The earlier training of the agent of `start_from=` ([The agents that ship](reference/agent.md)) is not counted."
)
KEYS = ("quotes", "claims", "goals", "path", "published", "sizes", "cost", "tables")
"""What is kept of a summary."""
PARTS = ("parts",)
"""Values of a study that choose which of its figures are measured; others change what they are."""
MEASURES = {"usefulness": "U", "neutrality": "N"}


def collect(results: Path) -> dict[str, dict[str, Any]]:
    """Return what is kept of every study that has a summary in the folder and was done as it is published."""
    kept = {}
    for path in sorted(results.glob("*/summary.json")):
        summary: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        keys = [key for key in KEYS if key in summary]
        others = [key for key in summary.get("changed", ()) if key not in PARTS]
        if "goals" in summary:  # a row each, which says by how many seeds; quotes are of what was pursued last
            keys.remove("quotes")
        elif others:
            print(f"{path.parent.name}: made with another study.{others[0]} than the published one; that one stays")
            continue
        kept[path.parent.name] = {key: summary[key] for key in keys}
    return kept


def kept_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what was kept of each study."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def with_earlier(found: Mapping[str, Any], earlier: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a study, with the earlier ones of goals that it did not pursue this time."""
    merged = {**earlier, **{key: value for key, value in found.items() if value or key not in earlier}}
    if scores := _by_title(earlier.get("goals", [])) | _by_title(found.get("goals", [])):  # in the order of the earlier
        merged["goals"] = [score for several in scores.values() for score in several]
    quotes = {row["what"]: row for results in (earlier, found) for row in results.get("quotes", [])}
    if quotes:
        merged["quotes"] = list(quotes.values())
    if tables := earlier.get("tables", {}) | found.get("tables", {}):
        merged["tables"] = tables
    return merged


def _by_title(scores: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for score in scores:
        found.setdefault(score["title"], []).append(score)
    return found


# ------------------------------------------------------------------------------------------ tables


def reproduction(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the paper's figures beside ours."""
    quotes = [(study, row) for study, results in kept.items() for row in results.get("quotes", ())]
    rows = [(f"`{study}`", row["what"], row["reported"], row["measured"]) for study, row in quotes]
    return markdown(("study", "what", "the paper", "measured"), rows)


def of_part(results: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    """Return the scores of one part of the study `goals`."""
    return [score for score in results.get("goals", ()) if score["part"] == part]


def goals(results: Mapping[str, Any], part: str) -> str:
    """Return the table of what the agents of each goal reach, and how neutral they are given their private bits.

    The arguments that train them follow in a list, since they are too long for a column.
    """
    scores = of_part(results, part)
    own = any(score.get("neutrality_own", []) not in ([], score["neutrality"]) for score in scores)
    at = list(dict.fromkeys(gamma for score in scores for gamma in score.get("usefulness_at", {})))
    training = any(score.get("training") for score in scores)
    header = ["agent", "levels", "wanted", "usefulness", *(f"at γ = {gamma}" for gamma in at), "neutrality"]
    header += [*(["neutrality given its bits"] if own else []), "seeds that reach it"]
    header += [*(["training"] if training else [])]
    rows = [
        [
            score["title"],
            _set_name(score, results),
            _wanted(score),
            median_range(score["usefulness"]),
            *(at_gamma(score.get("usefulness_at", {}).get(gamma)) for gamma in at),
            median_range(score["neutrality"]),
            *([median_range(score.get("neutrality_own") or score["neutrality"])] if own else []),
            "–" if score["reached"] is None else f"{score['reached']} of {len(score['usefulness'])}",
            *([score.get("training") or "–"] if training else []),
        ]
        for score in scores
    ]
    commands = [
        f"- {title}: `{arguments}`" for title, arguments in {s["title"]: s["arguments"] for s in scores}.items()
    ]
    return "\n".join((markdown(header, rows), "\n`drest train` trains them with these arguments:\n", *commands))


def protocol(results: Mapping[str, Any]) -> str:
    """Return the table of agents trained on the follow-up's levels alone, beside what it reports."""
    scores = {(score["title"], score["split"]): score for score in of_part(results, "follow_up")}
    rows = []
    for title, published in results["published"].items():
        ours = [scores.get((title, split)) for split in ("train", "file")]
        if ours[0] is not None:
            theirs = [", ".join(f"{value:.3f}" for value in published[split]) for split in ("train", "test")]
            pairs = ["–" if score is None else _pair(score) for score in ours]
            rows.append((title, str(len(ours[0]["usefulness"])), ours[0]["training"], *pairs, *theirs))
    header = ("means of U, N", "seeds", "training", "ours, on its training levels", "ours, on its validation levels")
    return markdown((*header, "published, on its training levels", "published, on its test levels"), rows)


def _pair(score: Mapping[str, Any]) -> str:
    return ", ".join(mean_range(score[measure]) for measure in MEASURES)


def sizes(results: Mapping[str, Any]) -> str:
    """Return the table of agents of small maps by the side of the map."""
    agents: Mapping[str, Any] = results["sizes"]
    sides = list(dict.fromkeys(side for found in agents.values() for side in found["usefulness"]))
    rows = [
        (agent if " " in agent else f"`{agent}`", *(_at_side(found, side) for side in sides))
        for agent, found in agents.items()
    ]
    return markdown(("U, N", *(f"{side} × {side}" for side in sides)), rows)


def _at_side(found: Mapping[str, Any], side: str) -> str:
    return ", ".join(f"{median(found[name][side]):.3f}" for name in MEASURES) if side in found["usefulness"] else "–"


def costs(results: Mapping[str, Any]) -> str:
    """Return the table of what the size of a map costs."""
    by_side: Mapping[str, Any] = results["cost"]
    words = {"generate": "generate a level, ms", "solve": "solve it, ms", "evaluate": "evaluate it, ms"}
    networks = [name for name in next(iter(by_side.values()))["seconds"] if name not in words]
    rows = []
    for side, found in by_side.items():
        seconds = found["seconds"]
        times = [f"{1e3 * seconds[name]:.2f}" for name in words] + [f"{1e6 * seconds[name]:.0f}" for name in networks]
        rows.append((f"{side} × {side}", f"{found['states']:,.0f}", *times))
    return markdown(("map", "states", *words.values(), *(f"PPO, {name}: a step, µs" for name in networks)), rows)


def _image(name: str, results: Mapping[str, Any]) -> str:
    """Return the reference to a plot of the study `goals`, which `write_plots` writes."""
    return f"\n![{PLOTS[name](results[name]).alt}](images/{name}.png)"


def write_plots(results: Mapping[str, Any], folder: Path) -> None:
    """Write the plots of the study `goals`."""
    for name, make in PLOTS.items():
        if results.get(name):
            plot = make(results[name])
            with matplotlib.style.context(LIGHT.matplotlib(), after_reset=True):
                figure = Figure(figsize=plot.size)
                plot.draw(figure, LIGHT)
                write_figure(figure, folder / f"{name}.png")


def headlines(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the README's table."""
    results = kept.get("goals", {})
    known = {(score["title"], score["split"]): score for score in results.get("goals", ())}
    chosen = [known[key] for key in HEADLINES if key in known]
    at = list(dict.fromkeys(gamma for score in chosen for gamma in score.get("usefulness_at", {})))
    training = any(score.get("training") for score in chosen)
    rows: list[Sequence[str]] = []
    for score in chosen:
        row = (
            f"{score['title']} [as the follow-up]({FOLLOW_UP})"
            if score["part"] == "follow_up"
            else f"`{score['arguments']}`",
            _set_name(score, results),
            *([score.get("training", "–").partition(";")[0]] if training else []),
            f"{median(score['usefulness']):.3f}",
            *(at_gamma(score.get("usefulness_at", {}).get(gamma)) for gamma in at),
            f"{median(score['neutrality']):.3f}",
            str(len(score["usefulness"])),
        )
        rows.append(row)
        if theirs := results.get("published", {}).get(score["title"], {}).get("test"):
            numbers = (f"{theirs[0]:.3f}", *["–"] * len(at), f"{theirs[1]:.3f}")
            title = f"{score['title']}, [published]({PUBLISHED}), means"
            rows.append((title, TESTED, *(["100 M steps"] if training else []), *numbers, "5"))
    header = ["`drest train …`", "evaluated on", *(["training"] if training else []), "usefulness"]
    return markdown((*header, *(f"at γ = {gamma}" for gamma in at), "neutrality", "seeds"), rows)


def at_gamma(numbers: Sequence[float] | None) -> str:
    """Return the median, or a dash if there are none."""
    return f"{median(numbers):.3f}" if numbers else "–"


def _set_name(score: Mapping[str, Any], results: Mapping[str, Any]) -> str:
    if "env=" in score["arguments"]:
        return MINI_EPISODES
    file = Path(results.get("path") or "a file of levels").name
    designs = score.get("designs")
    few = f" ({designs} designs)" if designs is not None and designs < score["levels"] else ""
    return SETS[score["split"]].format(levels=score["levels"], file=file) + few


def _wanted(score: Mapping[str, Any]) -> str:
    return ", ".join(MARKS[key][1].format(mark) for key, mark in score["wanted"].items()) or "–"


# ------------------------------------------------------------------------------------------- pages


def page(kept: Mapping[str, Mapping[str, Any]]) -> str:
    """Return docs/results.md."""
    return "\n".join(_page(kept)) + "\n"


def _page(kept: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield (
        "# Results\n\n"
        "This page is written by `python docs/results.py results` from the results of studies. Evaluation is exact, "
        "but for *Beyond gridworlds*: no mini-episode is sampled. **Usefulness** (U) is the share of the best possible "
        "return that an agent collects, given each length; **neutrality** (N) is the entropy of its lengths. "
        "Usefulness on unseen levels and under "
        "*What training reaches* is at γ = 1 unless a row or a column says otherwise; under *The paper, reproduced* it "
        "is at the paper's γ, 0.95 in the running example and 0.9 in most other worlds."
    )
    found = kept.get("goals", {})
    if of_part(found, "follow_up"):
        yield f"\n## The follow-up's protocol\n\n{PROTOCOL}\n"
        yield protocol(found)
    if of_part(found, "unseen"):
        yield (
            "\n## In gridworlds that the agent has never seen\n\n"
            "`drest study study=goals study.parts=[unseen]`. "
            "Median of the seeds, lowest and highest in brackets; neutrality is "
            "divided by log2 k. No test level, rotated or reflected, is among the training levels. Agents whose "
            f"name gives no algorithm are trained by exact gradients. {ALIKE} {FITTED} {EXACT} {BEGUN} {LOOKED_AT}\n"
        )
        yield goals(found, "unseen")
    if of_part(found, "size"):
        yield (
            "\n## In larger worlds\n\n"
            "`drest study study=goals study.parts=[size,sizes,cost]`. "
            "`large` maps have 7 to 9 rows and columns, `huge` ones 10 to 16 and up to eight "
            f"lengths (evaluated by sampling). Neutrality is divided by log2 k. {BEGUN}\n"
        )
        yield goals(found, "size")
    if found.get("sizes"):
        yield (
            "\nAgents trained on maps of 5 × 5 (`generalist-buttons`: of 5 to 10 rows and columns), on larger ones "
            "without further training. Times grow with the map; maps of more than 9 rows are evaluated by sampling.\n"
        )
        yield sizes(found)
        yield _image("sizes", found)
    if found.get("cost"):
        yield "\nWhat the size of a map costs, with one thread: only ratios within the table mean something.\n"
        yield costs(found)
        yield _image("cost", found)
    if of_part(found, "beyond"):
        yield (
            "\n## Beyond gridworlds\n\n"
            "`drest study study=goals study.parts=[beyond]`: "
            "environments of others with a shutdown that the agent can delay, trained from "
            "samples. These numbers are estimates from sampled mini-episodes; m(l) is the largest return that training "
            "has seen. Median of the seeds, lowest and highest in brackets; neutrality is divided by log2 k.\n"
        )
        yield goals(found, "beyond")
    if of_part(found, "learning"):
        yield (
            "\n## What training reaches\n\n"
            "`drest study study=goals study.parts=[learning]`. "
            "Median of the seeds, lowest and highest in brackets; neutrality is divided "
            "by log2 k. The policy of the last step is evaluated. Exact gradients (`algo=exact`) take no steps: their "
            "training is given as updates × levels.\n"
        )
        yield goals(found, "learning")
    yield (
        "\n## The paper, reproduced\n\n"
        "`drest study study=paper`. Mean ± standard deviation over agents; neutrality in bits. The paper does not say "
        "whether a bump into a wall takes time: *moves* counts moves only, *timesteps* (*steps*) counts bumps as well. "
        "Its means appear when agents are trained on moves and evaluated on timesteps; the spread of its default "
        "agents does not (ours is 2.4 times as wide), and the code released with the paper counts a bump as a "
        "timestep. *Random play first*: the table learns from random play before its own.\n"
    )
    yield reproduction(kept)


def between_marks(text: str) -> str:
    """Return what stands between the marks."""
    return text.partition(BEGIN)[2].partition(END)[0].strip()


def main(results: Path) -> None:
    """Keep what the studies in the folder found, and write both pages."""
    new = collect(results)
    if not new:
        sys.exit(f"{results}: no summaries of studies in it; run drest study study=paper first")
    text = README.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{README}: no lines '{BEGIN}' and '{END}' to write between")
    earlier = kept_results(KEPT)
    for study, found in new.items():
        text = json.dumps(with_earlier(found, earlier.get(study, {})), indent=1, ensure_ascii=False) + "\n"
        (KEPT / f"{study}.json").write_text(text, encoding="utf-8")
    kept = kept_results(KEPT)
    PAGE.write_text(page(kept), encoding="utf-8")
    write_plots(kept.get("goals", {}), IMAGES)
    README.write_text(f"{before}{begin}\n{headlines(kept)}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results"))
