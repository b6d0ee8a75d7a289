"""Push messages byte by byte, and the meaning of the providers' answers. No I/O."""

from __future__ import annotations

import base64
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from push_world import CONTACT, Browser, apns_key, opened

from kith.core.errors import BadRequest, InvalidContent
from kith.core.ids import EPOCH_MS, TIME_SHIFT
from kith.notifications.notice import Notice, NoticeDraft, notice_from
from kith.notifications.push import apns, fcm
from kith.notifications.push.device import token_address, webpush_address
from kith.notifications.push.message import BODY_CHARS_MAX, TTL_MS, PushMessage, fitting, message_of
from kith.notifications.push.provider import Verdict, usual
from kith.notifications.push.vapid import SIGNED_AGAIN_S, SIGNED_S, Vapid, encoded, point_of
from kith.notifications.push.webpush import PLAIN_BYTES_MAX, RECORD_BYTES, encrypted
from kith.outbound.outbound import Answer
from kith.run.config import Settings
from kith.run.push_keys import push_keys
from kith.run.serving import supervisor

AT_MS = EPOCH_MS + 1_000_000_000
SECRET = b"a secret only for tests, 32 bytes"


def notice(type_: Any = "mention", *, recipient: int = 1, comment: int | None = None) -> Notice:
    return notice_from((AT_MS - EPOCH_MS) << TIME_SHIFT, NoticeDraft(type_, 2, recipient, AT_MS, 5, comment))


def bits(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def private(text: str) -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(int.from_bytes(bits(text), "big"), ec.SECP256R1())


# The example of RFC 8291, section 5 and appendix A.
RFC_PLAIN = b"When I grow up, I want to be a watermelon"
RFC_THEIRS, RFC_AUTH = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94", "BTBZMqHH6r4Tts7J_aSIgg"
RFC_OURS, RFC_SALT = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw", "DGv6ra1nlYgDCS1FRnbzlw"
RFC_BODY = (
    "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIg"
    "Dll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
)


def test_the_example_of_rfc_8291_gives_its_bytes_and_a_second_implementation_decrypts_it() -> None:
    key, auth = private(RFC_THEIRS), bits(RFC_AUTH)
    body = encrypted(RFC_PLAIN, point_of(key), auth, private(RFC_OURS), bits(RFC_SALT))
    assert encoded(body) == RFC_BODY
    assert opened(body, key, auth) == RFC_PLAIN


def test_a_message_of_the_greatest_length_is_one_record_with_fresh_salt_and_key() -> None:
    browser = Browser("x")
    plain = b"x" * PLAIN_BYTES_MAX
    first, second = (encrypted(plain, point_of(browser.key), browser.auth) for _ in range(2))
    assert len(first) == len(second) == RECORD_BYTES
    assert first[:16] != second[:16]
    assert first[21:86] != second[21:86]
    assert opened(first, browser.key, browser.auth) == opened(second, browser.key, browser.auth) == plain


def test_a_vapid_signature_is_for_one_push_service_and_a_limited_time() -> None:
    vapid = Vapid(SECRET, CONTACT)
    header = vapid.header("https://push.example", 1_000_000)
    token, key = (part.split("=", 1)[1] for part in header.removeprefix("vapid ").split(", "))
    assert key == vapid.public == Vapid(SECRET, "mailto:another").public
    public = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bits(key))
    options = {"verify_exp": False, "verify_aud": True}
    claims = jwt.decode(token, public, ["ES256"], audience="https://push.example", options=options)  # type: ignore[arg-type]
    assert (claims["sub"], claims["exp"]) == (CONTACT, 1_000_000 + SIGNED_S)
    assert vapid.header("https://push.example", 1_000_000 + SIGNED_AGAIN_S - 1) == header
    assert vapid.header("https://push.example", 1_000_000 + SIGNED_AGAIN_S) != header
    assert vapid.header("https://push.example", 999_999) != header, "after the clock was put back"
    assert vapid.header("https://other.example", 1_000_000) != header


@pytest.mark.parametrize(
    ("told", "title"),
    [
        (notice("like"), "Bob liked your post"), (notice("like", comment=6), "Bob liked your comment"),
        (notice("follow"), "Bob follows you"), (notice("follow_request"), "Bob wants to follow you"),
        (notice("mention"), "Bob mentioned you"), (notice("mention", recipient=9), "Bob mentioned Ann"),
    ],
)  # fmt: skip
def test_a_title_says_who_did_what(told: Notice, title: str) -> None:
    assert message_of(told, 1, "Bob", "Ann", "").title == title


