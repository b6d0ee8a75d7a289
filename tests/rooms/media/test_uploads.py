"""Uploads: what is stored, that a failure leaves nothing, permissions, and the sweep."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cast import ALICE, BOB, CAROL, FakeClock
from coroutines import Run, answer
from pictures import drawing, encoded, mp4, photo, webm
from services import Services

from kith.core.clock import HybridClock
from kith.core.errors import (
    BodyTooLarge,
    Forbidden,
    InvalidContent,
    MediaNotFound,
    Overloaded,
    StoreFull,
    StoreUnavailable,
)
from kith.core.ids import NodeId
from kith.engines.blobs.blob_store import FolderBlobs
from kith.graph.edge import State
from kith.graph.graphs import NAMES
from kith.media import library
from kith.media.library import ORPHAN_AGE_MIN_MS, MediaLibrary, MediaLimits
from kith.media.media import ALT_TEXT_CHARS_MAX, Media, key_of, keys_of, media_record, read_media, thumbnail_key_of
from kith.people.privacy import SYSTEM
from kith.people.profiles import Profile, Profiles
from kith.posts.post import Draft, PostEdit
from kith.records.store import RecordKind

LIMITS = MediaLimits(image_bytes_max=100_000, video_bytes_max=200_000, pixels_max=1_000_000, side_max=500, threads=2)
FAR_MS = 10**14


class UploadScene:
    """The files of uploads in a folder, and the services that show them."""

    def __init__(self, services: Services, folder: Path, limits: MediaLimits) -> None:
        self.folder, self.posts, self.graph, self.records = folder, services.posts, services.graph, services.records
        self.media = MediaLibrary(
            services.records, services.graph, services.snowflakes, FolderBlobs(folder, sync=False), limits
        )
        self.profiles = Profiles(
            services.records, services.graph.clock, self.media.check_image, services.graph.graphs.number(NAMES)
        )

    def files(self) -> set[str]:
        """The keys of all files."""
        return {file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*") if file.is_file()}


@pytest.fixture
def make_scene(run: Run, clock: FakeClock, tmp_path: Path) -> Iterator[Callable[..., UploadScene]]:
    """`make_scene(threads=1)`: services with these limits."""
    made: list[UploadScene] = []

    def make(**limits: int) -> UploadScene:
        services = run(Services.in_memory(clock=clock))
        made.append(UploadScene(services, tmp_path / "media", LIMITS._replace(**limits)))
        return made[-1]

    yield make
    for scene in made:
        scene.media.close()


@pytest.fixture
def scene(make_scene: Callable[..., UploadScene]) -> UploadScene:
    return make_scene()


async def upload(scene: UploadScene, owner: NodeId, data: bytes, text: str = "") -> Media:
    """One upload."""
    return (await scene.media.upload(owner, io.BytesIO(data), len(data), text)).media


def test_an_image_is_stored_with_a_thumbnail_and_a_record(run: Run, scene: UploadScene) -> None:
    media = run(upload(scene, ALICE, photo(), "a fox"))
    assert run(scene.media.get(ALICE, media.id)) == media
    assert (media.owner, media.type, media.format, media.width, media.height) == (ALICE, "image", "jpg", 120, 80)
    assert (media.alt_text, media.fingerprint > 0) == ("a fox", True)
    assert scene.files() == {key_of(media), thumbnail_key_of(media)} == set(keys_of(media))
    assert (scene.folder / key_of(media)).stat().st_size == media.size


@pytest.mark.parametrize(("data", "form"), [(mp4(), "mp4"), (webm(), "webm")], ids=["mp4", "webm"])
def test_a_video_is_stored_as_it_is_without_a_thumbnail(run: Run, scene: UploadScene, data: bytes, form: str) -> None:
    media = run(upload(scene, ALICE, data))
    assert (media.type, media.format, media.width, media.height) == ("video", form, 320, 180)
    assert thumbnail_key_of(media) is None
    assert scene.files() == {key_of(media)}
    assert media.size == len(data)


def test_names_of_files_cannot_be_guessed_from_others(run: Run, scene: UploadScene) -> None:
    made = [run(upload(scene, ALICE, photo())) for _ in range(20)]
    assert len({media.secret for media in made}) == 20
    for media in made:
        assert len(media.secret) == 16
        assert media.secret.hex() in key_of(media)


def test_a_record_reads_as_it_was_stored() -> None:
    media = Media(7, ALICE, 1, "webp", 3, 4, 5, 2**64 - 1, bytes(range(16)), "🦊", True)
    assert read_media(media_record(media, HybridClock(FakeClock()).next())) == media


# --- refusals leave nothing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(b"", InvalidContent, id="empty"),
        pytest.param(b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", InvalidContent, id="svg"),
        pytest.param(b"<!doctype html><html>", InvalidContent, id="html"),
        pytest.param(b"%PDF-1.7", InvalidContent, id="pdf"),
        pytest.param(encoded(form="BMP"), InvalidContent, id="bmp"),
        pytest.param(encoded(form="TIFF"), InvalidContent, id="tiff"),
        pytest.param(webm(doc_type=b"matroska"), InvalidContent, id="matroska"),
        pytest.param(mp4(brand=b"heic").replace(b"isommp42", b"heicheic"), InvalidContent, id="heic"),
        pytest.param(photo()[:-100], InvalidContent, id="a photo cut off"),
        pytest.param(encoded(drawing(2_000, 2_000), quality=1), InvalidContent, id="too many pixels"),
        pytest.param(photo() + bytes(100_000), BodyTooLarge, id="too large a photo"),
        pytest.param(mp4() + bytes(200_000), BodyTooLarge, id="too large a video"),
    ],
)
def test_a_file_that_cannot_be_shown_is_refused_and_leaves_nothing(
    run: Run, scene: UploadScene, data: bytes, error: type[Exception]
) -> None:
    assert run(answer(upload(scene, ALICE, data))) is error
    assert scene.files() == set()
    assert scene.records.records == {}


def test_a_refusal_names_what_the_file_is() -> None:
    for data, name in ((b"%PDF-1.7", "application/pdf"), (b"PK\3\4" + bytes(40), "application/zip")):
        with pytest.raises(InvalidContent, match=name):
            library.sniff(data)


def test_a_deactivated_user_uploads_and_describes_nothing_and_a_text_has_a_bound(run: Run, scene: UploadScene) -> None:
    made = run(upload(scene, ALICE, photo()))
    run(scene.graph.store.change_node(ALICE, state=State.ARCHIVED))
    for act in (upload(scene, ALICE, photo()), scene.media.describe(ALICE, made.id, "x")):
        assert run(answer(act)) is Forbidden
    run(scene.media.delete(ALICE, made.id))
    for text in ("x" * (ALT_TEXT_CHARS_MAX + 1), "\ud800"):
        assert run(answer(upload(scene, BOB, photo(), text))) is InvalidContent
    assert scene.files() == set()


def test_where_one_file_of_an_upload_cannot_be_written_its_others_are_removed(
    run: Run, scene: UploadScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    put, calls = scene.media.blobs.put, []

    async def second_fails(*args: Any) -> None:
        calls.append(args[0])
        if len(calls) == 2:
            raise StoreFull("no room")
        await put(*args)

    monkeypatch.setattr(scene.media.blobs, "put", second_fails)
    assert run(answer(upload(scene, ALICE, photo()))) is StoreFull
    assert len(calls) == 2
    assert (scene.files(), scene.records.records) == (set(), {})


def test_where_the_record_may_or_may_not_be_written_the_files_stay(
    run: Run, scene: UploadScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = scene.records.put

    async def answers_nothing(*args: Any, **conditions: Any) -> Any:
        await put(*args, **conditions)
        raise StoreUnavailable("written, but who knows")

    monkeypatch.setattr(scene.records, "put", answers_nothing)
    assert run(answer(upload(scene, ALICE, photo()))) is StoreUnavailable
    (record,) = scene.records.records.values()
    assert scene.files() == set(keys_of(read_media(record)))


# --- bounds --------------------------------------------------------------------------------------------------


def test_an_id_that_a_clock_gave_twice_does_not_overwrite_an_upload(
    run: Run, scene: UploadScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(upload(scene, ALICE, photo()))
    files = scene.files()
    monkeypatch.setattr(scene.posts.snowflakes, "next", lambda: first.id)
    assert run(answer(upload(scene, BOB, photo()))) is Overloaded
    assert run(scene.media.get(ALICE, first.id)) == first
    assert scene.files() == files


def test_decoding_does_not_block_the_event_loop_and_waits_for_a_free_thread(
    run: Run, make_scene: Callable[..., UploadScene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, check = make_scene(threads=1), library.check_upload
    started, begun, go_on = [], threading.Event(), threading.Event()

    def slow(*args: Any) -> Any:
        started.append(args)
        begun.set()
        assert go_on.wait(20), "the loop was blocked"
        return check(*args)

    monkeypatch.setattr(library, "check_upload", slow)

    async def both() -> list[Media]:
        tasks = [asyncio.create_task(upload(scene, ALICE, photo())) for _ in range(2)]
        assert await asyncio.to_thread(begun.wait, 20)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(started) == 1, "one thread decodes one image at a time"
        go_on.set()
        return await asyncio.gather(*tasks)

    assert len(run(both())) == 2


def test_uploads_beyond_the_limit_are_refused_at_once(make_scene: Callable[..., UploadScene]) -> None:
    media = make_scene(uploads_max=2).media
    with media.upload_slot(ALICE), pytest.raises(Overloaded), media.upload_slot(ALICE):
        pass  # half of the places are for other users
    with media.upload_slot(ALICE), media.upload_slot(BOB), pytest.raises(Overloaded), media.upload_slot(CAROL):
        pass
    with media.upload_slot(ALICE):
        pass


# --- owners --------------------------------------------------------------------------------------------------


def test_only_the_owner_and_the_app_see_change_and_delete(run: Run, scene: UploadScene) -> None:
    media = run(upload(scene, ALICE, photo()))
    for asked in (
        scene.media.get(BOB, media.id),
        scene.media.get(None, media.id),
        scene.media.describe(BOB, media.id, "mine"),
        scene.media.delete(BOB, media.id),
        scene.media.get(ALICE, 5),
        scene.media.describe(ALICE, NodeId(5), "x"),
        scene.media.delete(ALICE, NodeId(5)),
    ):
        assert run(answer(asked)) is MediaNotFound
    assert run(scene.media.get(SYSTEM, media.id)) == media
    assert run(scene.media.describe(ALICE, media.id, "a fox")).media.alt_text == "a fox"
    assert run(scene.media.get(ALICE, media.id)).alt_text == "a fox"
    assert run(answer(scene.media.describe(ALICE, media.id, "x" * 2_000))) is InvalidContent


def test_fields_that_a_newer_kith_added_to_media_stay_until_it_is_deleted(run: Run, scene: UploadScene) -> None:
    media, newer = run(upload(scene, ALICE, photo())), ["of a newer Kith", 7]
    stored = scene.records.records[RecordKind.MEDIA, media.id]
    data = msgspec.msgpack.encode([*msgspec.msgpack.decode(stored.data), *newer])
    run(scene.records.put([msgspec.structs.replace(stored, data=data, updated_at=stored.updated_at + 1)]))
    run(scene.media.describe(ALICE, media.id, "a fox"))
    assert msgspec.msgpack.decode(scene.records.records[RecordKind.MEDIA, media.id].data)[-2:] == newer
    assert run(scene.media.get(ALICE, media.id)).alt_text == "a fox"
    run(scene.media.delete(ALICE, media.id))
    assert msgspec.msgpack.decode(scene.records.records[RecordKind.MEDIA, media.id].data)[-2:] != newer


def test_deleted_media_is_gone_with_its_files_and_text(run: Run, scene: UploadScene) -> None:
    media = run(upload(scene, ALICE, photo(), "a secret that must not stay"))
    run(scene.media.delete(ALICE, media.id))
    assert scene.files() == set()
    assert run(scene.media.get_many([media.id])) == {}
    assert run(answer(scene.media.get(ALICE, media.id))) is MediaNotFound
    assert run(answer(scene.media.describe(ALICE, media.id, "x"))) is MediaNotFound
    assert b"secret" not in scene.records.records[RecordKind.MEDIA, media.id].data


def test_a_delete_that_failed_half_way_is_finished_by_repeating_it(
    run: Run, scene: UploadScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    media = run(upload(scene, ALICE, photo()))

    async def fails(*_: object) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(scene.media.blobs, "delete", fails)
        assert run(answer(scene.media.delete(ALICE, media.id))) is StoreUnavailable
    assert run(scene.media.get_many([media.id])) == {}, "the record goes first: it never points to a missing file"
    assert len(scene.files()) == 2
    run(scene.media.delete(ALICE, media.id))
    assert scene.files() == set()


# --- posts and profiles --------------------------------------------------------------------------------------


def test_a_post_shows_media_of_its_author_only_and_takes_its_type_from_them(run: Run, scene: UploadScene) -> None:
    image, film = run(upload(scene, ALICE, photo())), run(upload(scene, ALICE, mp4()))
    other = run(upload(scene, BOB, photo()))
    for media, kind in (((image.id,), "image"), ((film.id,), "video"), ((image.id, film.id), "video")):
        assert run(scene.posts.create(ALICE, Draft(media=media))).post.type == kind
        assert run(scene.posts.create(ALICE, Draft(kind, media=media))).post.media == media
    gone = run(upload(scene, ALICE, photo()))
    run(scene.media.delete(ALICE, gone.id))
    for draft in (
        Draft(media=(other.id,)),
        Draft(media=(5,)),
        Draft(media=(gone.id,)),
        Draft(media=(image.id, other.id)),
        Draft("video", media=(image.id,)),
        Draft("image", media=(film.id,)),
        Draft("text", "x", media=(image.id,)),
        Draft(media=tuple(range(21))),
    ):
        assert run(answer(scene.posts.create(ALICE, draft))) is InvalidContent


def test_an_edit_may_take_media_and_link_away_and_the_type_follows(run: Run, scene: UploadScene) -> None:
    image, film = run(upload(scene, ALICE, photo())), run(upload(scene, ALICE, mp4()))
    post = run(scene.posts.create(ALICE, Draft(text="hi", media=(image.id,), link="https://example.com/"))).post

    def edit(**changes: Any) -> Any:
        return run(scene.posts.edit(ALICE, NodeId(post.id), PostEdit(**changes))).post

    assert edit(text="ho").type == "image"
    assert (edit(link=None).type, edit(link="https://example.com/a").type) == ("image", "image")
    assert edit(media=(film.id,)).type == "video"
    assert edit(text="ha").type == "video"
    assert (edit(media=()).type, edit(link=None).type) == ("link", "text")
    assert edit(media=(image.id,)).type == "image"
    other = run(upload(scene, BOB, photo()))
    assert run(answer(scene.posts.edit(ALICE, NodeId(post.id), PostEdit(media=(other.id,))))) is InvalidContent


def test_an_avatar_is_an_image_of_the_user(run: Run, scene: UploadScene) -> None:
    mine, film = run(upload(scene, ALICE, photo())), run(upload(scene, ALICE, mp4()))
    other = run(upload(scene, BOB, photo()))
    for bad in (film.id, other.id, 5):
        assert run(answer(scene.profiles.change(ALICE, lambda _, bad=bad: Profile(avatar=bad)))) is InvalidContent  # type: ignore[misc]
    run(scene.profiles.change(ALICE, lambda _: Profile(avatar=mine.id)))
    run(scene.media.delete(ALICE, mine.id))
    kept = run(scene.profiles.change(ALICE, lambda old: Profile("Alice", avatar=old.avatar)))[0]
    assert kept.avatar == mine.id, "a change of something else does not fail on an image that is gone"


def test_files_are_found_only_while_their_record_and_owner_exist(run: Run, scene: UploadScene) -> None:
    kept, gone = run(upload(scene, ALICE, photo())), run(upload(scene, CAROL, photo()))
    stray = f"3f/{kept.id}-3f{'0' * 30}.jpg"
    (scene.folder / "3f").mkdir(exist_ok=True)
    (scene.folder / stray).write_bytes(b"what a crash left")
    assert {run(scene.media.locate(key)) for key in keys_of(kept)} == {scene.folder / key for key in keys_of(kept)}
    run(scene.graph.store.change_node(CAROL, state=State.REMOVED))
    for viewer in (SYSTEM, CAROL):
        assert run(answer(scene.media.get(viewer, gone.id))) is MediaNotFound
    assert run(answer(scene.media.describe(CAROL, gone.id, "again"))) is Forbidden
    for key in [*keys_of(gone), stray, "3f/notes.txt"]:
        assert run(answer(scene.media.locate(key))) is MediaNotFound
    run(scene.media.delete(ALICE, kept.id))
    for key in keys_of(kept):
        (scene.folder / key).write_bytes(b"as if it were not removed yet")
        assert run(answer(scene.media.locate(key))) is MediaNotFound


# --- the sweep -----------------------------------------------------------------------------------------------


def test_a_sweep_removes_old_files_that_no_record_names(run: Run, scene: UploadScene) -> None:
    kept = [run(upload(scene, owner, photo())) for owner in (ALICE, BOB)] + [run(upload(scene, ALICE, mp4()))]
    removed = run(upload(scene, CAROL, photo(), "me at home"))
    run(scene.graph.store.change_node(CAROL, state=State.REMOVED))
    stray = [f"3f/{one}-3f{'0' * 30}{end}" for one, end in ((kept[0].id, ".jpg"), (99, ".jpg"), (99, ".mp4#1"))]
    theirs = {"reports/2026-q3.pdf", "3f/notes.txt", f"3f/{10**23}-x.jpg", f"3f/{10**19 - 1}-3f{'0' * 30}.jpg"}
    for key in [*stray, *theirs]:
        (scene.folder / key).parent.mkdir(exist_ok=True)
        (scene.folder / key).write_bytes(b"12345")
    newest_ms = max(int(file.stat().st_mtime * 1000) for file in scene.folder.rglob("*.*"))
    assert run(scene.media.sweep(newest_ms - 1_000, remove=True)).orphans == 0, "their records may not be written yet"
    found = run(scene.media.sweep(newest_ms + ORPHAN_AGE_MIN_MS + 1, remove=False))
    assert (found.files, found.orphans) == (10, 5)
    assert found.orphan_bytes == 3 * 5 + sum((scene.folder / key).stat().st_size for key in keys_of(removed))
    assert run(scene.media.sweep(FAR_MS, remove=True)) == found
    assert scene.files() == {key for media in kept for key in keys_of(media)} | theirs, (
        "files of others in the folder stay"
    )
    assert run(scene.media.sweep(FAR_MS, remove=True)).orphans == 0
    (record,) = run(scene.records.get_many(RecordKind.MEDIA, [removed.id]))
    assert record is not None
    assert (read_media(record).alt_text, read_media(record).deleted) == ("", True)
