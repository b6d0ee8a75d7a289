"""Compares the degree tails of generated follow graphs with real ones: a plot for docs/, and a table of tail exponents.

Run from anywhere: `python bench/degree_fit.py`. The real graphs are not part of the project; their folder is
KITH_DATA_SETS, or ../shared/data beside the project. For each real graph it generates one with as many users and edges
and the default exponents, and measures both alike. Degrees are divided by their mean, so that graphs of different
density share an axis. Nodes of degree 0 are left out, because two of the sets hold the lists of a few users only.

Sources: Slashdot Zoo, Leskovec et al. 2009; Higgs, De Domenico et al. 2013 (both SNAP); nostr-social-graph.
"""

from __future__ import annotations

import gzip
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from kith.commands.communities import Community, Ints, degree_tail, stream, tail_exponent

mpl.use("Agg")
from matplotlib import pyplot as plt

PROJECT = Path(__file__).resolve().parents[1]
PLOT = PROJECT / "docs" / "degree-tails.png"
GRAPHS = {
    "Slashdot": "slashdot/follows.txt.gz",
    "Higgs, lists of 5,395": "higgs/follows-slice.edgelist.gz",
    "Higgs, interactions": "higgs/interaction-follows.txt.gz",
    "Nostr, lists of 526": "nostr/follows.txt.gz",
}
COLOURS = ("#c0392b", "#2471a3", "#1e8449", "#8e44ad")


@dataclass(frozen=True)
class Degrees:
    """One graph: its users, edges, and the degrees above zero on each side."""

    users: int
    edges: int
    sides: dict[str, Ints]


def main() -> int:
    """Draw and print. Status 2 if the data folder is missing."""
    folder = Path(os.environ.get("KITH_DATA_SETS", PROJECT.parent / "shared" / "data"))
    if not folder.is_dir():
        print("no data sets: name their folder with KITH_DATA_SETS", file=sys.stderr)
        return 2
    pairs = {}
    for name, path in GRAPHS.items():
        real = load(folder / path)
        pairs[name] = (real, generated(real))
    print_table(pairs)
    draw(pairs)
    print(f"drawn: {PLOT.relative_to(PROJECT)}, {PLOT.stat().st_size / 1000:.0f} KB")
    return 0


def load(path: Path) -> Degrees:
    """Distinct edges of a gzipped list `source destination ...`, without lines that begin with `#` and self-edges."""
    with gzip.open(path, "rt") as lines:
        table = np.loadtxt(lines, dtype=np.int64, comments="#", usecols=(0, 1))
    edges = np.unique(table[table[:, 0] != table[:, 1]], axis=0)
    return Degrees(
        users=np.unique(edges).size,
        edges=len(edges),
        sides={side: np.unique(edges[:, column], return_counts=True)[1] for side, column in (("out", 0), ("in", 1))},
    )


def generated(like: Degrees) -> Degrees:
    """A generated graph of the same number of users and edges."""
    totals = np.zeros((2, like.users + 1), dtype=np.int64)
    for chunk in stream(Community(users=like.users, edges=like.edges)):
        for column in (0, 1):
            totals[column] += np.bincount(chunk[:, column], minlength=like.users + 1)
    sides = {"out": totals[0][totals[0] > 0], "in": totals[1][totals[1] > 0]}
    return Degrees(users=like.users, edges=int(totals[0].sum()), sides=sides)


def print_table(pairs: dict[str, tuple[Degrees, Degrees]]) -> None:
    """Hill's exponent at the top 10%, 1% and 0.1%, and the largest degree over the mean."""
    print(f"{'graph':24}{'side':5}{'':11}{'nodes':>8}{'mean':>8}{'max':>8}{'top 10%':>9}{'1%':>7}{'0.1%':>7}")
    for name, pair in pairs.items():
        for side in ("out", "in"):
            for kind, graph in zip(("real", "generated"), pair, strict=True):
                degrees = graph.sides[side]
                tails = [tail_exponent(degrees, share) for share in (0.1, 0.01, 0.001)]
                print(
                    f"{name:24}{side:5}{kind:11}{degrees.size:8}{degrees.mean():8.1f}{degrees.max():8}"
                    f"{tails[0]:9.2f}{tails[1]:7.2f}{tails[2]:7.2f}"
                )


def draw(pairs: dict[str, tuple[Degrees, Degrees]]) -> None:
    """Draw two panels, follows and followers. Dots are real graphs, lines generated ones, in one colour per graph."""
    figure, panels = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, dpi=80)
    for panel, side, title in zip(
        panels, ("out", "in"), ("Following (out-degree)", "Followers (in-degree)"), strict=True
    ):
        for colour, (name, (real, copy)) in zip(COLOURS, pairs.items(), strict=True):
            panel.plot(*curve(real.sides[side]), ".", color=colour, markersize=3.5, label=name)
            panel.plot(*curve(copy.sides[side]), "-", color=colour, linewidth=1)
        panel.set(xscale="log", yscale="log", title=title, xlabel="degree / mean degree", ylim=(1e-6, 1.5))
        panel.grid(alpha=0.25)
    panels[0].set_ylabel("share of nodes with as many or more")
    panels[0].legend(fontsize=8, loc="lower left", title="dots: real, lines: generated", title_fontsize=8)
    figure.tight_layout()
    figure.savefig(PLOT, metadata={"Software": None})
    plt.close(figure)


def curve(degrees: Ints) -> tuple[Any, Any]:
    """CCDF over degree / mean, thinned to about 100 points evenly spread on a log axis."""
    values, shares = degree_tail(degrees)
    wanted = np.geomspace(values[0], values[-1], 100)
    kept = np.unique(np.searchsorted(values, wanted).clip(max=values.size - 1))
    return values[kept] / degrees.mean(), shares[kept]


if __name__ == "__main__":
    sys.exit(main())
