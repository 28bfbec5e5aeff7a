"""A scenario as a process that can be killed: `python -m tests.faults.process FOLDER [MASTER]`."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from anabranch import AnabranchError, Engine, EngineError, PlanError, Run
from anabranch.runtime.spark.session import PLAIN_JOBS
from anabranch.runtime.store.query_record import read_query_record
from tests.faults.processes import ran_in
from tests.faults.scenario import Scenario

PATIENCE = 120.0
LOOK = 0.05
"""So many seconds a batch may have been done before it is noted where it ran."""


@contextmanager
def noted(run: Run, folder: Path) -> Iterator[None]:
    """Note where every batch ran, while the process is alive to do so."""
    ended = threading.Event()

    def note() -> None:
        last, is_over = -1, False
        while not is_over:
            is_over = ended.wait(LOOK)
            new = [each for each in run.metrics() if each["batch"] > last]
            if new:
                last = new[-1]["batch"]
                with ran_in(folder).open("a") as file:
                    file.writelines(f"{each['ran']}\n" for each in new)

    watch = threading.Thread(target=note, daemon=True)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()


def change(engine: Engine, runs: Sequence[Run], scenario: Scenario, folder: Path) -> None:
    """Let the queries become others once some batches are done, if they can."""
    run, commits = runs[0], folder / "checkpoint" / "spark" / "commits"
    while run.status == "running":
        if sum(file.name.isdigit() for file in commits.glob("*")) >= scenario.changed_after:
            break
        time.sleep(0.01)
    try:
        if run.status == "running":
            new = scenario.queries(engine, folder, changed=True)
            engine.migrate_all(runs, new).await_switched(PATIENCE)
    except PlanError:
        # The columns are others, it is over by now, or there is no way to do it.
        return
    except EngineError:
        # It has ended before; why, is said by whoever waits for its end.
        if run.status == "running":
            raise


def main(folder: Path, master: str | None) -> int:
    """Run to the end; 0 when that is reached, 2 with a message where it is not."""
    scenario = Scenario.read(folder)
    # Every other start computes small batches in the driver.
    starts = len(list(folder.glob("start-*")))
    (folder / f"start-{starts}").touch()
    settings = {
        "spark.anabranch.rowsPerTask": "1",
        "spark.anabranch.driverRows": str(1_000_000 * (starts % 2)),
    }
    if master is None:
        settings[PLAIN_JOBS] = str(scenario.plain_jobs).lower()
    else:
        settings |= {"spark.master": master, "spark.executor.memory": "1g"}
    try:
        with Engine(shards=2, settings=settings) as engine:
            stored = read_query_record(str(folder / "checkpoint"))
            is_changed = stored is not None and stored.in_force is not None
            queries = scenario.queries(engine, folder, changed=is_changed)
            runs = engine.start_all(
                queries,
                [scenario.to(folder, number) for number in range(len(queries))],
                checkpoint=folder / "checkpoint",
                available_now=not scenario.waits,
                allow_unbounded=True,
            )
            run = runs[0]
            with noted(run, folder):
                if scenario.changes and not is_changed:
                    change(engine, runs, scenario, folder)
                if scenario.waits:
                    run.drain()
                    run.stop()
                else:
                    run.await_end()
    except AnabranchError as problem:
        sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2] if sys.argv[2:] else None))
