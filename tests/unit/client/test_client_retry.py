"""What is retried, when, and which error is raised in the end. The steps are driven by hand: no network, no clock."""

from __future__ import annotations

import pickle
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kith.client import ApiError, EdgeWrite, Retry, Unreachable, comments, graphs, operations, posts, stories, uploads
from kith.client.users import user
from kith.client.wire import CallPlan, Outcome, Request, Session, Wait

ALICE, BOB = 1, 2
YES = httpx.Response(200, json={"exists": True})
FOLLOWED = httpx.Response(200, json={"following": True, "changed": True, "token": "t"})
REFUSED = httpx.ConnectError("connection refused")
URL = "http://kith.example"


def no(status: int, retry_after: str | None = None) -> httpx.Response:
    error = {"code": "RATE_LIMITED", "message": "wait a little", "details": {"limit": 5}}
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return httpx.Response(status, json={"error": error}, headers=headers)


class Driver:
    """Answers each request of a plan with the next outcome; remembers requests and waits."""

    def __init__(self, *outcomes: Outcome, retry: Retry | None = None, random: float = 1.0) -> None:
        self.session = Session(URL, None, None, retry or Retry(), lambda: random)
        self.outcomes = list(outcomes)
        self.requests: list[Request] = []
        self.waits: list[float] = []

    def run(self, plan: CallPlan[Any]) -> Any:
        steps = self.session.steps(plan)
        outcome: Outcome = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as stop:
                return stop.value
            if isinstance(step, Wait):
                self.waits.append(step.seconds)
                outcome = None
            else:
                self.requests.append(step)
                outcome = self.outcomes.pop(0)


CHECK = graphs.exists("follows", ALICE, BOB)


@pytest.mark.parametrize("failure", [no(429), no(503), REFUSED, httpx.ReadTimeout("slow")], ids=str)
@pytest.mark.parametrize(("call", "success"), [(CHECK, YES), (graphs.follow(BOB), FOLLOWED)])
def test_a_read_or_an_idempotent_write_is_retried_until_it_is_answered(
    failure: Outcome, call: Any, success: httpx.Response
) -> None:
    driver = Driver(failure, failure, failure, success)
    assert driver.run(call) is not None
    assert driver.requests == [driver.requests[0]] * 4


OVERLOADED = httpx.Response(503, json={"error": {"code": "OVERLOADED", "message": "wait", "details": {}}})
GONE = httpx.Response(204)
UPLOAD = uploads.upload_media(b"x")


@pytest.mark.parametrize(
    "failure",
    [no(429), OVERLOADED, REFUSED, httpx.ConnectTimeout("slow"), httpx.PoolTimeout("busy")],
    ids=["429", "OVERLOADED", "refused", "connect", "pool"],
)
def test_a_request_that_is_not_idempotent_is_retried_if_it_was_not_started(failure: Outcome) -> None:
    driver = Driver(failure, failure, no(404))
    with pytest.raises(ApiError):
        driver.run(UPLOAD)
    assert driver.requests == [driver.requests[0]] * 3


@pytest.mark.parametrize("failure", [no(503), httpx.ReadTimeout("slow"), httpx.RemoteProtocolError("cut"),
                                     httpx.WriteError("cut")], ids=repr)  # fmt: skip
def test_a_request_that_is_not_idempotent_is_not_retried_if_it_may_have_been_done(failure: Outcome) -> None:
    driver = Driver(failure)
    with pytest.raises((ApiError, Unreachable)):
        driver.run(UPLOAD)
    assert driver.waits == []


@pytest.mark.parametrize("lost", [no(503), httpx.ReadTimeout("slow")], ids=["503", "timeout"])
@pytest.mark.parametrize(
    "call",
    [posts.delete_post(9), comments.delete_comment(9), stories.delete_story(9), uploads.delete_media(9)],
    ids=["post", "comment", "story", "media"],
)
def test_a_404_after_a_lost_answer_means_that_the_delete_worked(lost: Outcome, call: Any) -> None:
    assert Driver(lost, no(404)).run(call) is None
    assert Driver(GONE).run(call) is None


