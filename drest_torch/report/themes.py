"""The colours of a report's two themes, and matplotlib's settings for plots in them.

A plot is drawn once, in `PLACEHOLDERS`: each of these colours is replaced by a CSS variable, so the plot follows the
theme.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cycler import cycler

COLOURS = {
    "background": ("#ffffff", "#15181c"),
    "surface": ("#f4f5f6", "#1e2329"),
    "text": ("#1b1e22", "#e3e6e9"),
    "muted": ("#59616b", "#9ba5b0"),
    "grid": ("#dfe2e6", "#333a42"),
    "link": ("#0b5cad", "#7db8f7"),
    "good": ("#1a7236", "#4cc272"),
    "fair": ("#8a5a00", "#e3b341"),
    "bad": ("#b3261e", "#ff8a80"),
    "series-0": ("#1f6fb4", "#58a6e8"),
    "series-1": ("#d4600a", "#f29339"),
    "series-2": ("#2f5014", "#c8f0c0"),
    "series-3": ("#c0709a", "#e0a0c8"),
    "series-4": ("#7b2fd0", "#9d5be6"),
    "series-5": ("#9e866e", "#8e6339"),
    "board-floor": ("#ffffff", "#1e2329"),
    "board-lines": ("#bdbdbd", "#3a424b"),
    "board-wall": ("#4d4d4d", "#707a85"),
    "board-wall-edge": ("#6e6e6e", "#8b949e"),
    "board-letters": ("#222222", "#e9ecef"),
    "board-pale": ("#c4c4c4", "#56606b"),
    "board-arrow": ("#d7191c", "#ff6b66"),
    "board-route": ("#2c7fb8", "#6fb1e0"),
    "board-coin": ("#f9d35b", "#66500f"),
    "board-coin-edge": ("#c8961e", "#e3b341"),
    "board-button": ("#dcebf5", "#1f3b52"),
    "board-button-edge": ("#35749f", "#6fb1e0"),
    "board-door": ("#e3d3e4", "#49344b"),
    "board-door-edge": ("#7b4f80", "#b98abf"),
}
"""The colours of the light and of the dark theme, by the names of their CSS variables.

``board-…`` are the colours of gridworlds (`drest_torch.envs.view.rendering`), which use the light theme everywhere.
"""


@dataclass(frozen=True)
class Style:
    """The colours of a theme, for the page and for its plots."""

    background: str
    surface: str
    """The background of code."""
    text: str
    muted: str
    grid: str
    link: str
    good: str
    fair: str
    bad: str
    series: tuple[str, ...]
    """Colours that colour-blind readers can distinguish; each has the same name in both themes. The first two are
    those of the paper's figures: blue for default agents, orange for DReST agents."""

    def matplotlib(self) -> dict[str, Any]:
        """Return matplotlib's settings for plots in these colours."""
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
            "legend.facecolor": self.background,
            "legend.edgecolor": "none",
            "legend.framealpha": 0.85,
            "legend.fontsize": 10,
            **{f"{axis}tick.{key}": self.muted for axis in "xy" for key in ("color", "labelcolor")},
            **{f"{axis}tick.labelsize": 10 for axis in "xy"},
            **{f"{axis}tick.major.width": 0.8 for axis in "xy"},
        }


def _style(colours: Mapping[str, str]) -> Style:
    series = tuple(colour for name, colour in colours.items() if name.startswith("series-"))
    return Style(series=series, **{name: colour for name, colour in colours.items() if "-" not in name})


LIGHT, DARK = (_style({name: themes[at] for name, themes in COLOURS.items()}) for at in (0, 1))
_PLACES = {
    name: light if name.startswith("board-") else f"#fe00{number:02x}"
    for number, (name, (light, _)) in enumerate(COLOURS.items())
}
PLACEHOLDERS = _style(_PLACES)
VARIABLES = {colour: f"var(--{name})" for name, colour in _PLACES.items()}
"""The CSS variable that replaces each placeholder colour of a plot."""


def variables(theme: int) -> str:
    """Return the colours of the light theme (0) or the dark theme (1) as CSS variables."""
    return " ".join(f"--{name}: {themes[theme]};" for name, themes in COLOURS.items())
