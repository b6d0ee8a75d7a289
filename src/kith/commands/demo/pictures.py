"""Draws pictures in code: a sky, a sun, some hills. A seed always gives the same picture; nothing is downloaded."""

from __future__ import annotations

import io
import random

from PIL import Image, ImageDraw, ImageOps

SIZE = (480, 320)
"""Pixels, across and down."""
ALT_TEXT = "a sun over hills"
_HILLS = 3


def landscape(seed: int) -> bytes:
    """A PNG of some kilobytes."""
    chosen = random.Random(seed)
    width, height = SIZE
    sky = Image.linear_gradient("L").resize(SIZE)
    image = ImageOps.colorize(sky, black=_colour(chosen, 60, 160), white=_colour(chosen, 180, 255))
    draw = ImageDraw.Draw(image)
    x, y, radius = chosen.randrange(width), chosen.randrange(height // 2), chosen.randrange(20, 50)
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_colour(chosen, 200, 255))
    for number in range(_HILLS):
        top = height // 2 + number * height // (2 * _HILLS)
        middle, wide = chosen.randrange(width), chosen.randrange(width // 2, width)
        draw.ellipse((middle - wide, top, middle + wide, top + height), fill=_colour(chosen, 20, 120))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _colour(chosen: random.Random, darkest: int, brightest: int) -> tuple[int, int, int]:
    return chosen.randint(darkest, brightest), chosen.randint(darkest, brightest), chosen.randint(darkest, brightest)
