"""The page and the plot of what was measured, from the results alone."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drest_torch.files import write_whole

Results = Mapping[str, Mapping[str, Any]]
"""By device (`cpu`, `cuda`), then by part: its title, text, ``about``, seconds, tables and growths."""

INTRODUCTION = """# Benchmarks

<!-- written by python -m benchmarks.run; not to be edited by hand -->

How long things take, each beside its baselines and the machine's own limits in the same run. In every repeat the
contenders of a table take their turns, so that a disturbance is one for all. A figure is the median of the repeats,
with the slowest in brackets; what is wanted has to hold in the slowest. *First* is the first call of all, in seconds:
what is compiled, read or warmed up then is in no other figure. *Beside it* and *limit* are medians in the same unit."""

QUICK = "**This was a quick run, which shows that the command works. Its figures mean nothing.**"
COLUMNS = ("what", "unit", "median (slowest)", "repeats", "first, s", "beside it", "limit", "wanted")


def render(results: Results, picture: str | None = None) -> str:
    """The page as Markdown; ``picture`` is the plot's path as seen from it."""
    cpu, gpu = results.get("cpu", {}), results.get("cuda", {})
    parts = list(dict.fromkeys([*cpu, *gpu]))
    blocks = [INTRODUCTION]
    if any(each["about"]["quick"] for run in results.values() for each in run.values()):
        blocks.append(QUICK)
    blocks.append(_machines(results))
    if missed := _missed(results):
        blocks.append("## Wanted and not reached\n\n" + "\n".join(missed))
    for part in parts:
        blocks += _part(part, cpu.get(part), gpu.get(part), picture)
    return "\n\n".join(blocks) + "\n"


def _machines(results: Results) -> str:
    """Where the parts were measured: the same for most, so that it is said once for all to which it applies."""
    met: dict[str, list[str]] = {}
    for device, run in results.items():
        for part, found in run.items():
            met.setdefault(_machine(device, found["about"]), []).append(f"{part} ({device})")
    if len(met) == 1:
        return next(iter(met))
    return "\n".join(f"- {', '.join(parts)}: {machine}" for machine, parts in met.items())


def _machine(device: str, about: Mapping[str, Any]) -> str:
    hardware = ", ".join(
        (about["processor"], f"{about['cores']} cores", f"{about['memory_gib']:.3g} GiB", about["gpu"])
    )
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    clock = "" if about["clock"] == "wall" else "; seconds are the processor's, not the wall's"
    return f"On {device}: {hardware}; {about['system']}; {versions}; threads of torch: {about['threads']}{clock}."


def _missed(results: Results) -> list[str]:
    """What is wanted and was measured otherwise, or not at all."""
    lines = []
    for device, run in results.items():
        for part, found in run.items():
            for table in found["tables"]:
                for row in table["rows"]:
                    if row["wanted"] is not None and not row["reached"]:
                        value = row["note"] if row["median"] is None else f"{_value(row)} {row['unit']}"
                        lines.append(
                            f"- {part} ({device}), {table['title']}: {row['name']}: {value}, wanted {_wanted(row)}"
                        )
    return lines


def _part(
    part: str, cpu: Mapping[str, Any] | None, gpu: Mapping[str, Any] | None, picture: str | None
) -> Iterable[str]:
    shown = cpu or gpu
    assert shown is not None
    yield f"## {shown['title']}"
    yield shown["text"]
    yield "\n".join(_how(part, device, found) for device, found in (("cpu", cpu), ("cuda", gpu)) if found)
    on_gpu = _by_name(gpu)
    for table in shown["tables"]:
        yield f"### {table['title']}"
        if table["text"]:
            yield table["text"]
        yield _table(table, on_gpu if cpu else {})
    if shown["growths"] and picture:
        yield f"![Time and memory as one number grows]({picture})"
    for growth in shown["growths"]:
        yield f"### {growth['against'][0].upper()}{growth['against'][1:]}"
        yield growth["text"]
        yield _growth(growth, _by_against(gpu).get(growth["against"]) if cpu else None)


def _how(part: str, device: str, found: Mapping[str, Any]) -> str:
    about = found["about"]
    return f"`{about['command']}`: {found['seconds']:.0f} s, {about['date']}, commit {about['commit']}."