def test_names_and_texts_are_truncated_and_on_one_line() -> None:
    message = message_of(notice("mention", recipient=9), 1, "", "x\ny" * 100, "a\r\n\u2028b" + "c" * 999)
    assert message.title.startswith("Somebody mentioned x yx y")
    assert len(message.title) < 130
    assert message.body.startswith("a bccc")
    assert (len(message.body), message.body[-1]) == (BODY_CHARS_MAX, "…")


@pytest.mark.parametrize("text", ["short", "x" * 9_000, "\U0001f600" * 9_000, '"\\\x01' * 3_000, ""])
@pytest.mark.parametrize("bytes_max", [400, 1_000, PLAIN_BYTES_MAX])
def test_a_message_is_truncated_to_fit_and_no_further(text: str, bytes_max: int) -> None:
    message = PushMessage(notice(), "Bob mentioned you", text)
    said = fitting(lambda one: {"parts": one.parts, "body": one.body}, message, bytes_max)
    assert len(said) <= bytes_max
    body = json.loads(said)["body"]
    assert body == text or body == "" or (body[-1] == "…" and len(said) > bytes_max - 40)


def test_a_message_expires_after_a_day() -> None:
    message = PushMessage(notice(), "", "")
    assert message.ttl_s(AT_MS) == TTL_MS // 1000
    assert message.ttl_s(AT_MS + TTL_MS - 1) == 0
    assert [PushMessage(notice(kind), "", "").urgency for kind in ("mention", "like")] == ["high", "normal"]


@pytest.mark.parametrize(
    ("status", "what", "again"),
    [(200, "taken", False), (201, "taken", False), (202, "taken", False), (204, "taken", False),
     (301, "fault", False), (400, "fault", False), (401, "fault", True), (403, "fault", True), (404, "fault", False),
     (405, "fault", False), (413, "fault", False), (408, "later", False), (429, "later", False),
     (500, "later", False), (502, "later", False), (503, "later", False), (504, "later", False)],
)  # fmt: skip
def test_every_status_has_a_verdict(status: int, what: str, again: bool) -> None:
    verdict = usual("push.example", Answer(status, {}, b"", 7.0))
    assert (verdict.what, verdict.again) == (what, again)
    assert verdict.whole == (status >= 500)
    assert (verdict.wait_s == 7.0) == (what == "later")


def verdict_of(provider: str, status: int, body: str) -> Verdict:
    answer = Answer(status, {}, body.encode("latin-1"), 0.0)
    return fcm.verdict_of("fcm.example", answer) if provider == "fcm" else apns.verdict_of("apns.example", answer, 50)


@pytest.mark.parametrize(
    ("provider", "status", "body", "what", "whole"),
    [
        ("apns", 410, '{"reason": "Unregistered", "timestamp": 50}', "gone", False),
        ("apns", 410, '{"reason": "Unregistered", "timestamp": 49}', "later", False),
        ("apns", 410, '{"reason": "ExpiredToken"}', "gone", False), ("apns", 410, "no json", "gone", False),
        ("apns", 400, '{"reason": "BadDeviceToken"}', "fault", False),
        ("apns", 404, '{"reason": "BadPath"}', "fault", False),
        ("apns", 403, '{"reason": "InvalidProviderToken"}', "fault", True),
        ("apns", 403, '{"reason": "ExpiredProviderToken"}', "later", False),
        ("apns", 429, '{"reason": "TooManyRequests"}', "later", False),
        ("apns", 429, '{"reason": "TooManyProviderTokenUpdates"}', "later", True),
        ("fcm", 404, '{"error": {"status": "NOT_FOUND", "details": [{"errorCode": "UNREGISTERED"}]}}', "gone", False),
        ("fcm", 404, '{"error": {"status": "NOT_FOUND"}}', "fault", False), ("fcm", 404, "<html>", "fault", False),
        ("fcm", 403, '{"error": {"details": [{"errorCode": "SENDER_ID_MISMATCH"}]}}', "fault", False),
        ("fcm", 401, '{"error": {"status": "UNAUTHENTICATED"}}', "fault", True),
        ("fcm", 429, '{"error": {"details": [{"@type": "x"}, {"errorCode": "QUOTA_EXCEEDED"}]}}', "later", True),
        ("fcm", 400, '{"error": {"status": "INVALID_ARGUMENT", "details": []}}', "fault", False),
        ("apns", 503, '{"reason": "\xe4"}', "later", True),
        ("fcm", 503, '{"error": {"status": "\xe4"}}', "later", True),
    ],
)  # fmt: skip
def test_each_error_of_a_provider_concerns_the_device_or_all_our_requests(
    provider: str, status: int, body: str, what: str, whole: bool
) -> None:
    verdict = verdict_of(provider, status, body)
    assert (verdict.what, verdict.whole) == (what, whole)
    if provider == "fcm" and status == 429:
        assert verdict.wait_s == fcm.QUOTA_WAIT_S


