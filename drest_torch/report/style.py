"""The colours of a report's two themes, and matplotlib's settings for plots in them.

A plot is drawn once, in `PLACEHOLDERS`: colours that stand for the page's CSS variables, so that it follows the theme.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cycler import cycler

_NAMES = ("background", "surface", "text", "muted", "grid", "link", "good", "fair", "bad")
_SERIES = tuple(f"series-{number}" for number in range(6))


@dataclass(frozen=True)
class Style:
    """The colours of a theme, for the page and for its plots."""

    background: str
    surface: str
    """Behind code."""
    text: str
    muted: str
    grid: str
    link: str
    good: str
    fair: str
    bad: str
    series: tuple[str, ...]
    """Apart for colour-blind readers too; each has the same name in both themes: blue, orange, green, ..."""

    @property
    def default_reward(self) -> str:
        """Return blue, the colour of default agents in the paper's figures."""
        return self.series[0]

    @property
    def drest(self) -> str:
        """Return orange, the colour of DReST agents in the paper's figures."""
        return self.series[1]

    def variables(self) -> str:
        """Return the colours as the variables that `report.css` and the plots use."""
        return " ".join(f"--{name}: {colour};" for name, colour in self.colours().items())

    def colours(self) -> dict[str, str]:
        """Return the colours by the names of their variables."""
        return {name: getattr(self, name) for name in _NAMES} | dict(zip(_SERIES, self.series, strict=True))

    def matplotlib(self) -> dict[str, Any]:
        """Return matplotlib's settings for plots in these colours."""
        parts = ("boxprops", "whiskerprops", "capprops", "medianprops", "flierprops")
        return {
            "figure.facecolor": self.background,
            "figure.constrained_layout.use": True,
            "font.size": 11,
            "text.color": self.text,
            "axes.facecolor": self.background,
            "axes.edgecolor": self.muted,
            "axes.labelcolor": self.text,
            "axes.titlesize": "medium",
            "axes.titlelocation": "left",
            "axes.linewidth": 0.8,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.prop_cycle": cycler(color=self.series),
            "grid.color": self.grid,
            "grid.linewidth": 0.8,
            "lines.linewidth": 1.8,
            "lines.solid_capstyle": "round",
            "patch.edgecolor": self.text,
            "hatch.color": self.text,
            "legend.facecolor": self.background,
            "legend.edgecolor": "none",
            "legend.framealpha": 0.85,
            "legend.fontsize": 10,
            **{f"{axis}tick.{what}": self.muted for axis in "xy" for what in ("color", "labelcolor")},
            **{f"{axis}tick.labelsize": 10 for axis in "xy"},
            **{f"{axis}tick.major.width": 0.8 for axis in "xy"},
            **{f"boxplot.{part}.color": self.text for part in parts},
        }


LIGHT = Style(
    background="#ffffff",
    surface="#f4f5f6",
    text="#1b1e22",
    muted="#59616b",
    grid="#dfe2e6",
    link="#0b5cad",
    good="#1a7236",
    fair="#8a5a00",
    bad="#b3261e",
    series=("#1f6fb4", "#d4600a", "#2f5014", "#c0709a", "#7b2fd0", "#9e866e"),
)
DARK = Style(
    background="#15181c",
    surface="#1e2329",
    text="#e3e6e9",
    muted="#9ba5b0",
    grid="#333a42",
    link="#7db8f7",
    good="#4cc272",
    fair="#e3b341",
    bad="#ff8a80",
    series=("#58a6e8", "#f29339", "#c8f0c0", "#e0a0c8", "#9d5be6", "#8e6339"),
)
PLACEHOLDERS = Style(
    **{name: f"#fe00{number:02x}" for number, name in enumerate(_NAMES)},
    series=tuple(f"#fe01{number:02x}" for number in range(len(_SERIES))),
)

BOARD = {
    "floor": ("#ffffff", "#1e2329"),
    "lines": ("#bdbdbd", "#3a424b"),
    "wall": ("#4d4d4d", "#707a85"),
    "wall-edge": ("#6e6e6e", "#8b949e"),
    "letters": ("#222222", "#e9ecef"),
    "pale": ("#c4c4c4", "#56606b"),
    "arrow": ("#d7191c", "#ff6b66"),
    "route": ("#2c7fb8", "#6fb1e0"),
    "coin": ("#f9d35b", "#66500f"),
    "coin-edge": ("#c8961e", "#e3b341"),
    "button": ("#dcebf5", "#1f3b52"),
    "button-edge": ("#35749f", "#6fb1e0"),
    "door": ("#e3d3e4", "#49344b"),
    "door-edge": ("#7b4f80", "#b98abf"),
}
"""The colours in which `drest_torch.envs.view.rendering` draws gridworlds, in the light and in the dark theme."""


def board_variables(theme: int) -> str:
    """Return the colours of gridworlds as variables, for the light theme (0) or the dark one (1)."""
    return " ".join(f"--board-{name}: {colours[theme]};" for name, colours in BOARD.items())


def variables_of_plots() -> dict[str, str]:
    """Return the variable of each colour that a plot is drawn in."""
    board = {light: f"var(--board-{name})" for name, (light, _) in BOARD.items()}
    return board | {colour: f"var(--{name})" for name, colour in PLACEHOLDERS.colours().items()}
