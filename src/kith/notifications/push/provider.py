"""The port of a push provider, and what its answers mean for the device and for the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from kith.notifications.push.device import Device
from kith.notifications.push.message import PushMessage

if TYPE_CHECKING:
    from kith.outbound.outbound import Answer

REFUSED_PAUSE_S = 300.0
"""Pause after a provider refuses our credentials. An operator must repair them."""


class Verdict(NamedTuple):
    """What became of a message.

    `taken`: the provider has it. `gone`: the provider does not know the device any more. `later`: retry it. `fault`:
    the provider refuses what we sent, and a person must look; `again`: retry it even so. `wait_s`: the least pause
    before the retry; `whole`: the verdict holds for all devices of the lane, not only for this one. `error`: names no
    secret.
    """

    what: Literal["taken", "gone", "later", "fault"]
    error: str = ""
    wait_s: float = 0.0
    whole: bool = False
    again: bool = False


TAKEN, GONE = Verdict("taken"), Verdict("gone")


class Provider(Protocol):
    """One way to send. Errors of `send`: SendFailed."""

    def lane(self, device: Device) -> str:
        """The host that serves this device. The devices of one host fail together, and pause together."""
        ...

    async def send(self, device: Device, message: PushMessage, now_ms: int) -> Verdict:
        """Send a message to a device."""
        ...


def usual(host: str, answer: Answer, reason: str = "") -> Verdict:
    """What an answer means that says nothing of the device, by the statuses that all providers use alike."""
    status, error = answer.status, f"{host} answered {answer.status}" + (f", {reason}" if reason else "")
    if 200 <= status < 300:
        return TAKEN
    if status in (408, 429) or status >= 500:
        return Verdict("later", error, answer.retry_after_s, whole=status >= 500)
    if status in (401, 403):
        return Verdict("fault", error, REFUSED_PAUSE_S, again=True)
    return Verdict("fault", error)
