"""A Merkle tree over the log, in the shape of RFC 6962: its root names every event before it, and proves each one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

LEAF: Final = b"\x00"
NODE: Final = b"\x01"
EMPTY: Final = hashlib.sha256().digest()


def leaf_of(position: int, digest: str) -> bytes:
    """The leaf of one event: its place in the log (8 bytes, big-endian) and its digest (32 bytes)."""
    return hashlib.sha256(LEAF + position.to_bytes(8, "big") + bytes.fromhex(digest)).digest()


def node_of(left: bytes, right: bytes) -> bytes:
    """The node above two others."""
    return hashlib.sha256(NODE + left + right).digest()


class Tree:
    """A tree that grows to the right and remembers one node for each bit of its size."""

    def __init__(self) -> None:
        """Start empty."""
        self.size = 0
        self._peaks: list[bytes] = []

    def add(self, leaf: bytes) -> None:
        """Add one leaf."""
        size, node = self.size, leaf
        while size & 1:
            node = node_of(self._peaks.pop(), node)
            size >>= 1
        self._peaks.append(node)
        self.size += 1

    def root(self) -> bytes:
        """The root over all leaves so far."""
        if not self._peaks:
            return EMPTY
        node = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            node = node_of(peak, node)
        return node


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root over leaves, by the definition: split at the largest power of two below their number."""
    if len(leaves) <= 1:
        return leaves[0] if leaves else EMPTY
    split = 1 << (len(leaves) - 1).bit_length() - 1
    return node_of(root_of(leaves[:split]), root_of(leaves[split:]))


class Path:
    """Gathers the audit path of one leaf while all leaves go by once; it keeps one node for each bit of the size."""

    def __init__(self, index: int, size: int) -> None:
        """Prove the leaf at ``index`` (from 0) in a tree of ``size`` leaves."""
        if not 0 <= index < size:
            msg = f"a tree of {size} leaves has no leaf {index}"
            raise IndexError(msg)
        self._trees = [(start, end, Tree()) for start, end in _siblings(index, size)]

    def add(self, index: int, leaf: bytes) -> None:
        """See one leaf, by its place."""
        for start, end, tree in self._trees:
            if start <= index < end:
                tree.add(leaf)

    def nodes(self) -> list[bytes]:
        """The path, from the leaf's sibling to the one below the root."""
        return [tree.root() for _, _, tree in self._trees]


def _siblings(index: int, size: int) -> list[tuple[int, int]]:
    """The ranges of leaves below each node of a path, from the leaf up."""
    start, end, found = 0, size, list[tuple[int, int]]()
    while end - start > 1:
        split = start + (1 << (end - start - 1).bit_length() - 1)
        if index < split:
            found.append((split, end))
            end = split
        else:
            found.append((start, split))
            start = split
    return found[::-1]


def is_proved(leaf: bytes, index: int, size: int, path: Iterable[bytes], root: bytes) -> bool:
    """Whether a path leads from a leaf at its place to the root of a tree of this size."""
    nodes = list(path)
    if not 0 <= index < size or len(nodes) != len(_siblings(index, size)):
        return False
    node = leaf
    for (start, _), sibling in zip(_siblings(index, size), nodes, strict=True):
        node = node_of(node, sibling) if start > index else node_of(sibling, node)
    return node == root
