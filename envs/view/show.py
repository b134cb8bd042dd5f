"""The command ``drest show``: a level's description, map, lengths and optima, and an optimal route for each length.

drest show example                          # one of the paper's worlds
drest show lopsided --x 3 --gamma 1
drest show levels.jsonl --level train-017   # one level of a set
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from drest_torch.envs.dynamics.mdp import compile_levels
from drest_torch.envs.exact.solver import optimal_route, solve
from drest_torch.envs.levels import CLOCKS, WORLDS, Level, LevelError, find_levels
from drest_torch.envs.objects import KINDS, WorldObject
from drest_torch.envs.view.rendering import Route, arrows_text, save_picture, to_text
from drest_torch.errors import UserError, printable
from drest_torch.files import flush_output, no_output, open_streams
from drest_torch.outputs import check_outputs

GAMMA = 0.95
"""The paper's discount for the running example; it uses 0.9 for the other eight worlds, and 1 for `lopsided`."""
TEXT_WIDTH = 100


class _Parser(argparse.ArgumentParser):
    """A parser with errors of one sentence."""

    def error(self, message: str) -> NoReturn:
        """Exit with one sentence, without the usage."""
        self.exit(2, f"{self.prog}: {printable(' '.join(message.split()))}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="drest show",
        description="Show a level with its lengths, optima and optimal routes.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "levels", help=f"a level set (.jsonl), a level (.txt), 'paper' (nine worlds) or one of {', '.join(WORLDS)}"
    )
    parser.add_argument("--level", metavar="NAME", help="which level of a set")
    parser.add_argument("--x", type=float, help="the value of the coin that the world 'lopsided' leaves open")
    parser.add_argument("--gamma", type=float, default=GAMMA, help="discount of m(l) and the routes (%(default)s)")
    parser.add_argument("--clock", choices=CLOCKS, help="what takes time, instead of what the level says")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="write a picture of the level: .png, .pdf or .svg")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or print an error as one sentence and return 2."""
    parser = _parser()
    args = parser.parse_args(arguments)
    open_streams()
    try:
        _run(args)
    except UserError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    except OSError as error:  # files raise UserError instead
        return no_output(error)
    except KeyboardInterrupt:
        return 130
    return flush_output()


def _run(args: argparse.Namespace) -> None:
    if not 0 < args.gamma <= 1:
        raise UserError(f"--gamma {args.gamma:g}; expected a discount above 0, at most 1")
    levels = find_levels(args.levels, x=args.x)
    if args.clock:
        levels = [level.with_clock(args.clock) for level in levels]
    level = _pick(levels, args.level, args.levels)
    if args.picture:
        check_outputs(args.picture, reads=[args.levels])
    show_level(level, args.gamma)
    if args.picture:
        save_picture(level, args.picture)
        print(printable(f"\npicture: {args.picture}"))


def _pick(levels: Sequence[Level], name: str | None, where: str) -> Level:
    """Return the level of this name, or the only one."""
    by_name = {level.name: level for level in levels}
    if name is None and len(levels) == 1:
        return levels[0]
    if name not in by_name:
        close = difflib.get_close_matches(name or "", by_name, n=3, cutoff=0)
        raise LevelError(
            f"{where}: {len(levels)} levels; expected --level with one of them, such as {', '.join(close)}"
        )
    return by_name[name]


def show_level(level: Level, gamma: float) -> None:
    """Print a level with its lengths, optima and routes."""
    colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    mdp = compile_levels([level])
    optima, plain = solve(mdp, gamma), solve(mdp)
    routes = {length: optimal_route(mdp, 0, length, gamma) for length in optima.lengths[0].tolist()}
    print(printable(f"{level.study['title']} ({level.name})" if "title" in level.study else level.name))
    for key in ("rewarded", "wanted", "caveat"):
        if key in level.study:
            print(textwrap.fill(level.study[key], TEXT_WIDTH, initial_indent=f"  {key:10}", subsequent_indent=" " * 12))
    print("", to_text(level, colour=colour), "", sep="\n")
    for text, name in level.lottery_names.items():
        print(f"lottery {name}: {text}", end="\n\n")
    things = [_count(number, kind.noun, kind.plural()) for kind in KINDS if (number := _number(level, kind))]
    size = f"{level.height} × {level.width} cells, {', '.join(things)}, shutdown after {_count(level.shutdown, 'tick')}"
    print(f"{size}; the clock counts {level.clock}\n")
    rows = [("length", "m(l)", f"m(l), γ = {gamma:g}", f"an optimal route enters, γ = {gamma:g}")]
    for (length, route), best, total in zip(routes.items(), optima.best_return[0], plain.best_return[0], strict=True):
        rows.append((str(length), f"{total:g}", f"{best:.4g}", _visits(level, route)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("   ".join((*(cell.rjust(width) for cell, width in zip(row[:3], widths, strict=False)), row[3])))
    for length, route in routes.items():
        print(f"\nlength {length}: {arrows_text(route)}")
        print(to_text(level, colour=colour, route=route))


def _number(level: Level, kind: type[WorldObject]) -> int:
    return sum(type(thing) is kind for thing in (*level.objects, *level.fixtures))


def _count(number: int, noun: str, plural: str | None = None) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def _visits(level: Level, route: Route) -> str:
    """Return the objects on a route, each with the tick of its first entry."""
    cells = [row.split() for row in level.rows()]
    places = {(thing.row, thing.column) for thing in (*level.objects, *level.fixtures)}
    visits = []
    for tick, (row, column) in enumerate(route):
        if (row, column) in places:
            places.remove((row, column))
            visits.append(f"{cells[row][column]} (tick {tick})")
    return ", ".join(visits) or "nothing"
