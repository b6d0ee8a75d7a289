"""The `kith` command."""

from __future__ import annotations

from typing import Annotated

import typer

from kith import config, serving

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


@app.command()
def serve(
    data: Annotated[str | None, typer.Option(help="Data folder.")] = None,
    port: Annotated[int | None, typer.Option(help="Port.")] = None,
    workers: Annotated[int | None, typer.Option(help="API processes.")] = None,
    api_key: Annotated[str | None, typer.Option(help="A server key to let in.")] = None,
) -> None:
    """Serve the API."""
    settings = config.load({"data": data, "port": port, "workers": workers, "api_keys": [api_key] if api_key else None})
    key = serving.prepare(settings)
    if key:
        print("server key:", key)
    serving.run(settings)


@app.command()
def settings() -> None:
    """Settings."""
    for row in config.table(config.load()):
        print(row.name, row.value)


def main() -> None:
    app()
