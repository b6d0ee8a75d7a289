"""Turns an uploaded image into one that is safe to show: decodes it under limits, and encodes the pixels again.

The result has pixels only: no EXIF, location, comment or colour profile (colours are converted to sRGB), and no byte of
the uploaded file. Runs in a thread; while Pillow works, other Python code can run. Limit: an animation keeps its frames
and their durations, and always loops.
"""

from __future__ import annotations

import io
from typing import Any, NamedTuple

from PIL import Image, ImageCms, ImageOps, ImageSequence, PngImagePlugin

from kith.core.errors import InvalidContent, KithError
from kith.media.media import Format
from kith.media.trailing_data import check_trailing_data

FRAMES_MAX = 1_000
"""Frames of an animation."""
SCANS_PER_IMAGE_MAX = 20
"""Scans of a progressive JPEG that has as many pixels as allowed; a smaller one may have more, in proportion. Each scan
is a pass over all pixels. Encoders make 10.
"""
THUMBNAIL_SIDE = 400
"""The longest side of a thumbnail, in pixels."""
_COLOUR_PROFILE_BYTES_MAX = 4 << 20
_FRAME_MS = 100  # of a frame that has no duration
_KEEP, _REPLACE = 1, 2
"""Whether a frame of a GIF stays below the next one, which then holds only what changed; or is removed before it."""
_PILLOW_FORMATS: dict[str, str] = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP"}
_ENCODE_OPTIONS: dict[str, dict[str, Any]] = {
    "jpg": {"quality": 85},
    "png": {},
    "gif": {"disposal": _REPLACE},
    "webp": {"quality": 85, "method": 2},
}
_SCALABLE_MODES = ("RGB", "RGBA", "L", "LA", "CMYK")


class Picture(NamedTuple):
    """An image as stored and shown. Width and height are in pixels."""

    width: int
    height: int
    fingerprint: int
    data: bytes
    thumbnail: bytes  # WebP


def read_image(data: bytes, form: Format, *, pixels_max: int, side_max: int) -> Picture:
    """Check and rewrite the image in `data`.

    `pixels_max`: the limit for the pixels of all frames together. `side_max`: an image with a longer side is scaled
    down to it. InvalidContent if the image is damaged, cut off or too large, or if something else follows it.
    """
    scans = check_trailing_data(data, form)
    try:
        with Image.open(io.BytesIO(data), formats=[_PILLOW_FORMATS[form]]) as image:
            _check_size(image, scans, pixels_max)
            if form == "jpg" or not getattr(image, "is_animated", False):
                image.draft(
                    None, _scaled_size(image, side_max)
                )  # JPEG: decode at a half or less if that is large enough
                frames, times = [_normalized(image, side_max)], [0]
            else:
                frames, times = _frames(image, pixels_max, side_max)
            encoded = _write(frames, times, form)
    except KithError:
        raise
    except Image.DecompressionBombError:  # Pillow's own limit, far above what `pixels_max` can be set to
        raise _too_large(pixels_max) from None
    except Exception as error:  # decoders raise anything on a damaged file
        raise InvalidContent("this image cannot be decoded; save it again", format=form) from error
    width, height = frames[0].size
    return Picture(width, height, picture_fingerprint(frames[0]), encoded, _thumbnail(frames[0]))


def picture_fingerprint(image: Image.Image) -> int:
    """A 64-bit hash of which only a few bits differ between images that look alike.

    It is the difference hash (dHash): for each of 8 x 8 spots one bit says whether it is brighter than its left
    neighbour. An image of one colour has 0, so equal hashes of 0 do not mean that images are alike.
    """
    ground = Image.new("RGBA", image.size, "white")
    flat = Image.alpha_composite(ground, image.convert("RGBA")) if image.mode in ("RGBA", "LA") else image
    spots = flat.convert("L").resize((9, 8), Image.Resampling.BOX).tobytes()
    pairs = ((spots[row * 9 + column], spots[row * 9 + column + 1]) for row in range(8) for column in range(8))
    return int("".join("1" if right > left else "0" for left, right in pairs), 2)


def _check_size(image: Image.Image, scans: int, pixels_max: int) -> None:
    """Check the size in the header, before anything is decoded."""
    pixels = image.width * image.height
    if pixels > pixels_max:
        raise _too_large(pixels_max)
    if pixels * scans > pixels_max * SCANS_PER_IMAGE_MAX:
        raise InvalidContent(f"this JPEG has {scans} scans; save it again with fewer", scans=scans)


