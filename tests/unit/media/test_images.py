"""An uploaded image is reduced to its pixels, within limits, or is refused."""

from __future__ import annotations

import contextlib
import io
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import PLACE, animation, bomb, decoded, drawing, encoded, photo
from PIL import Image, ImageCms, ImageSequence, PngImagePlugin

from kith.core.errors import InvalidContent
from kith.media import images, trailing_data
from kith.media.images import THUMBNAIL_SIDE, Picture, picture_fingerprint, read_image
from kith.media.media import Format

STILL: dict[Format, bytes] = {
    "jpg": photo(),
    "png": encoded(form="PNG"),
    "gif": encoded(form="GIF"),
    "webp": encoded(form="WEBP"),
}
NAMES = {"jpg": "JPEG", "png": "PNG", "gif": "GIF", "webp": "WEBP"}


def read(data: bytes, form: Format = "jpg", pixels_max: int = 1_000_000, side_max: int = 500) -> Picture:
    return read_image(data, form, pixels_max=pixels_max, side_max=side_max)


def difference(one: Image.Image, other: Image.Image) -> float:
    """The mean difference of two images, from 0 to 255."""
    pairs = zip(one.convert("RGB").tobytes(), other.convert("RGB").resize(one.size).tobytes(), strict=True)
    return sum(abs(a - b) for a, b in pairs) / (one.width * one.height * 3)


def differing_bits(one: int, other: int) -> int:
    """The number of bits in which two fingerprints differ."""
    return (one ^ other).bit_count()


@pytest.mark.parametrize("form", STILL)
def test_an_image_looks_as_it_was_sent_and_keeps_its_format(form: Format) -> None:
    picture = read(STILL[form], form)
    shown = decoded(picture.data)
    assert (shown.format, shown.size, (picture.width, picture.height)) == (NAMES[form], (120, 80), (120, 80))
    assert difference(shown, drawing()) < 8
    thumbnail = decoded(picture.thumbnail)
    assert (thumbnail.format, thumbnail.size) == ("WEBP", (120, 80))


@pytest.mark.parametrize(
    "image",
    [
        drawing().convert("L"),
        drawing().convert("LA"),
        drawing().convert("RGBA"),
        drawing().convert("P"),
        drawing().convert("1"),
        drawing().convert("I;16"),
    ],
    ids=lambda image: image.mode,
)
def test_every_pixel_format_is_shown(image: Image.Image) -> None:
    shown = decoded(read(encoded(image, "PNG"), "png").data)
    assert shown.mode in ("L", "RGB", "RGBA")
    assert shown.size == image.size


def test_print_colours_become_screen_colours() -> None:
    shown = decoded(read(encoded(drawing().convert("CMYK"))).data)
    assert shown.mode == "RGB"
    assert difference(shown, drawing()) < 12


def test_16_bit_greys_keep_their_range() -> None:
    deep = Image.new("I;16", (40, 40), 0x8000)
    assert decoded(read(encoded(deep, "PNG"), "png").data).getpixel((5, 5)) == 0x80


# --- what must not be served ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", STILL)
def test_metadata_about_place_and_author_is_removed(form: Format) -> None:
    exif = Image.Exif()
    exif[0x010E] = PLACE.decode()
    data = encoded(form=NAMES[form], exif=exif, comment=PLACE, xmp=PLACE)
    assert PLACE in data
    picture = read(data, form)
    for written in (picture.data, picture.thumbnail):
        shown = decoded(written)
        assert PLACE not in written
        assert not shown.getexif()
        assert not {"exif", "xmp", "comment", "icc_profile", "photoshop"} & set(shown.info)


@pytest.mark.parametrize("orientation", range(1, 9), ids="orientation-{}".format)
def test_a_turned_photo_is_shown_upright(orientation: int) -> None:
    turn = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }.get(orientation)  # fmt: skip
    meant = drawing() if turn is None else drawing().transpose(turn)
    picture = read(photo(orientation=orientation))
    assert (picture.width, picture.height) == meant.size
    assert difference(decoded(picture.data), meant) < 8


def test_colours_of_another_profile_are_converted_to_srgb() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()
    assert decoded(read(encoded(icc_profile=profile)).data).info.get("icc_profile") is None
    for useless in (b"junk" * 100, b""):
        assert difference(decoded(read(encoded(icc_profile=useless)).data), drawing()) < 8


def test_hidden_bytes_of_the_file_are_removed() -> None:
    hidden = b"<script>alert(1)</script>"
    data = STILL["jpg"][:2] + b"\xff\xfe" + (len(hidden) + 2).to_bytes(2, "big") + hidden + STILL["jpg"][2:]
    assert hidden not in read(data).data


