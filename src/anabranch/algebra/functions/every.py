"""All functions of the table, by group and by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.algebra.functions.collections import COLLECTIONS
from anabranch.algebra.functions.conditions import CONDITIONS
from anabranch.algebra.functions.hashes import HASHES
from anabranch.algebra.functions.numbers import NUMBERS
from anabranch.algebra.functions.patterns import PATTERNS
from anabranch.algebra.functions.signature import Function
from anabranch.algebra.functions.texts import TEXTS
from anabranch.algebra.functions.times import TIMES

GROUPS: Final[Mapping[str, Mapping[str, Function]]] = {
    "conditions": CONDITIONS,
    "numbers": NUMBERS,
    "texts": TEXTS,
    "patterns": PATTERNS,
    "hashes": HASHES,
    "times": TIMES,
    "collections": COLLECTIONS,
}

FUNCTIONS: Final[Mapping[str, Function]] = {
    name: function for group in GROUPS.values() for name, function in group.items()
}
