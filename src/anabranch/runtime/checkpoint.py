"""The folder a query lives in: what must not change while it does."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, final

from anabranch.errors import PlanError
from anabranch.kernels.kernel import Stateful
from anabranch.kernels.pipeline import PhysicalPlan, Stage, plan_fingerprint, tables_of
from anabranch.runtime.folder import Folder

_FORMAT: Final = 1
_ABOUT: Final = "query.json"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a checkpoint says about its query.

    Attributes:
        query: The identity of the query.
        shards: How many shards it has.
        timestamps: Whether its times are microseconds.
        operators: Per stage the operators that remember something.
        tables: The relations that it looks up in.
        sources: Its sources, and whether they are in files.
    """

    query: str
    shards: int
    timestamps: bool
    operators: Mapping[str, Sequence[str]]
    tables: Sequence[str]
    sources: Mapping[str, bool]


def read_facts(path: str) -> Facts | None:
    """What the checkpoint in a folder says; None if there is none."""
    about = Folder.at(path).read_json(_ABOUT)
    if about is None:
        return None
    return Facts(
        query=about["query"],
        shards=about["shards"],
        timestamps=about.get("timestamps", False),
        operators=about.get("operators", {}),
        tables=about.get("tables", ()),
        sources=about.get("sources", {}),
    )


@final
class Checkpoint:
    """The parts of a checkpoint: Spark's own, the state, the plans of file sources.

    Attributes:
        path: The folder.
        query: The identity of the query, the same for its whole life.
        shards: How many shards it has, fixed when it began.
        fresh: Whether it begins just now.
    """

    def __init__(
        self, path: str | None, plan: PhysicalPlan, shards: int, frames: Collection[str] = ()
    ) -> None:
        """Open the checkpoint of a query, or begin a new one.

        `frames` are those of its sources that are streaming DataFrames.

        Raises:
            PlanError: It belongs to another query, or one that is running.
        """
        self._temporary = path is None
        self.path = tempfile.mkdtemp(prefix="anabranch-") if path is None else _absolute(path)
        self._lock: IO[bytes] | None = self._locked()
        folder = Folder.at(self.path)
        self._outputs = len(plan.outputs)
        for place in (folder, Folder.at(self.plans), *self.outs):
            place.sweep()
        about = folder.read_json(_ABOUT)
        self.fresh = about is None
        fingerprint = plan_fingerprint(plan)
        if about is None:
            about = {
                "format": _FORMAT,
                "query": uuid.uuid4().hex,
                "plan": fingerprint,
                "shards": shards,
                "timestamps": any(source.timestamps for source in plan.sources.values()),
                "operators": {stage.name: _remembering(stage) for stage in plan.stages},
                "tables": sorted(tables_of(plan)),
                "sources": {name: name not in frames for name in plan.sources},
            }
            folder.write_json(_ABOUT, about)
        elif about["plan"] != fingerprint:
            self.close()
            raise PlanError(
                "the checkpoint belongs to another query",
                where=self.path,
                hint="a changed query needs a new checkpoint (and a new output folder)",
            )
        self.query: str = about["query"]
        self.shards: int = about["shards"]

    @property
    def spark(self) -> str:
        """Spark's part."""
        return f"{self.path}/spark"

    @property
    def state(self) -> str:
        """The state of all stages."""
        return f"{self.path}/state"

    @property
    def plans(self) -> str:
        """The planned batches of file sources."""
        return f"{self.path}/planned"

    @property
    def frames(self) -> str:
        """DataFrames that were written down."""
        return f"{self.path}/frames"

    @property
    def tables(self) -> str:
        """The relations that the query looks up in."""
        return f"{self.path}/tables"

    @property
    def control(self) -> str:
        """Commands for the query."""
        return f"{self.path}/control"

    @property
    def outs(self) -> list[Folder]:
        """What each sink has to remember."""
        first = Folder.at(f"{self.path}/out")
        return [first, *(first.child(str(number)) for number in range(1, self._outputs))]

    def close(self) -> None:
        """Let others have it; a temporary one is removed."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._temporary:
            shutil.rmtree(self.path, ignore_errors=True)

    def _locked(self) -> IO[bytes] | None:
        if "://" in self.path:
            return None
        Path(self.path).mkdir(parents=True, exist_ok=True)
        lock = (Path(self.path) / "lock").open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise PlanError(
                "the query of this checkpoint is running already",
                where=self.path,
                hint="stop it first, or use another checkpoint",
            ) from None
        return lock


def _remembering(stage: Stage) -> list[str]:
    return [kernel.label for kernel in stage.kernels if isinstance(kernel, Stateful)]


def _absolute(path: str) -> str:
    return path if "://" in path else str(Path(path).absolute())
