"""Hashes of whole words, compiled: the step that takes one more column into the hash of a row."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from anabranch.model.numbers.compiled import IDS, TABLE, compiled, inlined

Words = npt.NDArray[np.uint64]

GAMMA: Final = np.uint64(0x9E3779B97F4A7C15)


@inlined
def mix(word: np.uint64) -> np.uint64:
    """The finaliser of splitmix64."""
    word ^= word >> np.uint64(30)
    word *= np.uint64(0xBF58476D1CE4E5B9)
    word ^= word >> np.uint64(27)
    word *= np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@compiled(TABLE, IDS)
def absorb_words(state: Words, words: Words) -> Words:
    """Mix one word per row into the states."""
    result = np.empty_like(state)
    for salt in range(len(state)):
        for row in range(len(words)):
            result[salt, row] = mix((state[salt, row] + GAMMA) ^ words[row])
    return result
