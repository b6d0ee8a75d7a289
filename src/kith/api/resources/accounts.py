"""/users/{id}/deactivate, /users/{id}/reactivate, DELETE /users/{id}, and the background jobs that they start."""

from __future__ import annotations

import msgspec

from kith.access.policy import check_own
from kith.api.call import Call
from kith.api.operations import delete, get, post
from kith.api.parameters import Id
from kith.core.ids import NodeId
from kith.graph.node_jobs import Job, NodeJobs, NodeOperation
from kith.people.profiles import Profiles


class JobAnswer(msgspec.Struct, frozen=True, rename="camel"):
    """A bulk operation on all edges of a user, running in the background."""

    id: str
    operation: str
    user: str
    edges: int
    done: bool


class JobStarted(msgspec.Struct, frozen=True):
    """The job that was started; poll it at /jobs/{id}."""

    job: JobAnswer


class AccountsResource:
    """Deactivates, reactivates and removes accounts."""

    def __init__(self, jobs: NodeJobs, profiles: Profiles) -> None:
        self._jobs, self._profiles = jobs, profiles

    @post("/users/{user_id}/deactivate", "Archive all edges of a user", status=202)
    async def deactivate(self, call: Call, user_id: Id) -> JobStarted:
        """Runs in the background: the user's own lists empty, and the user disappears from the lists of others. An edge
        is restored once the accounts at both ends are active again.
        """
        return await self._start(call, NodeOperation.ARCHIVE, user_id)

    @post("/users/{user_id}/reactivate", "Restore all edges of a user", status=202)
    async def reactivate(self, call: Call, user_id: Id) -> JobStarted:
        """Undoes deactivate. Each edge returns to its old position."""
        return await self._start(call, NodeOperation.RESTORE, user_id)

    @delete("/users/{user_id}", "Remove all edges of a user", status=202)
    async def delete_user(self, call: Call, user_id: Id) -> JobStarted:
        """Permanent. The user no longer exists, and their profile is deleted."""
        started = await self._start(call, NodeOperation.REMOVE, user_id)
        await self._profiles.forget(user_id)  # only now, when no request can write the profile any more
        return started

    @get("/jobs/{job_id}", "The progress of a job")
    async def get_job(self, call: Call, job_id: str) -> JobAnswer:
        """For a server key, or for the user whose edges the job changes. A job is kept for a day after it is done."""
        job = await self._jobs.get(job_id)
        check_own(call.caller, NodeId(job.node))
        return _answer(job)

    async def _start(self, call: Call, operation: NodeOperation, user: NodeId) -> JobStarted:
        check_own(call.caller, user)
        return JobStarted(_answer(await self._jobs.start(operation, user)))


def _answer(job: Job) -> JobAnswer:
    return JobAnswer(job.id, job.operation.value, str(job.node), job.edges, job.done)
