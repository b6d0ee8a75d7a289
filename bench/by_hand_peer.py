"""Starts the hand-written service over a PostgreSQL that holds the town.

FastAPI, uvicorn, orjson and asyncpg are no dependencies of Kith. KITH_BENCH_PEERS_PYTHON names a Python that has them,
such as one in a separate virtual environment. If they are missing, the measure says so and skips this peer.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np

from bench import postgresql
from bench.figures import KEY, free_port, wait_for
from bench.mix import check_reads
from bench.town import Town, name_of, text_of

_PYTHON = os.environ.get("KITH_BENCH_PEERS_PYTHON", sys.executable)
_NEEDED = "asyncpg, fastapi, httptools, orjson, uvicorn, uvloop"
_POSITION = 1_700_000_000_000


@contextlib.contextmanager
def serving(at: Town) -> Iterator[int | None]:
    """The port of the service; None if its packages or PostgreSQL are not installed."""
    found = subprocess.run([_PYTHON, "-c", f"import {_NEEDED}"], check=False, capture_output=True, text=True)
    if found.returncode:
        print(
            f"by-hand: no peer, {_PYTHON} cannot import {_NEEDED}; KITH_BENCH_PEERS_PYTHON names one that can",
            file=sys.stderr,
        )
        yield None
        return
    with postgresql.server() as database:
        if database is None:
            yield None
            return
        asyncio.run(_fill(database, at))
        port = free_port()
        command = [
            _PYTHON,
            "-m",
            "uvicorn",
            "by_hand:app",
            "--app-dir",
            str(Path(__file__).parent),
            "--port",
            str(port),
        ]
        url = f"postgresql://postgres@127.0.0.1:{database}/postgres"
        process = subprocess.Popen(
            [*command, "--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"],
            env={**os.environ, "DATABASE_URL": url, "API_KEY": KEY, "PYTHONPATH": ""},
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/docs")
            headers = {"authorization": f"Bearer {KEY}", "x-kith-user": "1"}
            with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v1", headers=headers) as http:
                check_reads(http, at)
            yield port
        finally:
            process.terminate()
            process.wait()


def _schema() -> str:
    """SCHEMA of by_hand.py. It is read from the source, because importing it needs packages that Kith does not have."""
    for node in ast.parse((Path(__file__).parent / "by_hand.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SCHEMA":
            return str(ast.literal_eval(node.value))
    raise RuntimeError("by_hand.py has no SCHEMA")


async def _fill(port: int, at: Town) -> None:
    connection = await postgresql.connect(port)
    await connection.execute(_schema())
    following, followers = (np.bincount(at.edges[:, column], minlength=at.users).tolist() for column in (0, 1))
    named = set(at.profiles.tolist())
    users = [
        (user, f"person_{user}" if user in named else None, name_of(user) if user in named else "", *counts)
        for user, counts in enumerate(zip(following, followers, strict=True))
    ]
    columns = ["id", "username", "display_name", "following", "followers"]
    await connection.copy_records_to_table("users", records=users, columns=columns)
    posts = [(post, author, text_of(post)) for post, author in at.posts.tolist()]
    await connection.copy_records_to_table("posts", records=posts, columns=["id", "author", "text"])
    follows = ((source, destination, _POSITION) for source, destination in at.edges.tolist())
    await connection.copy_records_to_table("follows", records=follows, columns=["follower", "followee", "position"])
    await connection.execute("vacuum analyze")
    await connection.close()
