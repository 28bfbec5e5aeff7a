"""Hashes of texts, compiled: one pass over the bytes, whatever the number of salts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anabranch.model.numbers.compiled import BYTES, IDS, INTS, TABLE, compiled, inlined
from anabranch.model.numbers.compiled_words import GAMMA, mix

Words = npt.NDArray[np.uint64]
Octets = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


@inlined
def _part(data: Octets, first: np.int64, count: np.int64) -> np.uint64:
    """Less than eight bytes as a word."""
    word = np.uint64(0)
    for octet in range(count):
        word |= np.uint64(data[first + octet]) << np.uint64(8 * octet)
    return word


@compiled(TABLE, BYTES, INTS, INTS, IDS)
def absorb_texts(
    state: Words, data: Octets, begin: Positions, length: Positions, salts: Words
) -> Words:
    """Mix the texts into the states, which know their lengths already: as `hashing` says.

    `salts` has a number for every position of a word, so that equal words at other positions
    differ.
    """
    result = np.empty_like(state)
    for row in range(len(begin)):
        first, left = begin[row], length[row]
        whole = left // 8
        rest = _part(data, first + 8 * whole, left - 8 * whole)
        words = data[first : first + 8 * whole].view(np.uint64)
        word = words[0] if whole else rest
        for salt in range(len(state)):
            result[salt, row] = mix((state[salt, row] + GAMMA) ^ word)
        if left <= 8:
            continue
        if left <= 32:
            for part in range(1, (left + 7) // 8):
                word = words[part] if part < whole else rest
                for salt in range(len(state)):
                    result[salt, row] = mix((result[salt, row] + GAMMA) ^ word)
            continue
        total = np.uint64(0)
        for part in range(whole):
            total += mix(salts[part] ^ words[part])
        if left > 8 * whole:
            total += mix(salts[whole] ^ rest)
        for salt in range(len(state)):
            result[salt, row] = mix((result[salt, row] + GAMMA) ^ total)
    return result
