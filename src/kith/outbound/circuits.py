"""A circuit breaker per host: after OPEN_AFTER failures in a row, a host rests; then a single request probes it.

So a host that is down takes no connections or time from other hosts, however many requests want to call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kith.outbound.errors import SendFailed, SendFault

OPEN_AFTER = 5
"""Failures in a row after which a host rests."""
REST_S, REST_S_MAX = 5.0, 300.0
"""How long a host rests, and the maximum; doubled with each further failure."""
HOSTS_MAX = 10_000
"""Failing hosts that are remembered; beyond that, the one that failed first is evicted."""
_PROBE_WAIT_S = 1.0
"""How long other requests are asked to wait while one probes the host."""
_DOUBLINGS_MAX = 10


class _Circuit:
    failures, until_s, probing = 0, 0.0, False


class CallPermit:
    """Permission to call a host. `failed`: the result, which the caller sets; None: unknown."""

    failed: bool | None = None


class Circuits:
    """The circuits of one process. `now_s`: a monotonic clock."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._failing: dict[str, _Circuit] = {}

    @contextmanager
    def permit(self, host: str) -> Iterator[CallPermit]:
        """Permission to call a host while the context is open.

        SendFailed while the host rests, or while another request probes it.
        """
        circuit = self._failing.get(host)
        if circuit is not None and circuit.failures >= OPEN_AFTER:
            rest_s = _PROBE_WAIT_S if circuit.probing else circuit.until_s - self._now_s()
            if rest_s > 0:
                raise SendFailed(
                    SendFault.RESTING, f"{host} failed {circuit.failures} times in a row, and rests", rest_s
                )
            circuit.probing = True
        permit = CallPermit()
        try:
            yield permit
        finally:
            if circuit is not None:
                circuit.probing = False
            if permit.failed is False:
                self._failing.pop(host, None)
            elif permit.failed:
                self._failed(host)

    def _failed(self, host: str) -> None:
        if host not in self._failing and len(self._failing) >= HOSTS_MAX:
            del self._failing[next(iter(self._failing))]
        circuit = self._failing.setdefault(host, _Circuit())
        circuit.failures += 1
        doublings = min(max(0, circuit.failures - OPEN_AFTER), _DOUBLINGS_MAX)
        circuit.until_s = self._now_s() + min(REST_S_MAX, REST_S * 2**doublings)
