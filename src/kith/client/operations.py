"""Calls about the service itself: its jobs and its health. As in `graphs`, nothing is sent here."""

from __future__ import annotations

import re

from kith.client.answers import Job
from kith.client.asking import BASE, reader
from kith.client.wire import Call
from kith.core.errors import BadRequest

_JOB_ID = re.compile(r"[A-Za-z0-9_-]+")
_job = reader(Job)


def job(job_id: str) -> Call[Job]:
    """The progress of a job; ApiError 404 from a day after it is done."""
    if not _JOB_ID.fullmatch(job_id):
        raise BadRequest(f"{job_id!r} cannot be the id of a job", id=job_id)
    return Call("GET", f"{BASE}/jobs/{job_id}", _job)


def is_alive() -> Call[bool]:
    """Whether the process reports that it is healthy; Unreachable if nothing answers."""
    return Call("GET", "/healthz", lambda _: True, on_503=False)


def is_ready() -> Call[bool]:
    """Whether the service can serve requests now. "No" is a valid answer, so the call does not retry it."""
    return Call("GET", "/readyz", lambda _: True, on_503=False)
