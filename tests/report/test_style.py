"""The colours of reports can be read."""

import numpy as np
import pytest

from drest_torch.report.themes import DARK, LIGHT


def linear(colour):
    """[3] the light of each primary, from ``#rrggbb``."""
    encoded = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG's ratio, from 1 to 21."""
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_everything_can_be_read(style):
    for name in ("text", "muted", "link", "good", "fair", "bad"):
        assert contrast(getattr(style, name), style.background) >= 4.5, name
        assert contrast(getattr(style, name), style.surface) >= 4.5, name
    for colour in style.series:
        assert contrast(colour, style.background) >= 3, colour
