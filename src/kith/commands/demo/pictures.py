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
    rng = random.Random(seed)
    width, height = SIZE
    sky = Image.linear_gradient("L").resize(SIZE)
    image = ImageOps.colorize(sky, black=_colour(rng, 60, 160), white=_colour(rng, 180, 255))
    draw = ImageDraw.Draw(image)
    x, y, radius = rng.randrange(width), rng.randrange(height // 2), rng.randrange(20, 50)
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=_colour(rng, 200, 255))
    for number in range(_HILLS):
        top = height // 2 + number * height // (2 * _HILLS)
        middle, half_width = rng.randrange(width), rng.randrange(width // 2, width)
        draw.ellipse((middle - half_width, top, middle + half_width, top + height), fill=_colour(rng, 20, 120))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _colour(rng: random.Random, darkest: int, brightest: int) -> tuple[int, int, int]:
    return rng.randint(darkest, brightest), rng.randint(darkest, brightest), rng.randint(darkest, brightest)