# --- limits --------------------------------------------------------------------------------------------------


def test_a_large_image_is_scaled_down_and_a_small_one_is_left() -> None:
    picture = read(photo(900, 300), side_max=500)
    assert (picture.width, picture.height) == decoded(picture.data).size == (500, 167)
    assert max(decoded(picture.thumbnail).size) == THUMBNAIL_SIDE
    assert read(photo(500, 1), side_max=500).height == 1
    assert decoded(read(photo(2_000, 2), side_max=500).data).size == (500, 1)


@pytest.mark.parametrize("size", [(30_000, 30_000), (9_000, 9_000), (1_001, 1_000)], ids="{0[0]} x {0[1]}".format)
def test_a_decompression_bomb_is_refused_before_it_is_decoded(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("decoded"))
    with pytest.raises(InvalidContent, match="pixels"):
        read(bomb(*size), "png")


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_an_animation_keeps_its_frames_and_durations(form: Any) -> None:
    shown = decoded(read(animation(3, form=form), form.lower()).data)
    assert (shown.n_frames, shown.info["duration"]) == (3, 70)  # type: ignore[attr-defined]
    shown.seek(2)
    assert difference(shown, drawing(60, 40, 2)) < 12


@pytest.mark.parametrize("blend", PngImagePlugin.Blend)
def test_the_picture_for_viewers_without_animations_is_no_frame_of_one(blend: PngImagePlugin.Blend) -> None:
    """Nor does it show through a frame that is transparent."""
    fallback, first, second = (Image.new("RGBA", (20, 10), colour) for colour in ("red", "#0f08", "blue"))
    sent = encoded(fallback, "PNG", save_all=True, append_images=[first, second], default_image=True, blend=blend)
    shown = [frame.convert("RGBA") for frame in ImageSequence.Iterator(decoded(read(sent, "png").data))]
    assert [frame.getpixel((0, 0)) for frame in shown] == [first.getpixel((0, 0)), second.getpixel((0, 0))]


@pytest.mark.parametrize("form", ["GIF", "PNG"])
def test_an_animation_in_which_little_changes_stays_small(form: Any) -> None:
    """As a recording of a screen: whole frames would take fifty times as much."""
    grain = np.random.default_rng(1).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    frames = [Image.fromarray(grain).quantize(32).convert("RGB") for _ in range(50)]
    for number, frame in enumerate(frames):
        frame.paste((4 * number, 90, 0), (number, 20, number + 4, 24))
    sent = encoded(frames[0], form, save_all=True, append_images=frames[1:], duration=70)
    kept = read(sent, form.lower()).data
    assert len(kept) < 2 * len(sent)
    shown = decoded(kept)
    for number, frame in enumerate(frames):
        shown.seek(number)
        assert difference(shown, frame) < 12


def test_a_frame_does_not_show_through_the_next() -> None:
    frames = [Image.new("RGBA", (30, 10)) for _ in range(3)]
    for at, frame in enumerate(frames):
        frame.paste((200, 30, 30, 255), (10 * at, 0, 10 * at + 10, 10))
    sent = io.BytesIO()
    frames[0].save(sent, "GIF", save_all=True, append_images=frames[1:], duration=70, loop=0, disposal=2)
    shown = decoded(read(sent.getvalue(), "gif").data)
    for at in range(3):
        shown.seek(at)
        assert [shown.convert("RGBA").getpixel((x, 5))[3] for x in (5, 15, 25)] == [255 * (x == at) for x in range(3)]  # type: ignore[index]


@pytest.mark.parametrize(("mode", "key"), [("RGB", (200, 30, 30)), ("L", 200)], ids=["RGB", "L"])
def test_the_transparent_colour_stays_transparent(mode: str, key: Any) -> None:
    image = Image.new(mode, (20, 10), key)
    image.paste(0, (10, 0, 20, 10))
    sent = io.BytesIO()
    image.save(sent, "PNG", transparency=key)
    shown = decoded(read(sent.getvalue(), "png").data)
    assert [shown.getpixel((x, 5))[3] for x in (5, 15)] == [0, 255]  # type: ignore[index]


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG"])
def test_the_pixels_of_all_frames_count_together(form: Any) -> None:
    data = animation(4, form=form)
    assert read(data, form.lower(), pixels_max=4 * 60 * 40)
    with pytest.raises(InvalidContent, match="frames"):
        read(data, form.lower(), pixels_max=4 * 60 * 40 - 1)


