"""The columns of the engine's own that travel and are stored beside the user's.

A user's column never begins with two underscores (`Source` refuses that), so none of these names
can meet one of theirs. They are in the files of a checkpoint: a name stays what it is.
"""

from __future__ import annotations

from typing import Final

ID: Final = "__id"
"""The column of a prepared batch that says to which key a row belongs (uint64)."""
CHECK: Final = "__check"
"""A second hash of the key, which tells apart keys that share an id (uint64)."""

START: Final = "__start"
END: Final = "__end"
NEW_END: Final = "__new_end"
TIMES: Final = (START, END, NEW_END)
"""The three times of a move: it takes the end of a lifetime from `END` to `NEW_END`."""
TIME: Final = "__time"
"""The time by which a sorted run is ordered within an id."""

COPY: Final = "__copy"
"""The last column of rows from a source with copies: the number of the copy (int32)."""

ROW: Final = "__row"
ROW_CHECK: Final = "__row_check"
"""Two hashes of a payload, where ids are those of a group: rows that agree in both are copies."""

KEY: Final = "__key"
"""Of a join: the hash of its key, where rows travel by another one (uint64)."""
JOINS: Final = "__joins"
"""Of a join: whether a row has a key at all, for NULL equals nothing."""
CLASS: Final = "__class"
"""Of a join: the class of length of a lifetime, the first column that its runs are sorted by."""
JOIN_ROW_CHECK: Final = "__row.check"
"""Of a join: its `ROW_CHECK`."""

NUMBER: Final = "__number"
"""Of a top k: the number of a copy among equal rows."""
SUM: Final = "__sum"
"""Of a count window: the counts of a run added up to and with each row."""

WEND: Final = "__window_end"
STOP: Final = "__stop"
NEW_STOP: Final = "__new_stop"
SINCE: Final = "__since"
UNTIL: Final = "__until"
MEMBERS: Final = "__members"
"""Of windows that user operators are applied to: their ends, lives and numbers of events."""
