"""A set of edges that answers "surely not" or "maybe": a Bloom filter in blocks of 256 bits.

An edge sets one bit in each of the eight words of one block, so a lookup reads 32 bytes (Putze, Sanders and Singler,
Cache-, Hash- and Space-Efficient Bloom Filters, 2007; the layout is that of Apache Parquet). Edges can be added but not
removed: a removed edge stays a "maybe" until the filter is rebuilt.

The size follows from the number of edges and the share of false positives. With c bits per edge, the number of edges in
a block is Poisson(256/c). With i edges in a block, a bit is set with probability 1 - (31/32)^i, and all eight bits that
an absent edge checks with

    p(c) = sum over i of  e^(-256/c) (256/c)^i / i!  *  (1 - (31/32)^i)^8

So 1% takes 10.5 bits per edge, and 0.1% takes 16.9 (a filter without blocks: 9.6 and 14.4).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kith.graph.shapes import Ids

Hashes = NDArray[np.uint64]

BLOCK_BYTES, _WORDS = 32, 8
_BITS = BLOCK_BYTES * 8
_MASK_64, _MASK_32 = (1 << 64) - 1, (1 << 32) - 1
# Odd numbers with random-looking bits: multipliers for graph, source and destination, and two to mix their sum.
_GRAPH, _SOURCE, _DESTINATION = 0xD6E8FEB86659FD93, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
_MIX, _MIX_AGAIN = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_SALTS = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)


def false_positives(bits_an_edge: float) -> float:
    """The share of absent edges that a filter with this many bits per edge answers with "maybe"."""
    mean = _BITS / bits_an_edge
    chance, total = math.exp(-mean), 0.0
    for edges in range(1, int(mean + 20 * math.sqrt(mean)) + 50):
        chance *= mean / edges
        total += chance * (1 - (31 / 32) ** edges) ** _WORDS
    return total


@cache
def bits_an_edge(share: float) -> float:
    """How many bits per edge give this share of false positives."""
    low, high = 1.0, 256.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if false_positives(middle) > share else (low, middle)
    return high


def hash_of(graph: int, source: int, destination: int) -> int:
    """A 64-bit hash of an edge."""
    mixed = (graph * _GRAPH + source * _SOURCE + destination * _DESTINATION) & _MASK_64
    mixed = ((mixed ^ (mixed >> 30)) * _MIX) & _MASK_64
    mixed = ((mixed ^ (mixed >> 27)) * _MIX_AGAIN) & _MASK_64
    return mixed ^ (mixed >> 31)


def hashes_of(graph: int, sources: Ids, destinations: Ids) -> Hashes:
    """`hash_of` for many edges of one graph."""
    mixed = sources.astype(np.uint64) * np.uint64(_SOURCE) + destinations.astype(np.uint64) * np.uint64(_DESTINATION)
    mixed += np.uint64(graph * _GRAPH & _MASK_64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_MIX)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_MIX_AGAIN)
    hashes: Hashes = mixed ^ (mixed >> np.uint64(31))
    return hashes


class Filter:
    """Blocks of bits. `edges`: how many were added, repeated ones too."""

    def __init__(self, blocks: bytearray, edges: int = 0) -> None:
        self.blocks, self.edges = blocks, edges
        self._count = len(blocks) // BLOCK_BYTES

    @classmethod
    def sized(cls, edges: int, share: float) -> Filter:
        """An empty filter that has this share of false positives once it holds this many edges."""
        return cls(bytearray(max(1, math.ceil(edges * bits_an_edge(share) / _BITS)) * BLOCK_BYTES))

    @property
    def false_positives(self) -> float:
        """The share of absent edges that it answers with "maybe", by the formula."""
        return false_positives(len(self.blocks) * 8 / self.edges) if self.edges else 0.0

    def may_have(self, graph: int, source: int, destination: int) -> bool:
        """False: the edge was never added."""
        hashed = hash_of(graph, source, destination)
        start, bits = self._block_and_bits(hashed)
        return int.from_bytes(self.blocks[start : start + BLOCK_BYTES], "little") & bits == bits

    def add(self, graph: int, source: int, destination: int) -> None:
        """Add an edge."""
        start, bits = self._block_and_bits(hash_of(graph, source, destination))
        end = start + BLOCK_BYTES
        block = int.from_bytes(self.blocks[start:end], "little") | bits
        self.blocks[start:end] = block.to_bytes(BLOCK_BYTES, "little")
        self.edges += 1

    def _block_and_bits(self, hashed: int) -> tuple[int, int]:
        """The start of a hash's block, and its bits there. One half of the hash selects the block, the other
        the bits.
        """
        low, bits = hashed & _MASK_32, 0
        for word, salt in enumerate(_SALTS):
            bits |= 1 << (32 * word + ((low * salt & _MASK_32) >> 27))
        return ((hashed >> 32) * self._count >> 32) * BLOCK_BYTES, bits

    def may_have_many(self, hashes: Hashes) -> NDArray[np.bool_]:
        """`may_have` for many edges, given by `hashes_of`."""
        words, bits = self._words_and_bits(hashes)
        hits: NDArray[np.bool_] = (np.frombuffer(self.blocks, "<u4")[words] & bits == bits).all(axis=1)
        return hits

    def add_many(self, hashes: Hashes) -> None:
        """`add` for many edges, given by `hashes_of`."""
        words, bits = self._words_and_bits(hashes)
        np.bitwise_or.at(np.frombuffer(self.blocks, "<u4"), words, bits)
        self.edges += len(hashes)

    def _words_and_bits(self, hashes: Hashes) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """For each hash, the eight words that it uses and its bit in each."""
        low = hashes.astype(np.uint32)
        block = ((hashes >> np.uint64(32)) * np.uint64(self._count)) >> np.uint64(32)
        words = block.astype(np.int64)[:, None] * _WORDS + np.arange(_WORDS)
        places = (low[:, None] * np.array(_SALTS, np.uint32)) >> np.uint32(27)
        return words, (np.uint32(1) << places).astype(np.uint32)