def _by_name(found: Mapping[str, Any] | None) -> dict[tuple[str, str], Mapping[str, Any]]:
    tables = found["tables"] if found else ()
    return {(table["title"], row["name"]): row for table in tables for row in table["rows"]}


def _by_against(found: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    return {each["against"]: each for each in (found["growths"] if found else ())}


def _table(table: Mapping[str, Any], on_gpu: Mapping[tuple[str, str], Mapping[str, Any]]) -> str:
    columns = [*COLUMNS, "on the GPU"] if on_gpu else list(COLUMNS)
    lines = []
    for row in table["rows"]:
        cells = [*_cells(row)]
        if on_gpu:
            there = on_gpu.get((table["title"], row["name"]))
            cells.append("" if there is None or there["median"] is None else _value(there))
        lines.append(cells)
    return _markdown(columns, lines)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    value = _value(row) if row["median"] is not None else ""
    beside = [f"{_number(each)} {name}" for name, each in row["beside"].items()]
    limit = ""
    if row["limit"] is not None:
        limit = f"{_number(row['limit'])}, reached to {row['median'] / row['limit']:.0%}"
    return (
        row["name"],
        row["unit"],
        "; ".join(each for each in (value, row["note"]) if each),
        str(row["repeats"] or ""),
        "" if row["first"] is None else _number(row["first"]),
        "; ".join(beside),
        limit,
        _wanted(row) + ("" if row["reached"] is None else " ✓" if row["reached"] else " **missed**"),
    )


def _value(row: Mapping[str, Any]) -> str:
    if row["repeats"] == 1:
        return _number(row["median"])
    return f"{_number(row['median'])} ({_number(row['slowest'])})"


def _wanted(row: Mapping[str, Any]) -> str:
    return "" if row["wanted"] is None else f"{'≥' if row['more_is_better'] else '≤'} {_number(row['wanted'])}"


def _growth(growth: Mapping[str, Any], on_gpu: Mapping[str, Any] | None) -> str:
    curves = [(curve, "") for curve in growth["curves"]]
    curves += [(curve, " on the GPU") for curve in (on_gpu["curves"] if on_gpu else ())]
    columns = [growth["against"]] + (["states"] if any(growth["states"]) else [])
    for curve, where in curves:
        columns += [f"{curve['what']}{where}, s", "MiB"]
    lines = []
    for index, at in enumerate(growth["curves"][0]["at"]):
        cells = [f"{at:,g}"] + ([f"{growth['states'][index]:,}"] if "states" in columns else [])
        for curve, _ in curves:
            memory = curve["memory"][index]
            cells.append(f"{_number(curve['median'][index])} ({_number(curve['slowest'][index])})")
            cells.append("" if memory is None else _number(memory))
        lines.append(cells)
    return _markdown(columns, lines)


def _markdown(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [columns, ["---"] * len(columns), *lines]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows)


def _number(value: float) -> str:
    """Three digits, and thousands in groups."""
    if value == 0:
        return "0"
    if abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):g}"


def plot(growths: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Time (and memory, dashed) against each number that grows, on logarithmic scales."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = 2
    rows = -(-len(growths) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(11, 3.6 * rows), squeeze=False, layout="constrained")
    for growth, ax in zip(growths, axes.flat, strict=False):
        memory = ax.twinx()
        for index, curve in enumerate(growth["curves"]):
            ax.plot(curve["at"], curve["median"], "o-", color=f"C{index}", label=curve["what"])
            there = [(at, mib) for at, mib in zip(curve["at"], curve["memory"], strict=True) if mib]
            if there:
                memory.plot(*zip(*there, strict=True), "s--", color=f"C{index}", alpha=0.5, markersize=3)
        ax.set(xscale="log", yscale="log", xlabel=growth["against"], ylabel="seconds (solid)")
        at = growth["curves"][0]["at"]
        ax.set_xticks(at, [f"{each:,g}" for each in at])
        ax.minorticks_off()
        memory.set(yscale="log", ylabel="MiB at the peak (dashed)")
        ax.grid(alpha=0.3)
        ax.legend(fontsize="small")
    for ax in list(axes.flat)[len(growths) :]:
        ax.remove()
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110)
    pyplot.close(figure)
    write_whole(path, image.getvalue())
