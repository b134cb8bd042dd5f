"""Show a level: its description, its map in colour, its lengths and optima, and an optimal route for each length.

drest show example                          # one of the paper's worlds, and a picture of it
drest show lopsided --x 3 --gamma 1
drest show levels.jsonl                     # validate a whole level set, and count its properties
drest show levels.jsonl --level train-017   # one level of a set
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import optimal_route, solve
from drest_torch.envs.levels import CLOCKS, WORLDS, Level, LevelError, find_levels
from drest_torch.envs.objects import KINDS, WorldObject
from drest_torch.envs.view.rendering import Panel, PictureError, Route, arrows_text, save_picture, to_text
from drest_torch.errors import UserError, shown
from drest_torch.files import flush_output, no_output, open_streams

GAMMA = 0.95
"""The paper's discount for the running example (its other eight worlds have 0.9, `lopsided` 1)."""
PICTURES = Path("runs/levels")
TEXT_WIDTH = 100


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Exit with one sentence, without the usage."""
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="drest show",
        description="Show a level with its lengths, optima and optimal routes, or validate a level set.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "levels", help=f"a level set (.jsonl), a level (.txt), 'paper' (nine worlds) or one of {', '.join(WORLDS)}"
    )
    parser.add_argument("--level", metavar="NAME", help="show this level of a set")
    parser.add_argument("--x", type=float, help="the value of the coin that the world 'lopsided' leaves open")
    parser.add_argument("--gamma", type=float, default=GAMMA, help="discount of m(l) and the routes (%(default)s)")
    parser.add_argument("--clock", choices=CLOCKS, help="what takes time, instead of what the level says")
    picture = parser.add_mutually_exclusive_group()
    picture.add_argument(
        "--picture", type=Path, metavar="FILE", help=f".png, .pdf or .svg (default: {PICTURES}/NAME.png)"
    )
    picture.add_argument("--no-picture", action="store_true", help="write none")
    parser.add_argument("--routes", action="store_true", help="render an optimal route for each length as well")
    parser.add_argument("--colour", choices=("auto", "always", "never"), default="auto", help="(default: %(default)s)")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 after an error, which is printed as one sentence."""
    parser = _parser()
    args = parser.parse_args(arguments)
    open_streams()
    try:
        _run(args)
    except UserError as error:
        print(f"{parser.prog}: {shown(str(error))}", file=sys.stderr)
        return 2
    except OSError as error:  # files have errors of ours
        return no_output(error)
    except KeyboardInterrupt:
        return 130
    return flush_output()


def _run(args: argparse.Namespace) -> None:
    start = time.perf_counter()
    if not 0 < args.gamma <= 1:
        raise UserError(f"--gamma {args.gamma:g}; expected a discount above 0, at most 1")
    if args.x is not None and args.levels not in WORLDS:
        raise LevelError(f"--x {args.x:g} with '{args.levels}'; expected it with the world 'lopsided' alone")
    levels = find_levels(args.levels, x=args.x)
    if args.clock:
        levels = [level.with_clock(args.clock) for level in levels]
    if args.level is not None:
        show_level(_pick(levels, args.level, args.levels), args)
    elif len(levels) == 1 and not args.levels.endswith(".jsonl"):
        show_level(levels[0], args)
    else:
        if args.picture or args.routes:
            raise PictureError(f"a picture of {args.levels}; expected --level NAME too, a picture is of one level")
        show_set(levels, args.levels, start)


def _pick(levels: Sequence[Level], name: str, where: str) -> Level:
    by_name = {level.name: level for level in levels}
    if name not in by_name:
        close = difflib.get_close_matches(name, by_name, n=3, cutoff=0)
        such = ", ".join(f"'{level}'" for level in close)
        raise LevelError(f"{where}: no level '{name}'; expected one of {len(levels)}, such as {such}")
    return by_name[name]


# -------------------------------------------------------------------------------------- one level


def show_level(level: Level, args: argparse.Namespace) -> None:
    """Print a level with its lengths, optima and routes, and write its picture."""
    colour = args.colour == "always" or (args.colour == "auto" and _takes_colour())
    mdp = compile_levels([level])
    optima = solve(mdp, args.gamma)
    lengths = optima.lengths[0].tolist()
    routes = [optimal_route(mdp, 0, length, args.gamma) for length in lengths]
    _print_study(level)
    print(to_text(level, colour=colour), end="\n\n")
    for text, name in level.lottery_names.items():
        print(f"lottery {name}: {text}", end="\n\n")
    print(_facts(level), end="\n\n")
    _print_optima(level, args.gamma, lengths, optima.best_return[0].tolist(), routes)
    for length, route in zip(lengths, routes, strict=True):
        print(f"\nlength {length}: {arrows_text(route)}")
        print(to_text(level, colour=colour, route=route))
    if not args.no_picture:
        path = args.picture or PICTURES / (re.sub(r"[^\w.-]+", "_", level.name) + ".png")
        panels = [Panel(f"length {length}", route=route) for length, route in zip(lengths, routes, strict=True)]
        save_picture(level, path, panels=[Panel(), *(panels if args.routes else [])])
        print(shown(f"\npicture: {path}"))


