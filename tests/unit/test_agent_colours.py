"""The colours of agents on the map are told apart, also by whoever does not see all hues.

Colour blindness is simulated by Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
Vision Deficiency" (2009), severity 1.0, in linear RGB; distances are Euclidean in OKLab (Ottosson, 2020), where about 0.02
is just noticeable side by side.
"""

import math
import re
from itertools import combinations
from pathlib import Path

import pytest

import crossclaw

WEB = Path(crossclaw.__file__).parent / "web"
Colour = tuple[float, float, float]
Matrix = tuple[Colour, Colour, Colour]

SIGHTS: dict[str, Matrix] = {
    "all colours": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "tritanopia": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
APART = 0.07  # more than three times what is just noticeable


def shades() -> list[tuple[float, float]]:
    """Hue and lift of each agent's colour, as the page has them."""
    found = re.search(r"const SHADES = \[(.*?)\];", (WEB / "dom.js").read_text("utf-8"), re.S)
    assert found
    pairs = re.findall(r"\[(-?[\d.]+), (-?[\d.]+)\]", found[1])
    return [(float(hue), float(lift)) for hue, lift in pairs]


def inks() -> dict[str, tuple[float, float]]:
    """Lightness and chroma of a dot in each scheme."""
    drawn = r"hue\(circle\.nodes\[0\], map\.dark \? ([\d.]+) : ([\d.]+), ([\d.]+)\)"
    found = re.search(drawn, (WEB / "nodes.js").read_text("utf-8"))
    assert found
    dark, light, chroma = map(float, found.groups())
    return {"dark": (dark, chroma), "light": (light, chroma)}


def rgb_of(lightness: float, chroma: float, hue: float) -> Colour:
    """OKLCH to linear RGB, clipped as a screen does."""
    a, b = (chroma * part(math.radians(hue)) for part in (math.cos, math.sin))
    l_, m_, s_ = (
        (lightness + x * a + y * b) ** 3
        for x, y in (
            (0.3963377774, 0.2158037573),
            (-0.1055613458, -0.0638541728),
            (-0.0894841775, -1.2914855480),
        )
    )
    red = 4.0767416621 * l_ - 3.3077115913 * m_ + 0.2309699292 * s_
    green = -1.2684380046 * l_ + 2.6097574011 * m_ - 0.3413193965 * s_
    blue = -0.0041960863 * l_ - 0.7034186147 * m_ + 1.7076147010 * s_
    return clipped((red, green, blue))


def clipped(colour: Colour) -> Colour:
    red, green, blue = (min(1.0, max(0.0, each)) for each in colour)
    return red, green, blue


def seen(colour: Colour, sight: Matrix) -> Colour:
    red, green, blue = (sum(map(math.prod, zip(row, colour, strict=True))) for row in sight)
    return clipped((red, green, blue))


def oklab(colour: Colour) -> Colour:
    red, green, blue = colour
    l_ = math.cbrt(0.4122214708 * red + 0.5363325363 * green + 0.0514459929 * blue)
    m_ = math.cbrt(0.2119034982 * red + 0.6806995451 * green + 0.1073969566 * blue)
    s_ = math.cbrt(0.0883024619 * red + 0.2817188376 * green + 0.6299787005 * blue)
    return (
        0.2104542553 * l_ + 0.7936177850 * m_ - 0.0040720468 * s_,
        1.9779984951 * l_ - 2.4285922050 * m_ + 0.4505937099 * s_,
        0.0259040371 * l_ + 0.7827717662 * m_ - 0.8086757660 * s_,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("sight", SIGHTS)
def test_twelve_agents_are_told_apart_by_every_eye(scheme: str, sight: str) -> None:
    lightness, chroma = inks()[scheme]
    colours = [
        oklab(seen(rgb_of(lightness + lift, chroma, hue), SIGHTS[sight])) for hue, lift in shades()
    ]

    assert len(colours) >= 12
    nearest = min(
        (math.dist(one, other), first, second)
        for (first, one), (second, other) in combinations(enumerate(colours), 2)
    )
    assert nearest[0] >= APART, (
        f"colours {nearest[1]} and {nearest[2]} look alike: {nearest[0]:.3f}"
    )