def _too_large(pixels_max: int) -> InvalidContent:
    return InvalidContent(f"this image has more than {pixels_max} pixels; send a smaller one", max=pixels_max)


def _frames(image: Image.Image, pixels_max: int, side_max: int) -> tuple[list[Image.Image], list[int]]:
    """All frames, and the duration of each in ms."""
    frames: list[Image.Image] = []
    times: list[int] = []
    has_fallback = getattr(image, "default_image", False)  # a PNG's picture for viewers that show no animations
    for index, frame in enumerate(ImageSequence.Iterator(image)):
        if has_fallback and index == 0:
            frame.paste(0, (0, 0, *frame.size))  # else it shows through the first frame
            continue
        if has_fallback and index == 1:
            image.blend_op = PngImagePlugin.Blend.OP_SOURCE  # type: ignore[attr-defined]  # nothing lies below it
        if len(frames) == FRAMES_MAX or (len(frames) + 1) * frame.width * frame.height > pixels_max:
            raise InvalidContent(
                f"this animation has too many frames; at most {FRAMES_MAX} are decoded, and at most {pixels_max} "
                "pixels of all together",
                max=FRAMES_MAX,
            )
        frames.append(_normalized(frame, side_max))
        times.append(int(frame.info.get("duration", _FRAME_MS)))
    return frames, times


def _normalized(image: Image.Image, side_max: int) -> Image.Image:
    """The pixels alone: RGB, RGBA or grey, rotated upright, in sRGB, scaled down to `side_max`."""
    keyed = image.has_transparency_data and image.mode not in (
        "RGBA",
        "LA",
    )  # one colour or palette entry means transparent
    scaled = _scaled_down(_colours(image) if keyed or image.mode not in _SCALABLE_MODES else image, side_max)
    upright = _in_srgb(_upright(scaled), image.info.get("icc_profile"))
    plain = upright if upright.mode in ("RGB", "RGBA", "L") else _colours(upright)
    return Image.frombytes(plain.mode, plain.size, plain.tobytes())


def _scaled_down(image: Image.Image, side_max: int) -> Image.Image:
    """The image, scaled down if a side is longer than `side_max`."""
    size = _scaled_size(image, side_max)
    return image if size == image.size else image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _scaled_size(image: Image.Image, side_max: int) -> tuple[int, int]:
    """The size of the image after scaling it down to `side_max`."""
    share = min(1.0, side_max / max(image.size))
    return max(1, round(image.width * share)), max(1, round(image.height * share))


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except Exception:  # unreadable EXIF: keep the orientation
        return image


def _in_srgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """Convert colours from the profile to sRGB; unchanged if the profile cannot be read or does not fit."""
    if not profile or len(profile) > _COLOUR_PROFILE_BYTES_MAX or image.mode not in ("RGB", "RGBA", "CMYK"):
        return image
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        srgb = ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, source, srgb, outputMode="RGBA" if image.mode == "RGBA" else "RGB")
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
        return image
    return image if converted is None else converted


def _colours(image: Image.Image) -> Image.Image:
    """Convert palettes, 16-bit greys, print colours and the like to RGB, RGBA or grey."""
    if image.mode.startswith("I"):  # 16 bits a pixel
        return image.convert("I").point(lambda value: value / 256).convert("L")
    if image.has_transparency_data:
        return image.convert("RGBA")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")


def _write(frames: list[Image.Image], times: list[int], form: Format) -> bytes:
    out, options = io.BytesIO(), dict(_ENCODE_OPTIONS[form])
    if len(frames) > 1:
        if form == "gif" and all(map(_is_opaque, frames)):
            frames, options["disposal"] = [frame.convert("RGB") for frame in frames], _KEEP
        options |= {"save_all": True, "append_images": frames[1:], "duration": times, "loop": 0}
    frames[0].save(out, _PILLOW_FORMATS[form], **options)
    return out.getvalue()


def _is_opaque(image: Image.Image) -> bool:
    return image.mode != "RGBA" or image.getchannel("A").getextrema() == (255, 255)


def _thumbnail(image: Image.Image) -> bytes:
    out = io.BytesIO()
    _scaled_down(image, THUMBNAIL_SIDE).save(out, "WEBP", quality=80, method=2)
    return out.getvalue()
