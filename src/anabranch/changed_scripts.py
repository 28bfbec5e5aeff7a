"""What another process has asked of queries that run: which of them become what."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.errors import PlanError
from anabranch.host import Host
from anabranch.migrate.healing import in_form_of
from anabranch.migrate.operators import has_other_code
from anabranch.migrate.request import WantedChange
from anabranch.planning import AskedQuery
from anabranch.runtime.measure.measurements import Measurements
from anabranch.runtime.query.run import Run
from anabranch.runtime.sources.location import full_path
from anabranch.runtime.store.migrations import MigrationRecord


def wanted_change(
    host: Host,
    measurements: Measurements,
    members: Sequence[Run],
    record: MigrationRecord,
    asked: Sequence[AskedQuery],
) -> WantedChange:
    """What another process has asked for: of several queries, those that are not as they were."""
    if record.reoptimize:
        named = named_outputs(record, members)
        names = {output: members[output].name for output in named}
        same = {output: asked[output] for output in named}
        return WantedChange(same, names, measurements.statistics.for_plans())
    assert record.text is not None
    queries = host.read_apart(record.text, record.script, record.modules)
    where = record.script or "the changed query"
    if not queries:
        raise PlanError("the script has no query", where=where, hint="end it with a SELECT")
    if len(asked) == 1:
        return WantedChange({0: queries[-1]}, {0: record.what})
    if len(queries) != len(asked):
        raise PlanError(
            f"the script has {len(queries)} queries, and {len(asked)} run together",
            where=where,
            hint="write all queries of the group, in their order",
        )
    pairs = enumerate(zip(queries, asked, strict=True))
    changed = {n: new for n, (new, old) in pairs if _is_other(new, old, where=where)}
    if not changed:
        raise PlanError(
            "no query of the script differs from those that run",
            where=where,
            hint="for the same queries by other plans: anabranch migrate CHECKPOINT --reoptimize",
        )
    return WantedChange(changed, {output: members[output].name for output in changed})


def _is_other(new: AskedQuery, old: AskedQuery, *, where: str) -> bool:
    """Whether a query of a script has another plan than the one that runs, or calls other code."""
    node = in_form_of(old, new).node
    return node != old.node or has_other_code(node, old.node, where=where)


def named_outputs(record: MigrationRecord, members: Sequence[Run]) -> list[int]:
    """The number of the query whose output was named; all, if the checkpoint was."""
    logs = [None if run.log_folder is None else full_path(run.log_folder) for run in members]
    named = [output for output, log in enumerate(logs) if log is not None and log == record.to]
    return named or list(range(len(members)))
