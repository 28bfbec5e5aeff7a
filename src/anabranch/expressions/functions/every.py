"""All functions of the table, by group and by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from anabranch.expressions.functions.collections import COLLECTIONS
from anabranch.expressions.functions.conditions import CONDITIONS
from anabranch.expressions.functions.hashes import HASHES
from anabranch.expressions.functions.numbers import NUMBERS
from anabranch.expressions.functions.patterns import PATTERNS
from anabranch.expressions.functions.signature import Function
from anabranch.expressions.functions.texts import TEXTS
from anabranch.expressions.functions.times import TIMES
from anabranch.expressions.functions.zones import ZONES

GROUPS: Final[Mapping[str, Mapping[str, Function]]] = {
    "conditions": CONDITIONS,
    "numbers": NUMBERS,
    "texts": TEXTS,
    "patterns": PATTERNS,
    "hashes": HASHES,
    "times": {**TIMES, **ZONES},
    "collections": COLLECTIONS,
}

FUNCTIONS: Final[Mapping[str, Function]] = {
    name: function for group in GROUPS.values() for name, function in group.items()
}
