"""Circuit breakers: a failing host is left alone, then one call tries it, and each failed try lengthens its rest."""

from __future__ import annotations

import pytest

from kith.outbound import circuits
from kith.outbound.circuits import OPEN_AFTER, REST_S, REST_S_MAX, Circuits
from kith.outbound.errors import SendFailed, SendFault


class Scene:
    """Circuits with a fake clock."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.circuits = Circuits(lambda: self.now_s)

    def call(self, *, failed: bool | None, host: str = "app") -> None:
        with self.circuits.permit(host) as passed:
            passed.failed = failed

    def fail(self, times: int = OPEN_AFTER) -> None:
        for _ in range(times):
            self.call(failed=True)

    def rests_s(self, host: str = "app") -> float:
        """Seconds for which the host is left alone."""
        try:
            with self.circuits.permit(host):
                return 0.0
        except SendFailed as error:
            return error.retry_after_s if error.fault is SendFault.RESTING else -1.0


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_host_rests_after_failures_in_a_row_and_other_hosts_do_not(scene: Scene) -> None:
    scene.fail(OPEN_AFTER - 1)
    assert scene.rests_s() == 0
    scene.fail(1)
    assert scene.rests_s() == REST_S
    assert scene.rests_s("neighbour") == 0


def test_one_success_closes_the_circuit(scene: Scene) -> None:
    scene.fail(OPEN_AFTER - 1)
    scene.call(failed=False)
    scene.fail(OPEN_AFTER - 1)
    assert scene.rests_s() == 0


def test_after_its_rest_one_call_tries_the_host_and_others_wait(scene: Scene) -> None:
    scene.fail()
    scene.now_s = REST_S
    with scene.circuits.permit("app") as passed:
        assert scene.rests_s() > 0
        passed.failed = False
    assert scene.rests_s() == 0


def test_each_failed_try_doubles_the_rest_up_to_a_bound(scene: Scene) -> None:
    scene.fail()
    rests = []
    for _ in range(12):
        scene.now_s += scene.rests_s()
        scene.call(failed=True)
        rests.append(scene.rests_s())
    assert rests[:3] == [2 * REST_S, 4 * REST_S, 8 * REST_S]
    assert max(rests) == REST_S_MAX


def test_after_a_cancelled_try_another_call_may_try(scene: Scene) -> None:
    scene.fail()
    scene.now_s = REST_S
    scene.call(failed=None)
    assert scene.rests_s() == 0


def test_the_number_of_known_hosts_is_bounded(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuits, "HOSTS_MAX", 3)
    scene.fail()
    for number in range(3):
        scene.call(failed=True, host=f"host {number}")
    assert scene.rests_s() == 0
