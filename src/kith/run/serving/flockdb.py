"""Runs the process of FlockDB's door over a data folder, alone or beside `kith serve`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kith.access.policy import check_raw_write
from kith.core.clock import wall_ms
from kith.core.errors import BadRequest
from kith.core.stopping import stop
from kith.flockdb.calls import Calls
from kith.flockdb.door import ThriftDoor
from kith.flockdb.executes import Executes
from kith.flockdb.jobs import Jobs
from kith.http.sockets import listen_on
from kith.run import logs
from kith.run.config import Settings
from kith.run.opening.folders import serving
from kith.run.opening.wiring import open_stores
from kith.run.serving import processes


async def serve(
    settings: Settings, host: str, port: int, on_listening: Callable[[int, int], None], *, retry_dead: bool
) -> None:
    """Serve until a signal stops it. `on_listening` is called with the port and the number of dead jobs put back.

    Errors: BadRequest for graphs that cannot be served; Unavailable where nothing can listen there.
    """
    logs.configure(settings.log_level)
    graph_names = _graph_names(settings)
    stopping = asyncio.Event()
    for number in processes.stop_signals():
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    with serving(settings):
        async with open_stores(settings, "flockdb", on_fatal=processes.replace_process) as stores:
            executes = Executes(stores.graph)
            jobs = Jobs(stores.graph, executes, wall_ms)
            put_back = await jobs.retry_dead() if retry_dead else 0
            graphs = {number: stores.graph.graphs.number(graph) for number, graph in graph_names.items()}
            calls = Calls(stores.graph, graphs, jobs, executes, settings.select_ids_max, lambda: wall_ms() // 1000)
            door = ThriftDoor(calls)
            processes.spare_collections()
            accepting = listen_on(host, port, name_host="name with --host")
            server = await door.listen(accepting)
            job_task = asyncio.create_task(jobs.run(stores.leases))
            on_listening(server.sockets[0].getsockname()[1], put_back)
            await stopping.wait()
            server.close()
            await door.close()
            await stop(job_task)


def _graph_names(settings: Settings) -> dict[int, str]:
    """The graphs that clients may use, by their ids in FlockDB. Errors: BadRequest."""
    if not settings.flockdb_graphs:
        raise BadRequest(
            "name the graphs of your clients in the setting `flockdb_graphs`, such as `1=follows,2=blocks`"
        )
    names: dict[int, str] = {}
    for entry in settings.flockdb_graphs:
        number, _, graph = entry.partition("=")
        check_raw_write(graph)
        if int(number) in names:
            raise BadRequest(f"`flockdb_graphs` names graph {number} twice")
        names[int(number)] = graph
    return names
