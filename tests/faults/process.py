"""A scenario as a process that can be killed: `python -m tests.faults.process FOLDER [MASTER]`."""

from __future__ import annotations

import sys
from pathlib import Path

from anabranch import AnabranchError, Engine
from tests.faults.scenario import Scenario


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
    if master is not None:
        settings |= {"spark.master": master, "spark.executor.memory": "1g"}
    try:
        with Engine(shards=2, settings=settings) as engine:
            queries = scenario.queries(engine, folder)
            run, *_ = engine.start_all(
                queries,
                [scenario.to(folder, number) for number in range(len(queries))],
                checkpoint=folder / "checkpoint",
                available_now=not scenario.waits,
                allow_unbounded=True,
            )
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
