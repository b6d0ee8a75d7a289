"""An uploaded video keeps its picture and sound and loses its metadata, or is refused."""

from __future__ import annotations

import io
import random
import struct
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import CUES, PLACE, SAMPLES, TURNED, box, element, mp4, samples, track, webm

from kith.core.errors import InvalidContent
from kith.media import videos
from kith.media.media import Format
from kith.media.videos import Video, read_video

RUN = struct.pack(">2I", 1, 3)
PICTURE = element(0xAE, element(0x83, b"\1"), element(0xE0, element(0xB0, b"\x10"), element(0xBA, b"\x10")))
META = element(0x1654AE6B, PICTURE, element(0xAE, element(0x83, b"\x21")))
AUDIO = element(0x1654AE6B, element(0xAE, element(0x83, b"\2")))
KINDS: dict[str, tuple[Format, bytes]] = {
    "mp4": ("mp4", mp4()),
    "webm": ("webm", webm()),
    "live webm": ("webm", webm(live=True)),
}


def read(data: bytes, form: Format = "mp4", pixels_max: int = 1_000_000) -> tuple[Video, bytes]:
    """The video, and its bytes after cleaning."""
    file = io.BytesIO(data)
    return read_video(file, len(data), form, pixels_max=pixels_max), file.getvalue()


def steps_of(data: bytes) -> int:
    """Function calls that the check of an MP4 makes, steps of generators included, plus the bytes that it writes."""
    steps = 0

    class Counted(io.BytesIO):
        def write(self, chunk: Any, /) -> int:
            nonlocal steps
            steps += len(chunk)
            return super().write(chunk)

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal steps
        steps += event == "call"

    file, profile = Counted(data), sys.getprofile()
    sys.setprofile(count)
    try:
        read_video(file, len(data), "mp4", pixels_max=1_000_000)
    finally:
        sys.setprofile(profile)
    return steps


def table(chunks: list[int], counts: list[int], wide: bool, same: int) -> bytes:
    """The sample table of a track with chunks of `counts` samples of 10 bytes at these offsets."""
    sizes = b"" if same else struct.pack(">I", 10) * sum(counts)
    runs = b"".join(struct.pack(">3I", number, count, 1) for number, count in enumerate(counts, 1))
    offsets = struct.pack(f">{len(chunks)}{'Q' if wide else 'I'}", *chunks)
    return box(
        b"stbl",
        box(b"stsz", struct.pack(">3I", 0, same, sum(counts)), sizes),
        box(b"stsc", struct.pack(">2I", 0, len(counts)), runs),
        box(b"co64" if wide else b"stco", struct.pack(">2I", 0, len(chunks)), offsets),
    )


def kinds_in(data: bytes) -> list[bytes]:
    """The boxes of an MP4, outside and within `moov`."""
    found, at = [], 0
    while at < len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        found += [kind, *(kinds_in(data[at + 8 : at + size]) if kind == b"moov" else [])]
        at += size
    return found


@pytest.mark.parametrize(("form", "data"), KINDS.values(), ids=KINDS)
def test_the_location_is_removed_and_nothing_else_moves(form: Format, data: bytes) -> None:
    video, left = read(data, form)
    assert (video.width, video.height) == (320, 180)
    assert PLACE in data
    assert PLACE not in left
    assert len(left) == len(data)
    at = data.index(bytes(range(200))) if form == "mp4" else data.index(b"frame" * 20)
    assert left[at : at + 100] == data[at : at + 100]
    again, same = read(left, form)
    assert (again, same) == (video, left), "cleaning again changes nothing"


def test_metadata_boxes_are_removed_wherever_they_may_stand() -> None:
    note = box(b"uuid", PLACE)
    for data in (
        mp4(behind=note),
        mp4(behind=box(b"free", PLACE)),
        mp4(notes=box(b"meta", PLACE)),
        mp4(track(b"vide", 320, 180, TURNED, box(b"udta", PLACE))),
        mp4(behind=struct.pack(">I4sQ", 1, b"skip", 16 + len(PLACE)) + PLACE),
    ):
        _, left = read(data)
        assert PLACE not in left
        assert len(left) == len(data)
        assert not {b"uuid", b"udta", b"meta", b"skip"} & set(kinds_in(left))


