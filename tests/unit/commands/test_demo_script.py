"""Names, texts, pictures and actions of the demo's users: fixed by the seed, and within the demo's bounds."""

from __future__ import annotations

import pytest
from pictures import decoded

from kith.client import EngagementUpdate, FeedReset, NewPost, NotificationMade, PostRemoved, UnreadChanged
from kith.commands.demo import pictures, script
from kith.commands.demo.activity import in_words
from kith.commands.demo.people import FANS_MAX, FOLLOWEES_MAX, Cast
from kith.commands.demo.words import Person, Words, person
from kith.media.images import picture_fingerprint
from kith.people.usernames import check_username
from kith.posts.post import Draft, check_draft

LARGEST = 2 + FOLLOWEES_MAX + FANS_MAX
ID_LONG = (1 << 63) - 1


def cast_of(size: int, *, silent: int | None = None) -> Cast:
    """A cast of this many users. The first `silent` of them (default: all) have not posted yet."""
    people = [person(100 + number, number, star=not number) for number in range(size)]
    return Cast(people[0], people[1], people[2:26], people[26:], people[:silent])


def posts_of(author: Person, written: script.DemoScript) -> int:
    return sum(thread.post.author == author for thread in written.posts)


# Names


def test_every_user_has_a_distinct_name_that_the_service_accepts() -> None:
    people = [person(ID_LONG - number, number, star=not number) for number in range(LARGEST)]
    assert len({one.name for one in people}) == len({one.username for one in people}) == LARGEST
    assert people[0].name.startswith("Dana ")
    for one in people:
        check_username(one.username)


def test_a_name_does_not_change() -> None:
    assert person(7, 0) == Person(7, "Alice Brook", "alice_7")
    assert person(7, 0, star=True) == Person(7, "Dana Brook", "dana_7")


# Texts


def test_a_seed_decides_the_texts() -> None:
    def texts_of(seed: int) -> list[str]:
        words = Words(seed)
        return [words.post(["bob_2"]), words.comment(), words.story(), words.bio(), words.post()]

    assert texts_of(1) == texts_of(1)
    assert texts_of(1) != texts_of(2)


def test_a_text_is_accepted_by_the_service_and_names_each_mentioned_user_once() -> None:
    words = Words(3)
    for _ in range(300):
        text = words.post(["bob_2", "carol_3"])
        check_draft(Draft(text=text))
        assert text.count("@bob_2") == text.count("@carol_3") == 1
        assert "{" not in text


def test_texts_seldom_repeat() -> None:
    words = Words(1)
    assert len({words.post() for _ in range(200)}) > 180


# Pictures


def test_a_picture_is_a_png_that_its_seed_decides() -> None:
    made = pictures.landscape(5)
    assert made[:4] == b"\x89PNG"
    assert decoded(made).size == pictures.SIZE
    assert made == pictures.landscape(5) != pictures.landscape(6)
    assert len(made) < 100_000


def test_no_two_pictures_have_one_fingerprint_or_the_feed_would_show_only_one() -> None:
    prints = [picture_fingerprint(decoded(pictures.landscape(seed))) for seed in range(100)]
    assert len(set(prints)) == 100


# Actions


def test_a_seed_decides_the_script() -> None:
    cast = cast_of(30)
    assert script.write(cast, 1) == script.write(cast, 1) != script.write(cast, 2)


@pytest.mark.parametrize("size", [2, 3, 10, LARGEST])
def test_everybody_posts_and_nobody_does_too_much(size: int) -> None:
    cast = cast_of(size)
    for seed in range(20):
        written = script.write(cast, seed)
        assert posts_of(cast.star, written) == script.STAR_POSTS
        assert all(1 <= posts_of(one, written) <= script.POSTS_EACH_MAX for one in cast.all[1:])
        assert sum(thread.post.picture is not None for thread in written.posts) <= script.PICTURES_MAX
        assert len({author for author, _ in written.stories}) <= script.STORIES_MAX
        for thread in written.posts:
            assert len(thread.liked_by) <= script.LIKES_MAX + 1, "the reader likes favourites as well"
            assert len(thread.comments) <= script.COMMENTS_MAX
            assert thread.post.author not in (*thread.liked_by, *thread.post.mentions)
            assert len(set(thread.liked_by)) == len(thread.liked_by)


def test_a_script_contains_the_whole_story() -> None:
    written = script.write(cast_of(LARGEST), 1)
    assert any(thread.post.mentions for thread in written.posts)
    assert any(thread.post.link for thread in written.posts)
    assert any(thread.post.picture is not None for thread in written.posts)
    assert any(reply.liked_by for thread in written.posts for reply in thread.comments)
    likes = sorted(len(thread.liked_by) for thread in written.posts)
    assert likes[len(likes) // 2] <= 3 < 10 <= likes[-1], "a few posts get most likes"


def test_a_user_who_has_posted_before_only_answers() -> None:
    cast = cast_of(10, silent=3)
    written = script.write(cast, 1)
    assert {thread.post.author for thread in written.posts} == set(cast.new)
    assert {author for author, _ in written.stories} <= set(cast.new)
    answering = {one for thread in written.posts for one in thread.liked_by}
    assert answering - set(cast.new)


# Events of a stream


def test_every_event_of_a_stream_is_shown_as_a_line() -> None:
    cast = cast_of(3)

    def line(event: object) -> str:
        return " ".join(in_words(event, cast.name, lambda post: f"post {post}").split())  # type: ignore[arg-type]

    assert line(NewPost(post_id=1, author_id=100, preview="Hi")) == "new_post Dana Brook: “Hi”"
    assert line(NewPost(post_id=1, author_id=9, preview="Hi")) == "new_post user 9: “Hi”"
    update = EngagementUpdate(post_id=1, like_count=1, comment_count=2, share_count=0, view_count=0)
    assert line(update) == "engagement_update post 1: 1 like, 2 comments"
    assert line(PostRemoved(post_id=1, reason="hidden")) == "post_removed post 1: hidden"
    told = NotificationMade(notification_id=9, kind="mention", actor_id=100, post_id=1)
    assert line(told) == "notification mention by Dana Brook (post 1)"
    assert line(UnreadChanged(count=2)) == "unread 2 notifications"
    assert line(FeedReset(reason="expired")) == "reset expired: load the feed anew"
