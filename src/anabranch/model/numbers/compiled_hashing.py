"""Hashes of texts, compiled: one pass over the bytes, whatever the number of salts."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from anabranch.model.numbers.compiled import BYTES, IDS, INTS, TABLE, compiled, inlined

Words = npt.NDArray[np.uint64]
Octets = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]

_GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)


@inlined
def _mix(word: np.uint64) -> np.uint64:
    """The finaliser of splitmix64."""
    word ^= word >> np.uint64(30)
    word *= np.uint64(0xBF58476D1CE4E5B9)
    word ^= word >> np.uint64(27)
    word *= np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@inlined
def _part(data: Octets, first: np.int64, count: np.int64) -> np.uint64:
    """Less than eight bytes as a word."""
    word = np.uint64(0)
    for octet in range(count):
        word |= np.uint64(data[first + octet]) << np.uint64(8 * octet)
    return word


@compiled(TABLE, IDS)
def absorb_words(state: Words, words: Words) -> Words:
    """Mix one word per row into the states."""
    result = np.empty_like(state)
    for salt in range(len(state)):
        for row in range(len(words)):
            result[salt, row] = _mix((state[salt, row] + _GAMMA) ^ words[row])
    return result


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
            result[salt, row] = _mix((state[salt, row] + _GAMMA) ^ word)
        if left <= 8:
            continue
        if left <= 32:
            for part in range(1, (left + 7) // 8):
                word = words[part] if part < whole else rest
                for salt in range(len(state)):
                    result[salt, row] = _mix((result[salt, row] + _GAMMA) ^ word)
            continue
        total = np.uint64(0)
        for part in range(whole):
            total += _mix(salts[part] ^ words[part])
        if left > 8 * whole:
            total += _mix(salts[whole] ^ rest)
        for salt in range(len(state)):
            result[salt, row] = _mix((result[salt, row] + _GAMMA) ^ total)
    return result
