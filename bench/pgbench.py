"""LinkBench's mix on PostgreSQL, driven by pgbench in C: prepared statements, one per request, default durability.

Nodes have consecutive numbers, profiles first, so that pgbench can draw them. `picks` numbers the existing follows, for
requests about one of them: these, a ninth of the mix, take one more lookup by primary key.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench import postgresql
from bench.figures import SECONDS
from bench.mix import Cast
from bench.routes import PAGE
from bench.town import Town, name_of, text_of

_TABLES = """
create table nodes (
    id bigserial primary key, kind smallint not null, author bigint, version int not null default 0,
    at timestamptz not null default now(), data text not null
);
create table links (
    source bigint, destination bigint, state smallint not null default 0, position bigint not null,
    version int not null default 0, primary key (source, destination)
);
create table outs (id bigint primary key, n bigint not null);
create table ins (id bigint primary key, n bigint not null);
create table picks (n bigint primary key, source bigint not null, destination bigint not null);
create sequence doomed minvalue 0
"""
_FILLED = """
create index on links (source, position desc, destination desc);
create index on links (destination, position desc, source desc);
insert into outs select source, count(*) from links group by source;
insert into ins select destination, count(*) from links group by destination;
select setval('nodes_id_seq', (select max(id) from nodes));
"""
_POSITION = 1_700_000_000_000
_SCRIPTS = {
    "list links": """
\\set id random(0, {users} - 1)
select source, position from links where destination = :id order by position desc, source desc limit {page};
""",
    "count links": """
\\set id random(0, {users} - 1)
select n from ins where id = :id;
""",
    "get link": """
\\set n random({dropped_follows}, {follows} - 1)
select l.source, l.destination, state, position, version from picks p join links l using (source, destination)
where p.n = :n;
""",
    "get node": """
\\set id random(0, {nodes} - 1)
select id, kind, author, version, at, data from nodes where id = :id;
""",
    "add link": """
\\set source random(0, {users} - 1)
\\set destination random(0, {users} - 1)
with added as (
    insert into links (source, destination, position)
    values (:source, :destination, (extract(epoch from now()) * 1000)::bigint)
    on conflict do nothing returning source, destination
), one as (
    insert into outs (id, n) select source, 1 from added on conflict (id) do update set n = outs.n + 1
)
insert into ins (id, n) select destination, 1 from added on conflict (id) do update set n = ins.n + 1;
""",
    "update link": """
\\set n random({dropped_follows}, {follows} - 1)
\\set later random(1, 1000000000)
update links l set position = {position} + :later, version = l.version + 1 from picks p
where p.n = :n and l.source = p.source and l.destination = p.destination;
""",
    "delete link": """
\\set n random(0, {dropped_follows} - 1)
with gone as (
    delete from links l using picks p where p.n = :n and l.source = p.source and l.destination = p.destination
    returning l.source, l.destination
), one as (
    update outs set n = n - 1 where id = (select source from gone)
)
update ins set n = n - 1 where id = (select destination from gone);
""",
    "update node": """
\\set id random(0, {nodes} - 1)
\\set cup random(1, 1000000000)
update nodes set version = version + 1, data = 'the tide, again: ' || :cup where id = :id;
""",
    "add node": """
\\set author random(0, {users} - 1)
insert into nodes (kind, author, data) values (1, :author, 'a red boat, and nobody near it') returning id;
""",
    "delete node": """
delete from nodes where id = (select {nodes} + nextval('doomed') % {dropped_posts});
""",
}
_TPS = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
_FAILED = re.compile(r"number of failed transactions: (\d+)")


class Pgbench:
    """A filled database. `folder` holds a script for each kind of request."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port, self._folder = port, folder

    def rate(self, mix: Mapping[str, float], clients: int) -> float:
        """Requests a second of a mix. Errors: RuntimeError if one failed."""
        files = [f"--file={self._folder / name.replace(' ', '-')}.sql@{weight}" for name, weight in weights(mix)]
        command = ["pgbench", "--no-vacuum", "--protocol=prepared", f"--client={clients}", "--jobs=1"]
        command += [f"--time={max(1, round(SECONDS))}", *files, "--host=127.0.0.1", f"--port={self._port}"]
        command += ["--username=postgres", "postgres"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        rate, failed = _TPS.search(done.stdout), _FAILED.search(done.stdout)
        if done.returncode or rate is None or (failed is not None and int(failed[1])):
            raise RuntimeError(f"pgbench failed: {done.stdout}{done.stderr}")
        return float(rate[1])


def weights(mix: Mapping[str, float]) -> list[tuple[str, int]]:
    """Shares in tenths of a percent, as pgbench needs whole numbers."""
    return [(name, round(share * 10)) for name, share in mix.items()]


@contextlib.contextmanager
def filled(cast: Cast, at: Town) -> Iterator[Pgbench | None]:
    """PostgreSQL with the town in it; None if it is not installed."""
    if shutil.which("pgbench") is None:
        yield None
        return
    with postgresql.server() as port:
        if port is None:
            yield None
            return
        asyncio.run(_fill(port, cast, at))
        with tempfile.TemporaryDirectory(prefix="kith-bench-scripts-") as folder:
            for name, script in scripts(cast).items():
                (Path(folder) / f"{name.replace(' ', '-')}.sql").write_text(script)
            yield Pgbench(port, Path(folder))


def scripts(cast: Cast) -> dict[str, str]:
    """A script for each kind of request, by its name."""
    sizes: dict[str, Any] = {
        "users": cast.users, "page": PAGE, "position": _POSITION, "nodes": len(cast.profiles) + len(cast.kept_posts),
        "dropped_posts": len(cast.dropped_posts), "dropped_follows": len(cast.dropped_follows),
        "follows": len(cast.dropped_follows) + len(cast.kept_follows),
    }  # fmt: skip
    return {name: script.format(**sizes).lstrip() for name, script in _SCRIPTS.items()}


async def _fill(port: int, cast: Cast, at: Town) -> None:
    connection = await postgresql.connect(port)
    await connection.execute(_TABLES)
    follows = np.concatenate([cast.dropped_follows, cast.kept_follows])
    picks = [(n, source, destination) for n, (source, destination) in enumerate(follows.tolist())]
    await connection.copy_records_to_table("picks", records=picks)
    links = ((source, destination, _POSITION) for _, source, destination in picks)
    await connection.copy_records_to_table("links", records=links, columns=["source", "destination", "position"])
    profiles = [(n, 0, None, name_of(user)) for n, user in enumerate(cast.profiles.tolist())]
    posts = [*cast.kept_posts.tolist(), *cast.dropped_posts.tolist()]
    said = [(n, 1, author, text_of(post)) for n, (post, author) in enumerate(posts, len(profiles))]
    nodes = [*profiles, *said]
    await connection.copy_records_to_table("nodes", records=nodes, columns=["id", "kind", "author", "data"])
    await connection.execute(_FILLED)
    await connection.execute("vacuum analyze")
    await connection.close()
