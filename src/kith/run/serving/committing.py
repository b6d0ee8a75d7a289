"""Starts the committer of an API process: another process that commits its writes. See `engines.embedded.committer`."""

from __future__ import annotations

import signal
import socket

from kith.engines.embedded import committer
from kith.engines.embedded.committer import Committer, ReceivedJobs
from kith.run import logs
from kith.run.config import Settings
from kith.run.opening import one_machine
from kith.run.serving import processes


def start(settings: Settings, listening: socket.socket) -> Committer:
    """Fork the committer. Call it before this process has a thread or opens its store."""

    def commit(received: ReceivedJobs) -> None:
        listening.close()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends when its API process does
        processes.ignore_terminal()
        processes.name_process("committer")
        logs.configure(settings.log_level)
        if received.wait_for_first():
            processes.spare_collections()
            one_machine.commit_for(settings, "api", received)

    return committer.start(commit)
