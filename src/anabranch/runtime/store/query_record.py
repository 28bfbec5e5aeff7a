"""The record of a query in its checkpoint: the file `query.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, final

from anabranch.errors import EngineError
from anabranch.model.clock import Clock, clock_of_log
from anabranch.model.record import OMITTED, plain, record
from anabranch.runtime.store.folder import Folder
from anabranch.runtime.store.layout import StateLayout
from anabranch.runtime.store.migrations import PlanInForce

FORMAT: Final = 5
"""Since 4, sums of floats are kept in exact digits; since 5, plans are known by signatures."""

SIGNED: Final = 5
"""Plans of earlier formats were known by the names of classes, and are not found again."""

_FILE: Final = "query.json"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRecord:
    """What a checkpoint says about its query; what has a default was not always said.

    Attributes:
        format: The version of the checkpoint.
        plan: What the stages compute, as a hash.
        timestamps: Whether a source counts microseconds since 1970.
        clocks: How each source counts time.
        operators: Per stage the operators that remember something.
        tables: The relations that it looks up in.
        sources: Its sources, and whether they are in files.
        copies: Those of its sources that have copies.
        inputs: The streams that its merges read, besides copies; None: that was not noted.
        query: The identity of the query.
        shards: How many shards it has.
        layout: Where each part of it keeps what it has to remember.
        routed: Whether state tells its shard, so that their number can change.
        epoch: How often that number has changed.
        left: Folders of state that nobody needs any more, and that are still to be removed.
        in_force: The plan, where it has changed while the query ran.
    """

    format: int = FORMAT
    plan: str = ""
    timestamps: bool = False
    clocks: Mapping[str, Mapping[str, object]] | None = None
    operators: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tables: tuple[str, ...] = ()
    sources: Mapping[str, bool] = field(default_factory=dict)
    copies: tuple[str, ...] = ()
    inputs: tuple[str, ...] | None = field(default=None, metadata=OMITTED)
    query: str
    shards: int
    layout: StateLayout | None = None
    routed: bool = False
    epoch: int = 0
    left: tuple[str, ...] = field(default=(), metadata=OMITTED)
    in_force: PlanInForce | None = field(default=None, metadata=OMITTED)

    def source_clocks(self) -> dict[str, Clock]:
        """How the sources count time; a checkpoint of before says it of all at once."""
        if self.clocks is not None:
            return {name: clock_of_log(each) for name, each in self.clocks.items()}
        usual = clock_of_log({"timestamps": self.timestamps})
        return dict.fromkeys(self.sources or [""], usual)

    def folders(self) -> dict[str, str]:
        """Per stage the folder of its state."""
        if self.layout is None:
            return {name: name for name in self.operators}
        return {name: home.folder for name, home in self.layout.stages.items()}


def read_query_record(path: str) -> QueryRecord | None:
    """What the checkpoint in a folder says; None if there is none.

    Raises:
        EngineError: It was written by a later version, or is damaged.
    """
    content = Folder.at(path).read_json(_FILE)
    if content is None:
        return None
    if isinstance(content, dict) and isinstance(content.get("format"), int):
        _refuse_later(content["format"], path)
    hint = "restore the checkpoint from a copy, or start the query with a new checkpoint"
    return record(QueryRecord, content, where=f"{path}/{_FILE}", hint=hint)


def write_query_record(folder: Folder, about: QueryRecord) -> None:
    """Say something else about the query of the checkpoint in a folder."""
    folder.write_json(_FILE, plain(about))


def _refuse_later(found: int, path: str) -> None:
    if found > FORMAT:
        raise EngineError(
            f"a checkpoint of format {found}, this version reads formats up to {FORMAT}",
            where=path,
            hint="continue the query with the version of Anabranch that wrote its checkpoint, or a "
            "later one",
        )
