"""What counts as the same where queries share their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from anabranch.optimizer.meaning.conditions import Spelling

Sharing: TypeAlias = Literal["meaning", "earlier", "text"]
"""What means the same; what an earlier version found to mean the same; what is written alike.

The last two are for state that was written by queries that shared less.
"""

SPELLINGS: Final[Mapping[Sharing, Spelling]] = {"meaning": "one", "earlier": "as-written"}

SHARED_LESS: Final[tuple[Sharing, ...]] = ("earlier", "text")
"""What is tried for a checkpoint, from the newest to the oldest; the newest that fits is taken."""
