"""What a notice says on a screen, and its encoding in bytes that fit. Pure.

The text is English. Its parts are sent beside it, so an app can show it in its own language.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import msgspec

from kith.core.ids import made_at_ms
from kith.notifications.notice import Notice, NoticeType

TTL_MS = 24 * 3_600_000
"""How long after it was made a notice may ring; then it is in the inbox only."""
NAME_CHARS_MAX, BODY_CHARS_MAX = 100, 300
UNNAMED = "Somebody"
_READ_FACTOR = 4
"""Characters of a text that are read for each one shown, because runs of white space shrink to one."""
_SAID: dict[NoticeType, str] = {
    "mention": "mentioned you",
    "comment": "commented on your post",
    "reply": "replied to you",
    "like": "liked your post",
    "share": "shared your post",
    "follow": "follows you",
    "follow_request": "wants to follow you",
    "follow_accepted": "accepted your request",
    "board_follow": "follows your board",
    "board_invite": "invited you to a board",
}
_URGENT = frozenset[NoticeType]({"mention", "comment", "reply", "follow_request", "board_invite"})
_encode = msgspec.json.Encoder().encode
Urgency = Literal["high", "normal"]


class PushMessage(NamedTuple):
    """What a device is sent. `title`: who did what; `body`: the beginning of the text that it is about, or ""."""

    notice: Notice
    title: str
    body: str

    @property
    def topic(self) -> str:
        """An id that a repeated message has too, so that it replaces the first one, in transit and on the screen."""
        return str(self.notice.id)

    @property
    def urgency(self) -> Urgency:
        """Whether a device should wake for it."""
        return "high" if self.notice.type in _URGENT else "normal"

    @property
    def parts(self) -> dict[str, str]:
        """What the message says, part by part, for apps that word it themselves."""
        notice = self.notice
        parts = {
            "id": str(notice.id), "type": notice.type, "actorId": str(notice.actor), "at": str(notice.at_ms),
            "mentionedId": str(notice.recipient) if notice.type == "mention" else "",
            "postId": "" if notice.post is None else str(notice.post),
            "commentId": "" if notice.comment is None else str(notice.comment),
            "boardId": "" if notice.board is None else str(notice.board),
        }  # fmt: skip
        return {name: value for name, value in parts.items() if value}

    def ttl_s(self, now_ms: int) -> int:
        """How much longer it may ring, in seconds."""
        return max(0, made_at_ms(self.notice.id) + TTL_MS - now_ms) // 1000


def message_of(notice: Notice, user: int, actor: str, mentioned: str, text: str) -> PushMessage:
    """What a notice says to `user`. `actor`, `mentioned`: names, "" for none; `text`: what it is about."""
    action = _SAID[notice.type]
    if notice.type == "mention" and notice.recipient != user:
        action = f"mentioned {_short(mentioned, NAME_CHARS_MAX) or UNNAMED}"
    elif notice.type == "like" and notice.comment is not None:
        action = "liked your comment"
    return PushMessage(notice, f"{_short(actor, NAME_CHARS_MAX) or UNNAMED} {action}", _short(text, BODY_CHARS_MAX))


def fitting(build: Callable[[PushMessage], Any], message: PushMessage, bytes_max: int) -> bytes:
    """What `build` makes of a message, as JSON of at most `bytes_max` bytes. The body is cut if it must be."""
    whole = _encode(build(message))
    if len(whole) <= bytes_max:
        return whole
    fits, over = 0, len(message.body)  # characters that fit; that do not
    while over - fits > 1:
        middle = (fits + over) // 2
        if len(_encode(build(_cut(message, middle)))) <= bytes_max:
            fits = middle
        else:
            over = middle
    return _encode(build(_cut(message, fits)))


def _cut(message: PushMessage, chars: int) -> PushMessage:
    return message._replace(body=_short(message.body, chars) if chars else "")


def _short(text: str, chars_max: int) -> str:
    """The beginning of a text, on one line."""
    flat = " ".join(text[: _READ_FACTOR * chars_max].split())
    return flat if len(flat) <= chars_max else flat[: chars_max - 1].rstrip() + "…"
