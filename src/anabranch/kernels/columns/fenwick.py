"""A tree of running counts over ranks, in compiled loops: O(log ranks) to add, to count, to find.

Node n (from 1 on) holds the sum of the `n & -n` ranks that end at rank n - 1, so a tree of `size`
ranks is an array of `size` + 1 numbers. Example: counts 1, 0, 2, 1 give the nodes 1, 1, 2, 4;
before rank 3 are node 3 and node 2: 2 + 1.
"""

from __future__ import annotations

from anabranch.kernels.columns.grouped import Ints
from anabranch.model.numbers.compiled import together


@together
def add(tree: Ints, size: int, rank: int, more: int) -> None:
    """Add to the count of a rank."""
    node = rank + 1
    while node <= size:
        tree[node] += more
        node += node & -node


@together
def before(tree: Ints, rank: int) -> int:
    """The counts of all smaller ranks together."""
    total = 0
    node = rank
    while node > 0:
        total += tree[node]
        node -= node & -node
    return total


@together
def rank_at(tree: Ints, size: int, index: int) -> int:
    """The rank that holds the index-th count, or -1 where there are not so many."""
    if index < 0:
        return -1
    bit = 1
    while 2 * bit <= size:
        bit *= 2
    node, left = 0, index
    while bit:
        if node + bit <= size and tree[node + bit] <= left:
            node += bit
            left -= tree[node]
        bit >>= 1
    return node if node < size else -1