def test_an_animation_with_too_many_frames_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "FRAMES_MAX", 3)
    assert read(animation(3), "gif")
    with pytest.raises(InvalidContent, match="frames"):
        read(animation(4), "gif")


def test_a_jpeg_of_endless_scans_is_refused() -> None:
    data = encoded(progressive=True)
    first = data.index(b"\xff\xda")
    scan = data[first : data.index(b"\xff", first + 2)]
    assert read(data, pixels_max=120 * 80)
    with pytest.raises(InvalidContent, match="scans"):
        read(data[:first] + scan * 30 + data[first:], pixels_max=120 * 80)


def test_a_file_of_endless_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trailing_data, "PARTS_MAX", 2)
    for form, data in STILL.items():
        if form != "webp":
            with pytest.raises(InvalidContent, match="parts"):
                read(data, form)


# --- damage and disguise -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", STILL)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999], ids="{:.1%}".format)
def test_a_cut_off_image_is_refused(form: Format, share: float) -> None:
    with pytest.raises(InvalidContent):
        read(STILL[form][: int(len(STILL[form]) * share)], form)


@pytest.mark.parametrize("form", STILL)
@pytest.mark.parametrize(
    "behind",
    [b"PK\3\4 an archive", b"<script>alert(1)</script>", b"=1;alert(1)//", b"%PDF-1.7"],
    ids=["an archive", "a page", "a script", "a pdf"],
)
def test_an_image_that_is_also_another_format_is_refused(form: Format, behind: bytes) -> None:
    with pytest.raises(InvalidContent, match="follow the end"):
        read(STILL[form] + behind, form)


@pytest.mark.parametrize(
    "behind",
    [bytes(50), encoded(drawing(seed=2)), b"\0\0\0\x1cftypmp42 a short film", b"Image_UTC_DataSEFT"],
    ids=["zeros", "another view", "a short film", "notes of a phone"],
)
def test_data_that_cameras_append_to_a_photo_is_accepted_and_dropped(behind: bytes) -> None:
    assert read(STILL["jpg"] + behind).data == read(STILL["jpg"]).data


def test_a_photo_of_several_views_shows_the_first() -> None:
    data = encoded(form="MPO", save_all=True, append_images=[drawing(seed=2)])
    assert difference(decoded(read(data).data), drawing()) < 8


def test_a_file_of_another_format_than_declared_is_refused() -> None:
    for form in STILL:
        for other, data in STILL.items():
            if other != form:
                with pytest.raises(InvalidContent):
                    read(data, form)


@given(form=st.sampled_from(sorted(STILL)), seed=st.integers(0, 10**9), hits=st.integers(1, 30))
def test_a_damaged_image_is_shown_or_refused_without_other_errors(form: Format, seed: int, hits: int) -> None:
    data, chosen = bytearray(STILL[form]), random.Random(seed)
    for _ in range(hits):
        data[chosen.randrange(len(data))] = chosen.randrange(256)
    with contextlib.suppress(InvalidContent):
        assert decoded(read(bytes(data), form).data).size


# --- fingerprints --------------------------------------------------------------------------------------------


def test_similar_images_have_similar_fingerprints() -> None:
    original = read(photo(400, 300)).fingerprint
    alike = [
        photo(200, 150),
        photo(300, 400, orientation=1),
        encoded(drawing(400, 300), quality=20),
        encoded(drawing(400, 300).point(lambda value: min(255, value + 15))),
    ]
    for data in (alike[0], *alike[2:]):
        assert differing_bits(read(data).fingerprint, original) <= 6
    assert read(encoded(drawing(400, 300), "PNG"), "png").fingerprint.bit_length() <= 64
    others = [read(encoded(drawing(400, 300, seed))).fingerprint for seed in range(2, 30)]
    assert min(differing_bits(other, original) for other in others) > 12


def test_a_fingerprint_reads_rows_from_left_to_right() -> None:
    rising = Image.frombytes("L", (9, 8), bytes(range(9)) * 8)
    assert picture_fingerprint(rising) == 2**64 - 1
    assert picture_fingerprint(rising.transpose(Image.Transpose.FLIP_LEFT_RIGHT)) == 0
    last = Image.frombytes("L", (9, 8), bytes(71) + b"\xff")
    assert picture_fingerprint(last) == 1


def test_transparent_pixels_count_as_white() -> None:
    clear = Image.new("RGBA", (90, 80), (0, 0, 0, 0))
    clear.paste((0, 0, 0, 255), (0, 0, 45, 80))
    assert picture_fingerprint(clear) == picture_fingerprint(clear.convert("RGBA")) != 0
