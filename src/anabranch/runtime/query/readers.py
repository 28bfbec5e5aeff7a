"""Queries that read what another one writes: it is not stopped under them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.errors import PlanError

if TYPE_CHECKING:
    from anabranch.runtime.query.run import Run


def refuse_while_read(run: Run) -> None:
    """Refuse to stop a query while others read its log folder.

    Raises:
        PlanError: They do.
    """
    if run.status == "running" and (readers := run.read_by()):
        raise PlanError(
            f"other queries read the results of '{run.name}': {', '.join(readers)}",
            where=str(run.log_folder),
            hint="stop them first, or stop it nevertheless with stop(force=True): they wait "
            "until it is started again",
        )
