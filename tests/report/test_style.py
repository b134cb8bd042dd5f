"""The colours of reports can be read, and told apart by colour-blind readers."""

import itertools

import numpy as np
import pytest

from drest_torch.report.style import DARK, LIGHT


def linear(colour):
    """[3] the light of each primary, from ``#rrggbb``."""
    encoded = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    return np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """WCAG's ratio, from 1 to 21."""
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


# What is left of red, green and blue for colour-blind readers; Machado, Oliveira & Fernandes 2009, severity 1.
VISION = {
    "full": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour, vision):
    """[3] CIELAB, in which a distance of 2 is just seen."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(np.array(VISION[vision]) @ linear(colour), 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_everything_can_be_read(style):
    for name in ("text", "muted", "link", "good", "fair", "bad"):
        assert contrast(getattr(style, name), style.background) >= 4.5, name
        assert contrast(getattr(style, name), style.surface) >= 4.5, name
    for colour in style.series:
        assert contrast(colour, style.background) >= 3, colour


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("style", [LIGHT, DARK], ids=["light", "dark"])
def test_series_are_told_apart(style, vision):
    for one, other in itertools.combinations(style.series, 2):
        assert np.linalg.norm(lab(one, vision) - lab(other, vision)) > 19, (one, other)
