"""`anabranch migrate`: change a query while it runs."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from anabranch.cli.scripts import Modules, module_paths, read_text
from anabranch.errors import PlanError

if TYPE_CHECKING:
    from anabranch.model.clock import Clock
    from anabranch.runtime.store.migrations import MigrationRecord

_LOOK: Final = 0.05
"""Seconds between two looks at what has become of the change."""


def migrate(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="CHECKPOINT", help="The folder of a checkpoint, or the output beside it."
        ),
    ],
    script: Annotated[
        str | None, typer.Argument(metavar="NEW.SQL", help="The changed script; '-' is stdin.")
    ] = None,
    how: Annotated[
        str, typer.Option(help="clip, replay, state, or auto: what is sooner done.")
    ] = "auto",
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="The new answer counts not before this.")
    ] = None,
    reoptimize: Annotated[
        bool, typer.Option("--reoptimize", help="The same query, by the plan chosen now.")
    ] = False,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="So long the command waits for the change.")
    ] = 30.0,
    as_json: Annotated[bool, typer.Option("--json", help="Answer with a JSON object.")] = False,
    modules: Modules = None,
) -> None:
    r"""Change a query while it runs: from an instant T on the answer is that of another query.

    Before T it is the old answer, at every instant; nothing is lost or doubled, and the output is
    one stream. The changed script declares its streams as the running one does. A query that does
    not run changes when it is started again. Exit code 1: the change was refused.

    The script calls the modules that the query was started with, and those of --modules in their
    place: so a user operator gets another version, or other code.

    \b
    clip    both plans run until no row that was read before matters any more
    replay  the new plan first reads again what it needs; T is the stable point
    state   user operators with other code go on with the state that there is

    \b
    $ anabranch migrate out.jsonl highest-2.sql
    change 1: by clip from 1080 on: all that was read before is over by then
    """
    from anabranch.model.record import plain
    from anabranch.runtime.sources.location import full_path
    from anabranch.runtime.store.migrations import MigrationRecord

    _check(script, how, reoptimize=reoptimize)
    text, name = (None, None) if script is None else read_text(script)
    wanted = MigrationRecord(
        number=0,
        how=how,  # type: ignore[arg-type]
        text=text,
        # The process that runs may have begun in another folder.
        script=None if name is None else full_path(name),
        reoptimize=reoptimize,
        to=full_path(checkpoint) if reoptimize else None,
        what=name or "",
        requested_at=time.time(),
        modules=module_paths(modules),
    )
    record, clock, when = handed_in(checkpoint, wanted, at, wait)
    if as_json:
        typer.echo(json.dumps(plain(record), ensure_ascii=False))
    else:
        typer.echo(told(record, clock, when), err=True)
    if record.state == "refused":
        raise typer.Exit(1)


def handed_in(
    checkpoint: str, wanted: MigrationRecord, at: str | None, wait: float
) -> tuple[MigrationRecord, Clock, str]:
    """Ask the process of a checkpoint for a change, and wait until it has begun or is refused.

    Returns:
        What has become of it, how the query counts time, and when the change begins if it has not.
    """
    from anabranch.kernels.contract.command import MIGRATE, Command
    from anabranch.runtime.query.state_view import find_checkpoint
    from anabranch.runtime.store.control import ControlFolder, instant_of
    from anabranch.runtime.store.folder import Folder
    from anabranch.runtime.store.migrations import MigrationFolder

    path, facts = find_checkpoint(checkpoint)
    folder = MigrationFolder.of(path)
    not_before = None if at is None else instant_of(facts.clocks, "", at)
    record = folder.add(replace(wanted, not_before=not_before))
    ControlFolder(Folder.at(f"{path}/control")).put(Command(verb=MIGRATE, value=record.number))
    deadline = time.monotonic() + wait
    while record.state == "requested" and _is_running(path) and time.monotonic() < deadline:
        time.sleep(_LOOK)
        record = folder.read(record.number) or record
    return record, facts.clock, _when(record, folder.unfinished(), is_running=_is_running(path))


def _when(record: MigrationRecord, first: MigrationRecord | None, *, is_running: bool) -> str:
    """When a change begins."""
    if first is not None and first.number != record.number:
        return f"when change {first.number} is over"
    return "with the next batch" if is_running else "when the query is started again"


def told(record: MigrationRecord, clock: Clock, when: str) -> str:
    """What has become of a change."""
    if record.state == "requested":
        return f"change {record.number}: begins {when}"
    if record.state == "refused":
        return f"change {record.number} was refused: {record.error or record.reason}"
    since = "" if record.at is None else f" from {record.since(clock)} on"
    over = "" if record.state == "switched" else ", and the old plan is gone"
    return f"change {record.number}: by {record.how}{since}: {record.reason}{over}"


def _check(script: str | None, how: str, *, reoptimize: bool) -> None:
    if how not in ("auto", "clip", "replay", "state"):
        raise PlanError(
            f"'{how}' is not a way to change a query",
            where="--how",
            hint="auto, clip, replay or state",
        )
    if (script is None) != reoptimize:
        raise PlanError(
            "a change needs a script, or --reoptimize",
            where="anabranch migrate",
            hint="name the changed script: anabranch migrate out.jsonl new.sql",
        )


def _is_running(path: str) -> bool:
    """Whether a process has the checkpoint open."""
    import fcntl
    from pathlib import Path

    lock = Path(path) / "lock"
    if "://" in path or not lock.exists():
        return "://" in path
    with lock.open("ab") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(held, fcntl.LOCK_UN)
    return False
