"""How a query changes: by clip or by replay, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, final

from anabranch.errors import PlanError
from anabranch.model.clock import Clock
from anabranch.model.time import FOREVER, Time
from anabranch.runtime.store.migrations import How

LONGEST_CLIP: Final = 10 * 60 * 1_000_000
"""Microseconds: if both plans would have to run for longer, what was read is read again instead."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """T, the way, and why."""

    at: Time
    how: Literal["clip", "replay"]
    reason: str


def chosen(
    how: How,
    *,
    clip_at: Time,
    no_clip: str | None,
    no_replay: str | None,
    stable: Time,
    not_before: Time,
    clock: Clock,
    where: str,
) -> Choice:
    """Choose between clip and replay.

    Args:
        how: What was asked for.
        clip_at: The least T for a change by clip.
        no_clip: Why there is none.
        no_replay: Why what was read cannot be read again.
        stable: How far the output is settled.
        not_before: The earliest T that was asked for.
        clock: How the output counts time.
        where: What messages call the query.

    Raises:
        PlanError: There is no way, or not the one that was asked for.
    """
    if stable == FOREVER:
        raise PlanError(
            "the query has ended: all its answers are final",
            where=where,
            hint="start the new query with a checkpoint of its own",
        )
    own = "start the new query with a checkpoint of its own"
    if how == "clip" and no_clip is not None:
        hint = "use how='replay' (--how replay)" if no_replay is None else own
        raise PlanError(f"the query cannot change by clip: {no_clip}", where=where, hint=hint)
    if how == "replay" and no_replay is not None:
        hint = "use how='clip' (--how clip)" if no_clip is None else own
        raise PlanError(f"the query cannot change by replay: {no_replay}", where=where, hint=hint)
    if no_clip is not None and no_replay is not None:
        raise PlanError(
            f"the query cannot change while it runs: by clip not, for {no_clip}; by replay not, "
            f"for {no_replay}",
            where=where,
            hint=own,
        )
    shown = clock.format(clip_at)
    if how == "auto" and no_clip is None:
        length = None if clock.chronon is None else (clip_at - stable) * clock.chronon
        is_long = length is not None and length > LONGEST_CLIP
        how = "replay" if is_long and no_replay is None else "clip"
        why = f"what was read before matters until {shown}, so it is read again"
    else:
        why = "asked for" if no_clip is None else f"a clip is not possible: {no_clip}"
    if how == "replay" or no_clip is not None:
        at = Time(max(stable, not_before))
        return Choice(at=at, how="replay", reason=why)
    at = Time(max(clip_at, not_before))
    return Choice(at=at, how="clip", reason=f"what was read before is over at {shown}")
