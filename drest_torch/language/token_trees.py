"""Tokens of prompts and their options as trees, in which equal beginnings are stored once, in the rows of a pass."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

Tokens = list[int]
ROOT = -1
MOST_TOGETHER = 4
"""The largest number of prompts in a tree: longer rows cost more attention."""
PASS = 100
"""The cost of a further pass, in tokens: it reads all weights."""


@dataclass
class TokenTree:
    """Sequences of tokens, in which equal beginnings are stored once. Parents come before their children."""

    tokens: Tokens = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    node_of: dict[tuple[int, int], int] = field(default_factory=dict)
    """The node of a token, by its parent and itself."""

    def add(self, sequence: Sequence[int]) -> list[int]:
        """Add a sequence, and return its nodes."""
        node = ROOT
        path = []
        for token in sequence:
            key = (node, token)
            if key not in self.node_of:
                self.node_of[key] = len(self.tokens)
                self.tokens.append(token)
                self.parents.append(node)
            node = self.node_of[key]
            path.append(node)
        return path


@dataclass(frozen=True)
class TokenReading:
    """A token whose log-probability is read: in a row, at the node of the token before it."""

    row: int
    node: int
    token: int
    option: int
    """The number of its option, counted over all prompts."""


@dataclass
class PassPlan:
    """The rows of a pass, and the log-probabilities to read from it."""

    before: Tokens
    """The tokens that begin all prompts, if they are computed before the rows."""
    rows: list[TokenTree]
    cost: float
    """The cost of the pass, in tokens."""
    readings: list[TokenReading] = field(default_factory=list)
    options: list[int] = field(default_factory=list)
    """The number of options of each prompt."""

    @property
    def longest(self) -> int:
        """The length of the longest row."""
        return max(len(row.tokens) for row in self.rows)

    def read(self, row: int, head: Tokens, tails: Sequence[Tokens]) -> None:
        """Add a prompt with its options to a row."""
        rest = head[len(self.before) :]
        for option, tail in enumerate(tails, sum(self.options)):
            path = self.rows[row].add(rest + tail[:-1])
            nodes = path[len(rest) - 1 :]
            for node, token in zip(nodes, tail, strict=True):
                self.readings.append(TokenReading(row, node, token, option))
        self.options.append(len(tails))


@dataclass(frozen=True)
class RowLayout:
    """The rows of some trees, and the cost of a pass."""

    row_of_tree: list[int]
    is_before: bool
    """True if the common beginning is computed before the rows."""
    cost: float


def cost(rows: int, tokens: int, keys: int, hidden: int) -> float:
    """Return the cost of rows with so many tokens, each of which attends to so many keys, in tokens without attention.

    A layer multiplies a token with about 12 hidden² weights, and for each key with 2 hidden numbers, at half the speed.
    """
    return rows * tokens * (1 + keys / (3 * hidden))


def pass_plan(
    heads: Sequence[Tokens], tails: Sequence[Sequence[Tokens]], groups: Sequence[Hashable], hidden: int
) -> PassPlan:
    """Return the cheapest plan of a pass for prompts with options; prompts of the same group share a row.

    ``hidden`` is the width of the model's layers, which determines how expensive long rows are.
    """
    beginning = _common_beginning(heads)
    trees = _trees(groups)
    sizes = []
    for prompts in trees:
        tree = TokenTree()
        for prompt in prompts:
            for tail in tails[prompt]:
                tree.add(heads[prompt][len(beginning) :] + tail[:-1])
        sizes.append(len(tree.tokens))
    layout = _cheapest(sizes, len(beginning), hidden)
    before: Tokens = []
    if layout.is_before:
        before = beginning
    number_of_rows = 1 + max(layout.row_of_tree)
    plan = PassPlan(before, [TokenTree() for _ in range(number_of_rows)], layout.cost)
    row_of_prompt = {}
    for prompts, row in zip(trees, layout.row_of_tree, strict=True):
        row_of_prompt.update(dict.fromkeys(prompts, row))
    for prompt, head in enumerate(heads):
        plan.read(row_of_prompt[prompt], head, tails[prompt])
    return plan


def _common_beginning(heads: Sequence[Tokens]) -> Tokens:
    """Return the tokens that begin all heads, and are not the whole of one."""
    first, last = min(heads), max(heads)  # in the order of a dictionary, in which no two heads differ earlier
    most = min(map(len, heads)) - 1
    length = 0
    while length < most and first[length] == last[length]:
        length += 1
    return first[:length]


def _trees(groups: Sequence[Hashable]) -> list[list[int]]:
    """Return the numbers of the prompts of each tree."""
    trees: list[list[int]] = []
    latest: dict[Hashable, list[int]] = {}
    for prompt, group in enumerate(groups):
        if len(latest.get(group, ())) in (0, MOST_TOGETHER):
            latest[group] = []
            trees.append(latest[group])
        latest[group].append(prompt)
    return trees


def _cheapest(sizes: Sequence[int], beginning: int, hidden: int) -> RowLayout:
    """Return the cheapest layout of trees with a common beginning, with any number of rows."""
    layouts = []
    beginning_alone = PASS + cost(1, beginning, beginning, hidden)
    for number in range(1, len(sizes) + 1):
        row_of_tree, longest = _balanced(sizes, number)
        keys = beginning + longest
        within_rows = cost(number, keys, keys, hidden)
        before_rows = cost(number, longest, keys, hidden) + beginning_alone
        layouts.append(RowLayout(row_of_tree, False, within_rows))
        layouts.append(RowLayout(row_of_tree, True, before_rows))
    return min(layouts, key=lambda layout: layout.cost)


def _balanced(sizes: Sequence[int], number: int) -> tuple[list[int], int]:
    """Return the row of each tree, and the longest row: the largest trees come first, each to the shortest row."""
    lengths = [0] * number
    row_of_tree = [0] * len(sizes)
    for tree in sorted(range(len(sizes)), key=lambda tree: -sizes[tree]):
        row = lengths.index(min(lengths))
        row_of_tree[tree] = row
        lengths[row] += sizes[tree]
    return row_of_tree, max(lengths)
