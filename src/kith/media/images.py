"""An image that somebody sent becomes one that is safe to show: decoded under limits, and written anew.

What is served holds pixels only: no EXIF, no place, no comment, no colour profile (its colours are brought to
sRGB), no byte of the file that came. Runs in a thread; while Pillow works the interpreter is free for others.
Limit: an animation keeps its frames and their times, and loops for ever.
"""

from __future__ import annotations

import io
from typing import Any, NamedTuple

from PIL import Image, ImageCms, ImageOps, ImageSequence

from kith.core.errors import InvalidContent, KithError
from kith.media.endings import check_ending
from kith.media.media import Format

FRAMES_MAX = 1_000
SCANS_PER_IMAGE_MAX = 20
"""Each scan of a progressive JPEG is a pass over all pixels; encoders make 10. Smaller images may have more."""
THUMBNAIL_SIDE = 400
_COLOUR_PROFILE_BYTES_MAX = 4 << 20
_FRAME_MS = 100
_PILLOW: dict[str, str] = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP"}
_WRITTEN: dict[str, dict[str, Any]] = {
    "jpg": {"quality": 85},
    "png": {},
    "gif": {"disposal": 2},  # each frame stands for itself, as we hold it
    "webp": {"quality": 85, "method": 2},
}
_SCALED_AS_THEY_ARE = ("RGB", "RGBA", "L", "LA", "CMYK")


class Picture(NamedTuple):
    """An image as it is stored and shown. Sizes are in pixels."""

    width: int
    height: int
    fingerprint: int
    data: bytes
    thumbnail: bytes  # WebP


def read_image(data: bytes, form: Format, *, pixels_max: int, side_max: int) -> Picture:
    """The picture that `data` holds. `pixels_max`: of all frames together; `side_max`: larger ones are scaled down.

    Errors: InvalidContent for what is damaged, cut off, too large, or more than an image.
    """
    scans = check_ending(data, form)
    try:
        with Image.open(io.BytesIO(data), formats=[_PILLOW[form]]) as image:
            _check_size(image, scans, pixels_max)
            if form == "jpg" or not getattr(image, "is_animated", False):
                image.draft(None, _fitting(image, side_max))  # JPEG: decodes at a half or less where that is enough
                frames, times = [_plain(image, side_max)], [0]
            else:
                frames, times = _frames(image, pixels_max, side_max)
            written = _write(frames, times, form)
    except KithError:
        raise
    except Image.DecompressionBombError:  # Pillow's own bound, far above what can be set
        raise _too_large(pixels_max) from None
    except Exception as error:  # whatever a decoder meets in a damaged file
        raise InvalidContent("this image cannot be decoded; save it again", format=form) from error
    width, height = frames[0].size
    return Picture(width, height, fingerprint_of(frames[0]), written, _thumbnail(frames[0]))


def fingerprint_of(image: Image.Image) -> int:
    """64 bits, of which few differ for images that look alike: does each of 8 x 8 spots outshine its left neighbour?

    The difference hash (dHash). Images of one colour have 0, so 0 tells nothing.
    """
    ground = Image.new("RGBA", image.size, "white")
    flat = Image.alpha_composite(ground, image.convert("RGBA")) if image.mode in ("RGBA", "LA") else image
    spots = flat.convert("L").resize((9, 8), Image.Resampling.BOX).tobytes()
    pairs = ((spots[row * 9 + column], spots[row * 9 + column + 1]) for row in range(8) for column in range(8))
    return int("".join("1" if right > left else "0" for left, right in pairs), 2)


def _check_size(image: Image.Image, scans: int, pixels_max: int) -> None:
    """What the header announces; nothing is decoded before this."""
    pixels = image.width * image.height
    if pixels > pixels_max:
        raise _too_large(pixels_max)
    if pixels * scans > pixels_max * SCANS_PER_IMAGE_MAX:
        raise InvalidContent(f"this JPEG has {scans} scans; save it again with fewer", scans=scans)


def _too_large(pixels_max: int) -> InvalidContent:
    return InvalidContent(f"this image has more than {pixels_max} pixels; send a smaller one", max=pixels_max)


def _frames(image: Image.Image, pixels_max: int, side_max: int) -> tuple[list[Image.Image], list[int]]:
    """Every frame, and for how many ms it is shown."""
    frames: list[Image.Image] = []
    times: list[int] = []
    for frame in ImageSequence.Iterator(image):
        if len(frames) == FRAMES_MAX or (len(frames) + 1) * frame.width * frame.height > pixels_max:
            raise InvalidContent(
                f"this animation has too many frames; at most {FRAMES_MAX} are decoded, and at most {pixels_max} "
                "pixels of all together",
                max=FRAMES_MAX,
            )
        frames.append(_plain(frame, side_max))
        times.append(int(frame.info.get("duration", _FRAME_MS)))
    return frames, times


def _plain(image: Image.Image, side_max: int) -> Image.Image:
    """An image of RGB or RGBA or grey, upright, in sRGB, not larger than it may be, and nothing else."""
    keyed = image.has_transparency_data and image.mode not in ("RGBA", "LA")  # one colour or entry stands for nothing
    scaled = _fitted(_colours(image) if keyed or image.mode not in _SCALED_AS_THEY_ARE else image, side_max)
    upright = _in_srgb(_upright(scaled), image.info.get("icc_profile"))
    plain = upright if upright.mode in ("RGB", "RGBA", "L") else _colours(upright)
    return Image.frombytes(plain.mode, plain.size, plain.tobytes())


def _fitted(image: Image.Image, side_max: int) -> Image.Image:
    """Scaled down until no side is longer."""
    size = _fitting(image, side_max)
    return image if size == image.size else image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _fitting(image: Image.Image, side_max: int) -> tuple[int, int]:
    """The size of an image whose sides are not longer."""
    share = min(1.0, side_max / max(image.size))
    return max(1, round(image.width * share)), max(1, round(image.height * share))


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # EXIF that nobody can read turns nothing
        return image


def _in_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """The colours that the profile means; as they are where it cannot be read or does not fit."""
    if not profile or len(profile) > _COLOUR_PROFILE_BYTES_MAX or image.mode not in ("RGB", "RGBA", "CMYK"):
        return image
    try:
        meant = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        srgb = ImageCms.createProfile("sRGB")
        turned = ImageCms.profileToProfile(image, meant, srgb, outputMode="RGBA" if image.mode == "RGBA" else "RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return image
    return image if turned is None else turned


def _colours(image: Image.Image) -> Image.Image:
    """Palettes, deep greys, print colours and the like, as RGB, RGBA or grey."""
    if image.mode.startswith("I"):  # 16 bits a pixel
        return image.convert("I").point(lambda value: value / 256).convert("L")
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _write(frames: list[Image.Image], times: list[int], form: Format) -> bytes:
    out, options = io.BytesIO(), dict(_WRITTEN[form])
    first, rest = frames[0], frames[1:]
    if rest:
        options |= {"save_all": True, "append_images": rest, "duration": times, "loop": 0}
    first.save(out, _PILLOW[form], **options)
    return out.getvalue()


def _thumbnail(image: Image.Image) -> bytes:
    out = io.BytesIO()
    _fitted(image, THUMBNAIL_SIDE).save(out, "WEBP", quality=80, method=2)
    return out.getvalue()