def _takes_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _print_study(level: Level) -> None:
    print(shown(f"{level.study['title']} ({level.name})" if "title" in level.study else level.name))
    for key in ("rewarded", "wanted", "caveat"):
        if key in level.study:
            print(textwrap.fill(level.study[key], TEXT_WIDTH, initial_indent=f"  {key:10}", subsequent_indent=" " * 12))
    print()


def _facts(level: Level) -> str:
    objects = [
        _count(number, kind.noun, kind.plural())
        for kind in KINDS
        if (number := _number(level, kind)) or _is_usual(kind)
    ]
    return (
        f"{level.height} × {level.width} cells, {', '.join(objects)}, shutdown after {_count(level.shutdown, 'tick')}; "
        f"the clock counts {level.clock}"
    )


def _number(level: Level, kind: type[WorldObject]) -> int:
    return sum(type(thing) is kind for thing in (*level.objects, *level.fixtures))


def _is_usual(kind: type[WorldObject]) -> bool:
    """Return whether it is said, too, that a level has none of these objects."""
    return kind.is_taken and not kind.is_optional


def _count(number: int, what: str, several: str | None = None) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {several or what + 's'}"


def _print_optima(
    level: Level, gamma: float, lengths: Sequence[int], discounted: Sequence[float], routes: Sequence[Route]
) -> None:
    """Print a table: for each length m(l), plain and discounted, and the objects that the best route enters."""
    plain = solve(compile_levels([level])).best_return[0].tolist()
    head = ("length", "m(l)", f"m(l), γ = {gamma:g}", f"an optimal route enters, γ = {gamma:g}")
    rows = [
        (str(length), f"{best:g}", f"{best_discounted:.4g}", _visits(level, route))
        for length, best, best_discounted, route in zip(lengths, plain, discounted, routes, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        numbers = "   ".join(cell.rjust(width) for cell, width in zip(row[:3], widths, strict=False))
        print(f"{numbers}   {row[3]}")


def _visits(level: Level, route: Route) -> str:
    """Return the objects that a route enters, each with its tick."""
    cells = [row.split() for row in level.rows()]
    places = {(thing.row, thing.column) for thing in (*level.objects, *level.fixtures)}
    visits = []
    for tick, (row, column) in enumerate(route):
        if (row, column) in places:
            places.remove((row, column))
            visits.append(f"{cells[row][column]} (tick {tick})")
    return ", ".join(visits) or "nothing"


# ------------------------------------------------------------------------------------ a level set


def show_set(levels: Sequence[Level], name: str, start: float) -> None:
    """Compile and solve every level of a set, which finds errors in it, and print counts of its properties."""
    optima = solve(compile_levels(levels))
    padding = optima.lengths == 0
    barren = int(((optima.best_return <= 0) & ~padding).any(-1).sum())
    shutdowns = [level.shutdown for level in levels]
    longest = optima.lengths.amax(-1).tolist()
    things = (thing for level in levels for thing in (*level.objects, *level.fixtures))
    kinds = {*filter(_is_usual, KINDS), *(type(thing) for thing in things)}
    print(shown(f"{name}: {_count(len(levels), 'level')}, valid, each with a coin within reach\n"))
    for key, value in {
        "cells": _tally(((level.height, level.width) for level in levels), "{0[0]} × {0[1]}"),
        **{kind.plural(): _tally(_number(level, kind) for level in levels) for kind in KINDS if kind in kinds},
        "lengths k": _tally(optima.num_lengths.tolist()),
        "clock": _tally(level.clock for level in levels),
        "shutdown": f"{min(shutdowns)} to {max(shutdowns)}",
        "longest": f"{min(longest)} to {max(longest)}",
        "no coin": f"{_count(barren, 'level')} with a length in which no coin can be collected",
        "time": f"{time.perf_counter() - start:.2f} s",
    }.items():
        print(f"  {key:12}{value}")


def _tally(values: Iterable[Any], form: str = "{0}") -> str:
    """Return a text with the number of occurrences of each value."""
    return ", ".join(f"{form.format(value)}: {count}" for value, count in sorted(Counter(values).items()))
