"""The colours of reports have enough contrast."""

import numpy as np
import pytest

from drest_torch.report.themes import DARK, LIGHT


def linear(colour):
    """Return the light of each primary [3], from ``#rrggbb``."""
    encoded = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def contrast(first, second):
    """Return the contrast ratio of WCAG, from 1 to 21."""
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (first, second))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_every_colour_has_enough_contrast(style):
    for name in ("text", "muted", "link", "good", "fair", "bad"):
        assert contrast(getattr(style, name), style.background) >= 4.5, name
        assert contrast(getattr(style, name), style.surface) >= 4.5, name
    for colour in style.series:
        assert contrast(colour, style.background) >= 3, colour
