"""Copies that a merge reads: which changes their events do not allow."""

from __future__ import annotations

from anabranch.algebra.analysis.canonical import is_coalesced
from anabranch.algebra.node import Node
from anabranch.errors import PlanError


def refuse_copy(node: Node, *, where: str) -> None:
    """Refuse to change a query whose events must depend on its meaning alone.

    A change cuts what holds at T: the old answer ends there, and the new one begins. The snapshots
    are the same, but not the events. Copies of the query that have not changed do not have these
    cuts, so a merge of them would find a contradiction.

    Raises:
        PlanError: It writes the canonical form.
    """
    if is_coalesced(node):
        raise PlanError(
            "a query that writes the canonical form cannot change while it runs: lifetimes would "
            "be cut at T, and a merge with other copies would find a contradiction",
            where=where,
            hint="start the changed query as another copy (`anabranch jumpstart LOG NEW_LOG "
            "--script new.sql`) and let the merge continue with that (`anabranch cutover`)",
        )
