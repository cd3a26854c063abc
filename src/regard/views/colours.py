"""Cividis, the colour map of every view: even steps of lightness, the same to readers with any colour vision."""

import numpy as np

# Nine samples at equal distance, dark to light, as [red, green, blue] from 0 to 255.
CIVIDIS = (
    (0, 34, 78),
    (26, 56, 111),
    (67, 78, 108),
    (97, 101, 111),
    (125, 124, 120),
    (155, 148, 118),
    (188, 174, 108),
    (222, 201, 88),
    (254, 232, 56),
)


def cividis(value: float) -> tuple[int, int, int]:
    """The colour of a value from 0 to 1, interpolated between the samples."""
    places = np.linspace(0.0, 1.0, len(CIVIDIS))
    red, green, blue = (round(float(np.interp(value, places, channel))) for channel in zip(*CIVIDIS, strict=True))
    return red, green, blue
