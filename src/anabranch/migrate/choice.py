"""How a query changes: by clip, by replay or by its state, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from anabranch.errors import PlanError
from anabranch.migrate.effort import Effort
from anabranch.model.clock import Clock
from anabranch.model.time import BEGINNING, FOREVER, Time
from anabranch.runtime.store.migrations import How


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """T, the way, and why."""

    at: Time
    how: Literal["clip", "replay", "state"]
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
    effort: Effort | None = None,
    state_at: Time = FOREVER,
    no_state: str | None = "no user operator of the query has got other code",
) -> Choice:
    """Choose between clip, replay and the state of user operators.

    Args:
        how: What was asked for.
        clip_at: The least T for a change by clip.
        no_clip: Why there is none.
        no_replay: Why what was read cannot be read again.
        stable: How far the output is settled.
        not_before: The earliest T that was asked for.
        clock: How the output counts time.
        where: What messages call the query.
        effort: What both ways would take; None: that does not matter.
        state_at: The least T where user operators with other code go on with their state.
        no_state: Why they cannot.

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
    if how == "state" and no_state is not None:
        hint = "use how='auto' (--how auto)" if no_clip is None or no_replay is None else own
        raise PlanError(f"the query cannot change by its state: {no_state}", where=where, hint=hint)
    if how in ("auto", "state") and no_state is None:
        at = Time(max(state_at, not_before))
        return Choice(at=at, how="state", reason="its user operators go on with their state")
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
    if clip_at == BEGINNING and how != "replay":
        return Choice(at=not_before, how="clip", reason="nothing was read before")
    shown = clock.format(clip_at)
    why_clip = f"what was read before is over at {shown}"
    if how == "auto" and no_clip is None:
        is_sooner = no_replay is None and effort is not None and effort.prefers_replay
        how = "replay" if is_sooner else "clip"
        why = f"what was read before matters until {shown}"
        if effort is not None:
            why, why_clip = f"{effort.text()} (until {shown})", f"{why_clip}: {effort.text()}"
        elif no_replay is not None:
            why_clip = f"{why_clip}; a replay is not possible: {no_replay}"
    else:
        why = "asked for" if no_clip is None else f"a clip is not possible: {no_clip}"
    if how == "replay" or no_clip is not None:
        at = Time(max(stable, not_before))
        return Choice(at=at, how="replay", reason=why)
    at = Time(max(clip_at, not_before))
    return Choice(at=at, how="clip", reason=why_clip)
