"""`kith generate`: writes a generated follow graph to a file; `communities` generates it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kith.commands import console
from kith.commands.communities import Community, stream
from kith.commands.console import say
from kith.commands.transfer.formats import EdgeFileWriter
from kith.core.errors import BadRequest

commands = typer.Typer()


@commands.command("generate")
def run_generate(
    file: Annotated[Path, typer.Argument(help="File to write; its name gives the format.")],
    users: Annotated[int, typer.Option(min=2, help="Number of users.")] = 100_000,
    edges: Annotated[int, typer.Option(min=1, help="Number of follows.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same graph.")] = 1,
    celebrity: Annotated[
        list[str] | None, typer.Option(help="A celebrity, as NAME=FOLLOWERS; may be repeated.")
    ] = None,
) -> None:
    """Generate a follow graph with heavy tails, of any size, in constant memory."""
    community = Community(users, edges, seed, dict(_celebrity(text) for text in celebrity or []))
    with console.counting("edges written") as progress, EdgeFileWriter(file) as writer:
        edges_written = 0
        for chunk in stream(community):
            writer.write(chunk)
            edges_written += len(chunk)
            progress(edges_written)
    names = "".join(f"; {name} is {id_}" for name, id_ in community.celebrity_ids.items())
    say(f"{edges_written:,} edges in {file}{names}")


def _celebrity(text: str) -> tuple[str, int]:
    name, _, followers = text.partition("=")
    if not (name and followers.isdecimal()):
        raise BadRequest(f"--celebrity takes NAME=FOLLOWERS, not {text!r}")
    return name, int(followers)
