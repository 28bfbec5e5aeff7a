"""Commands to a running query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, final, get_args

from anabranch.model.record import OMITTED

Verb: TypeAlias = Literal[
    "advance",
    "pause",
    "resume",
    "limit",
    "attach",
    "detach",
    "rejoin",
    "feedback",
    "revise",
    "feed",
    "migrate",
    "spare",
    "weaken",
]
REVISE: Final = "revise"
FEED: Final = "feed"
MIGRATE: Final = "migrate"
SPARE: Final = "spare"
WEAKEN: Final = "weaken"
"""These are commands of the engine to itself; nobody else has a reason to give them."""

VERBS: Final[tuple[str, ...]] = tuple(
    verb for verb in get_args(Verb) if verb not in (REVISE, FEED, MIGRATE, SPARE, WEAKEN)
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What somebody wants of a running query.

    Attributes:
        verb: `advance`: the source has reached an instant, whatever comes; `pause`: no more rows
            of the source; `resume`: go on with them; `limit`: at most so many rows in a batch.
            For the inputs of a merge: `detach`: ignore it from now on; `attach`: take it in, it
            vouches for events that end at or after an instant, or for all; `rejoin`: take one in
            again that was detached. `feedback`: of the output only what ends at an instant or
            later is of interest any more. `revise`: the batch brings a computed revision. `feed`:
            it brings corrections of the source that somebody has handed in. `migrate`: the plan
            is about to change; all that it does is that there is a batch. `spare`: a copy of the
            source was told by feedback that it may leave out events that end before an instant.
            `weaken`: a copy of the source promises less than the merge relies on, which goes over
            to a weaker case.
        source: The name of a source; empty for feedback and revisions, which are for the whole
            query.
        value: The instant, the number of rows, the serial number of the revision, the number
            under which the corrections were handed in, that of the change, or that of the case.
        copy: The name of a copy of the source, where the source has copies.
        since: For feedback: nothing of the output that is of interest starts before this instant.
    """

    verb: Verb
    source: str = ""
    value: int | None = None
    copy: str | None = field(default=None, metadata=OMITTED)
    since: int | None = field(default=None, metadata=OMITTED)

    def __str__(self) -> str:
        value = "" if self.value is None else f" {self.value}"
        copy = "" if self.copy is None else f" copy {self.copy}"
        source = f" {self.source}" if self.source else ""
        since = "" if self.since is None else f" since {self.since}"
        return f"{self.verb}{source}{copy}{value}{since}"