@pytest.mark.parametrize("failures", [[], [no(429)], [REFUSED], [OVERLOADED]], ids=["at once", "429", "off", "busy"])
def test_a_404_without_a_lost_answer_is_an_error(failures: list[Outcome]) -> None:
    with pytest.raises(ApiError, match="404"):
        Driver(*failures, no(404)).run(posts.delete_post(9))


def test_retries_of_a_post_carry_its_idempotency_key_and_another_post_has_its_own() -> None:
    driver = Driver(no(503), httpx.ReadTimeout("slow"), no(400), no(400))
    for _ in range(2):
        with pytest.raises(ApiError):
            driver.run(posts.create_post("hello"))
    first, *again, other = (request.headers["Idempotency-Key"] for request in driver.requests)
    assert again == [first] * 2
    assert other != first


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 500, 502, 302])
def test_other_answers_are_final_at_once(status: int) -> None:
    driver = Driver(no(status))
    with pytest.raises(ApiError) as caught:
        driver.run(CHECK)
    assert (caught.value.status, driver.waits) == (status, [])


def test_four_tries_are_made_and_the_last_refusal_is_raised() -> None:
    driver = Driver(no(503), no(503), no(503), no(429))
    with pytest.raises(ApiError) as caught:
        driver.run(CHECK)
    assert (caught.value.status, len(driver.waits), driver.outcomes) == (429, 3, [])


def test_without_an_answer_in_all_tries_the_service_is_unreachable() -> None:
    driver = Driver(*[REFUSED] * 2, retry=Retry(tries=2))
    with pytest.raises(Unreachable, match=r"http://kith\.example in 2 tries \(ConnectError: connection refused\)"):
        driver.run(CHECK)


def test_a_client_without_a_free_connection_says_so() -> None:
    with pytest.raises(Unreachable, match="each stream holds one"):
        Driver(httpx.PoolTimeout(""), retry=Retry(tries=1)).run(CHECK)


def test_a_single_try_is_reported_as_one() -> None:
    with pytest.raises(Unreachable, match=r"in 1 try \(ReadTimeout: slow\)"):
        Driver(httpx.ReadTimeout("slow")).run(UPLOAD)


def test_waits_double_with_each_try_up_to_the_cap() -> None:
    driver = Driver(*[REFUSED] * 5, YES, retry=Retry(tries=6, base_s=0.5, cap_s=3.0), random=1.0)
    driver.run(CHECK)
    assert driver.waits == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_jitter_spreads_a_wait_over_its_full_range() -> None:
    for random, wait_s in ((0.0, 0.0), (0.25, 0.05), (1.0, 0.2)):
        driver = Driver(no(503), YES, random=random)
        driver.run(CHECK)
        assert driver.waits == [wait_s]


def test_retry_after_is_the_minimum_wait() -> None:
    driver = Driver(no(429, "2"), no(503, "1.5"), YES, random=0.0)
    driver.run(CHECK)
    assert driver.waits == [2.0, 1.5]


def test_a_retry_after_beyond_the_cap_is_left_to_the_caller() -> None:
    driver = Driver(no(429, "60"))
    with pytest.raises(ApiError) as caught:
        driver.run(CHECK)
    assert (caught.value.retry_after_s, driver.waits) == (60.0, [])


@pytest.mark.parametrize("header", ["Wed, 21 Oct 2015 07:28:00 GMT", "nan", "inf", "-1", ""])
def test_a_retry_after_that_is_no_number_of_seconds_is_ignored(header: str) -> None:
    driver = Driver(no(503, header), YES)
    driver.run(CHECK)
    assert driver.waits == [0.2]