def test_boxes_that_no_player_needs_are_removed_at_any_depth() -> None:
    note = box(b"udta", PLACE)
    deep = box(b"mdia", box(b"hdlr", bytes(8), b"vide", bytes(12), PLACE + b"\0"), note, box(b"minf", note))
    fragment = box(b"moof", box(b"mfhd", bytes(8)), note, box(b"traf", box(b"tfhd", bytes(8)), note))
    for data in (
        mp4(track(b"vide", 320, 180, TURNED, box(b"xtra", PLACE)), track(b"soun", 0, 0, TURNED, deep)),
        mp4(notes=box(b"xtra", PLACE)),
        *(mp4(behind=box(kind, PLACE)) for kind in (b"wide", b"emsg", b"prft")),
        mp4(behind=fragment),
    ):
        assert PLACE in data
        _, left = read(data)
        assert PLACE not in left
        assert len(left) == len(data)
    named = element(0xAE, element(0x83, b"\2"), element(0x536E, PLACE))
    for data in (
        webm(
            element(0x1549A966, element(0x2AD7B1, b"\1"), *(element(kind, PLACE) for kind in (0x7BA9, 0x4461, 0x5741)))
        ),
        webm(tracks=element(0x1654AE6B, PICTURE, named, element(0xEC, PLACE))),
    ):
        assert PLACE in data
        _, left = read(data, "webm")
        assert PLACE not in left
        assert len(left) == len(data)


@pytest.mark.parametrize("kind", [b"meta", b"text", b"sbtl", b"subt", b"tmcd"])
def test_a_track_of_text_or_telemetry_is_removed_with_its_samples(kind: bytes) -> None:
    data = mp4(track(table=samples(0, [])), track(kind, 0, 0, table=samples(0, [30, 20])))
    _, left = read(data)
    assert left.endswith(bytes(len(SAMPLES)))
    assert left.count(b"trak") == 1
    with pytest.raises(InvalidContent, match="fragments"):
        read(data + box(b"moof"))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("same", [0, 10])
def test_what_lies_between_the_samples_of_an_mp4_is_removed(wide: bool, same: int) -> None:
    """Dashcams write a block with their position after each second of pictures and sound."""
    picture, sound, place = b"picture..." * 3, b"sound....." * 2, b"freeGPS " + PLACE
    media = place + picture + place + sound + picture + place

    def data(at: int) -> bytes:
        first = at + len(place)
        second = first + len(picture) + len(place)
        shown = table([first, second + len(sound)], [3, 3], wide, same), table([second], [2], wide, same)
        tracks = track(table=shown[0]), track(b"soun", 0, 0, table=shown[1])
        return mp4(*tracks, behind=box(b"mdat", media) + box(b"mdat", place))

    film = data(data(0).index(media))
    _, left = read(film)
    assert PLACE not in left
    assert len(left) == len(film)
    blank = bytes(len(place))
    assert blank + picture + blank + sound + picture + blank in left


def test_uncompressed_sound_as_quicktime_describes_it_is_kept() -> None:
    def data(at: int) -> bytes:
        return mp4(track(table=samples(0, [])), track(b"soun", 0, 0, table=table([at], [100], False, 1)))

    film = data(data(0).index(SAMPLES))
    assert read(film)[1].endswith(SAMPLES)


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(table([1 << 40], [1], True, 0), id="a chunk behind the end of the file"),
        pytest.param(table([1 << 63], [1], True, 0), id="a chunk at a negative offset"),
        pytest.param(table([0], [], False, 0), id="chunks without a run"),
        pytest.param(table([0], [3], False, 0).replace(RUN, struct.pack(">2I", 1, 4)), id="a sample without a size"),
        pytest.param(table([0], [3], False, 0).replace(RUN, struct.pack(">2I", 2, 3)), id="no run of the first chunk"),
        pytest.param(samples(0, []).replace(struct.pack(">3I", 0, 0, 0), struct.pack(">3I", 0, 0, 9)), id="no sizes"),
    ],
)
def test_an_mp4_with_damaged_tables_of_samples_is_refused(damaged: bytes) -> None:
    with pytest.raises(InvalidContent, match="cut off or damaged"):
        read(mp4(track(table=damaged)))


def test_an_mp4_of_endless_samples_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "ENTRIES_MAX", 10)
    read(mp4())
    with pytest.raises(InvalidContent, match="samples"):
        read(mp4(track(table=table([0], [10], False, 0))))


def same_place(at: int, chunks: int, size: int) -> bytes:
    """The sample table of a track whose chunks, of one sample each, all lie at the same offset."""
    return box(
        b"stbl",
        box(b"stsz", struct.pack(">3I", 0, size, chunks)),
        box(b"stsc", struct.pack(">5I", 0, 1, 1, 1, 1)),
        box(b"stco", struct.pack(">2I", 0, chunks), struct.pack(">I", at) * chunks),
    )