KEYS = ("BEl62iUYgUivxIkv69yViEuiBIa-Ib9-SkvMeAtA3LFgDzkrxZJjSgSnfckjBJuBkr3qBUYIHBQFLXYp5Nksh8U", RFC_AUTH)
GOOGLE = "https://fcm.googleapis.com/fcm/send/x"


def test_an_endpoint_at_a_known_push_service_is_accepted() -> None:
    hosts = Settings().webpush_hosts
    assert webpush_address(GOOGLE, *KEYS, hosts).endpoint == GOOGLE
    assert webpush_address("https://updates.push.services.mozilla.com/w/x", KEYS[0] + "=", KEYS[1] + "==", hosts)
    assert webpush_address("https://fcm.googleapis.com:443/x", *KEYS, hosts)
    for scheme in ("http", "https"):
        assert webpush_address(f"{scheme}://push.example:8080/x", *KEYS, ["push.example:8080"])


@pytest.mark.parametrize(
    ("endpoint", "key", "auth"),
    [("https://evil.example/x", *KEYS), ("https://evilpush.apple.com/x", *KEYS), ("http://10.0.0.1/x", *KEYS),
     ("https://fcm.googleapis.com:8443/x", *KEYS), ("http://fcm.googleapis.com/x", *KEYS),
     ("http://fcm.googleapis.com:443/x", *KEYS),
     ("ftp://fcm.googleapis.com/x", *KEYS), ("https://a:b@fcm.googleapis.com/", *KEYS), ("", *KEYS),
     (GOOGLE, KEYS[0], "short"), (GOOGLE, KEYS[0], ""), (GOOGLE, "", KEYS[1]), (GOOGLE, KEYS[0][:-2], KEYS[1]),
     (GOOGLE, "B" + "A" * 86, KEYS[1]), (GOOGLE, "é", KEYS[1])],
)  # fmt: skip
def test_a_bad_browser_endpoint_or_key_is_refused(endpoint: str, key: str, auth: str) -> None:
    with pytest.raises(InvalidContent):
        webpush_address(endpoint, key, auth, Settings().webpush_hosts)


@pytest.mark.parametrize(
    ("kind", "token", "sandbox"),
    [("apns", "", False), ("apns", "xyz" * 22, False), ("apns", "../" + "a" * 62, False), ("apns", "a" * 63, False),
     ("fcm", "", False), ("fcm", "a b" * 20, False), ("fcm", "a" * 1_001, False), ("fcm", "a" * 100, True)],
)  # fmt: skip
def test_a_bad_device_token_is_refused(kind: Any, token: str, sandbox: bool) -> None:
    with pytest.raises(InvalidContent):
        token_address(kind, token, sandbox=sandbox)


def test_an_unusable_key_file_is_refused_at_the_start_and_named_with_its_source(tmp_path: Any) -> None:
    settings = Settings(data=str(tmp_path / "data"), apns_key_file="none.p8", apns_key_id="K", apns_team_id="T")
    with pytest.raises(BadRequest, match=r"^apns_key_file, of kith\.toml, needs apns_topic"):
        supervisor.prepare(settings, sources={"apns_key_file": "kith.toml"})
    settings = Settings(data=str(tmp_path / "data"), fcm_account_file="none.json")
    with pytest.raises(BadRequest, match=r"^fcm_account_file cannot be read \(none\.json: No such file"):
        supervisor.prepare(settings)
    assert not (tmp_path / "data").exists()


def test_keys_are_read_from_files_and_errors_do_not_show_them(tmp_path: Any) -> None:
    assert push_keys(Settings(), SECRET).offer(()).kinds == frozenset()
    file = tmp_path / "key.p8"
    file.write_text(apns_key().pem)
    names = {"apns_key_file": str(file), "apns_key_id": "K", "apns_team_id": "T"}
    with pytest.raises(BadRequest, match="apns_topic"):
        push_keys(Settings(**names), SECRET)
    made = push_keys(Settings(**names, apns_topic="x", webpush_contact=CONTACT), SECRET)
    assert made.offer(()).kinds == {"apns", "webpush"}
    for wrong in ({"fcm_account_file": str(file)}, {"fcm_account_file": str(tmp_path / "none")}):
        with pytest.raises(BadRequest, match="fcm_account_file") as refused:
            push_keys(Settings(**wrong), SECRET)
        assert apns_key().pem[40:80] not in refused.value.message
    file.write_text("-----BEGIN PRIVATE KEY-----\nabcdefgh\n-----END PRIVATE KEY-----")
    with pytest.raises(BadRequest, match="no key") as refused:
        push_keys(Settings(**names, apns_topic="x"), SECRET)
    assert "abcdefgh" not in refused.value.message