@given(
    failures=st.integers(1, 10_000),
    asked_s=st.none() | st.floats(0, 10),
    random=st.floats(0, 1),
    retry=st.builds(Retry, tries=st.integers(1, 10_000), base_s=st.floats(0, 10), cap_s=st.floats(0, 10)),
)
def test_no_wait_is_longer_than_the_cap_or_shorter_than_retry_after(
    failures: int, asked_s: float | None, random: float, retry: Retry
) -> None:
    wait_s = retry.wait_s(failures, asked_s, lambda: random)
    gives_up = failures >= retry.tries or (asked_s or 0) > retry.cap_s
    assert wait_s is None if gives_up else (asked_s or 0) <= wait_s <= retry.cap_s


def test_only_the_batch_that_failed_is_retried() -> None:
    first, second = (httpx.Response(200, json={"applied": n, "token": f"t{n}"}) for n in (1000, 1))
    driver = Driver(first, REFUSED, second)
    written = driver.run(graphs.write_edges("follows", (EdgeWrite("add", ALICE, n) for n in range(1001))))
    assert (written.applied, written.token) == (1001, "t1")
    assert driver.requests[1].content == driver.requests[2].content != driver.requests[0].content


def test_a_probe_retries_a_failed_connection_but_takes_not_ready_as_the_answer() -> None:
    driver = Driver(REFUSED, no(503))
    assert driver.run(operations.is_ready()) is False
    assert len(driver.requests) == 2


def test_a_refusal_carries_what_the_service_said() -> None:
    with pytest.raises(ApiError, match="409 RATE_LIMITED: wait a little") as caught:
        Driver(no(409)).run(CHECK)
    error = caught.value
    assert (error.status, error.code, error.details) == (409, "RATE_LIMITED", {"limit": 5})


@pytest.mark.parametrize("body", ["<html>Bad Gateway</html>", "", "[]", '{"error": "text"}'])
def test_a_refusal_by_a_proxy_is_named_by_its_status(body: str) -> None:
    with pytest.raises(ApiError, match="HTTP_502"):
        Driver(httpx.Response(502, text=body)).run(CHECK)


@pytest.mark.parametrize("body", ["<html>Welcome</html>", "", "{}", '{"exists": "perhaps"}', "\xff"])
def test_a_success_that_cannot_be_decoded_is_an_error(body: str) -> None:
    with pytest.raises(ApiError, match=r"INVALID_ANSWER: GET /api/v1/graph/follows/1/2"):
        Driver(httpx.Response(200, content=body.encode("latin-1"))).run(CHECK)


def test_answers_that_are_no_utf_8_are_errors_like_others_that_cannot_be_decoded() -> None:
    profile = b'{"id":"1","state":"normal","private":false,"followingCount":0,"followersCount":0,"bio":"\xff"}'
    with pytest.raises(ApiError, match="INVALID_ANSWER"):
        Driver(httpx.Response(200, content=profile)).run(user(1))
    with pytest.raises(ApiError, match="HTTP_502"):
        Driver(httpx.Response(502, content=b'{"error":{"code":"\xff","message":""}}')).run(CHECK)


def test_fewer_answers_than_pairs_are_an_error_and_not_shifted() -> None:
    with pytest.raises(ApiError, match="1 answers to 2 pairs"):
        Driver(httpx.Response(200, json={"exists": [True]})).run(
            graphs.exists_many("follows", [(ALICE, BOB), (BOB, ALICE)])
        )


@pytest.mark.parametrize(
    "error", [ApiError(429, "RATE_LIMITED", "wait", {"limit": 5}, 2.0), Unreachable(URL, 4, "ConnectError")]
)
def test_errors_survive_pickling(error: Exception) -> None:
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), str(copied), vars(copied)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("settings", [{"tries": 0}, {"base_s": -1.0}, {"cap_s": -1.0}])
def test_a_retry_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="tries >= 1"):
        Retry(**settings)