def test_the_cost_of_a_check_is_linear_in_boxes_chunks_and_samples() -> None:
    def video_of_parts(count: int) -> bytes:
        """A video with `count` empty boxes, tracks, boxes of data, and chunks; each chunk covers all data."""
        empty, boxes = track(b"soun", 0, 0, table=same_place(0, 0, 0)), box(b"free") * count
        place = box(b"mdat", PLACE) * count

        def data(at: int) -> bytes:
            shown = track(b"soun", 0, 0, table=same_place(at, count, len(place)))
            return mp4(track(), shown, *[empty] * count, behind=boxes + place)

        return data(data(0).index(place))

    few, many = steps_of(video_of_parts(50)), steps_of(video_of_parts(500))
    assert many < 12 * few
    assert read(video_of_parts(50))[1].count(PLACE) == 50


def test_a_rotated_video_reports_the_size_as_shown() -> None:
    assert read(mp4(track(b"vide", 320, 180, TURNED)))[0][:2] == (180, 320)


def test_a_sound_track_first_and_an_mdat_to_the_end_of_the_file_are_accepted() -> None:
    assert read(mp4(track(b"soun", 0, 0), track()))[0].width == 320
    assert read(mp4() + struct.pack(">I4s", 0, b"mdat") + b"to the end")[0].width == 320


@pytest.mark.parametrize(("form", "data"), KINDS.values(), ids=KINDS)
def test_the_same_video_has_the_same_fingerprint_and_another_has_not(form: Format, data: bytes) -> None:
    one = read(data, form)[0].fingerprint
    assert one == read(data, form)[0].fingerprint
    assert one.bit_length() <= 64
    at = len(data) - 20
    other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    assert read(other, form)[0].fingerprint != one


@pytest.mark.parametrize(("form", "data"), KINDS.values(), ids=KINDS)
def test_a_cut_off_video_is_refused_wherever_it_was_cut(form: Format, data: bytes) -> None:
    whole = 0
    for at in range(len(data)):
        try:
            read(data[:at], form)
            whole += 1
        except InvalidContent:
            continue
    live = form == "webm" and data == webm(live=True)
    assert whole <= (6 if live else 0), "a live recording states no length, so it may end between any two elements"


@pytest.mark.parametrize(
    ("form", "data"),
    [
        pytest.param("mp4", mp4(behind=box(b"html", b"<script>")), id="mp4: a page behind it"),
        pytest.param("mp4", mp4(behind=b"PK\3\4 an archive that was hung on"), id="mp4: an archive behind it"),
        pytest.param("mp4", mp4(track(b"soun", 0, 0)), id="mp4: sound only"),
        pytest.param("mp4", box(b"ftyp", b"isom") + box(b"mdat", b"x"), id="mp4: no moov"),
        pytest.param("mp4", mp4(track(b"vide", 60_000, 60_000)), id="mp4: too many pixels"),
        pytest.param("mp4", mp4().replace(b"hdlr", b"free"), id="mp4: no handler"),
        pytest.param("mp4", mp4().replace(b"tkhd", b"free"), id="mp4: no track header"),
        pytest.param("webm", webm(behind=b"PK\3\4 an archive that was hung on"), id="webm: an archive behind it"),
        pytest.param("webm", webm(live=True, behind=b"<script>"), id="webm: a page behind a live recording"),
        pytest.param("webm", webm(element(0x7373, b"x")), id="webm: an unknown element"),
        pytest.param("webm", webm(tracks=META), id="webm: a track of metadata"),
        pytest.param("webm", webm(tracks=AUDIO), id="webm: sound only"),
        pytest.param("webm", webm(tracks=b""), id="webm: no tracks"),
        pytest.param("webm", b"\0" * 50, id="webm: zeros"),
        pytest.param("webm", webm()[:30], id="webm: cut off"),
    ],
)
def test_a_file_that_is_no_video_or_holds_more_is_refused(form: Format, data: bytes) -> None:
    with pytest.raises(InvalidContent):
        read(data, form)


def test_other_known_parts_of_a_webm_are_kept() -> None:
    data = webm(element(CUES, b"index"), element(0xEC, PLACE))
    _, left = read(data, "webm")
    assert b"index" in left
    assert left.count(PLACE) == 0


@pytest.mark.parametrize(("form", "data"), KINDS.values(), ids=KINDS)
def test_a_file_of_endless_parts_is_refused(form: Format, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos, "PARTS_MAX", 3)
    with pytest.raises(InvalidContent, match="parts"):
        read(data, form)


@given(kind=st.sampled_from(list(KINDS.values())), seed=st.integers(0, 10**9), hits=st.integers(1, 10))
def test_a_damaged_video_is_accepted_or_refused_without_other_errors(kind: Any, seed: int, hits: int) -> None:
    data, chosen = bytearray(kind[1]), random.Random(seed)
    for _ in range(hits):
        data[chosen.randrange(len(data))] = chosen.randrange(256)
    try:
        _, left = read(bytes(data), kind[0])
        assert len(left) == len(data)
    except InvalidContent:
        pass
