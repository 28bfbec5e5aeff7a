"""Say on standard error when a merge cannot read a copy, and when it goes over to a weaker case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

import typer

from anabranch.algebra.analysis.merge_case import SAYS
from anabranch.cli.queries.metrics_file import each_batch

if TYPE_CHECKING:
    from anabranch.runtime.query.run import Run


@contextmanager
def told_news(run: Run) -> Iterator[None]:
    """Tell of copies that are not read, of those that are read again, and of the case in force."""
    news = CopyNewsTeller()

    def tell(batches: Sequence[Mapping[str, Any]]) -> None:
        for batch in batches:
            for line in news.of(batch):
                typer.echo(line, err=True)

    with each_batch(run, tell):
        yield


@final
class CopyNewsTeller:
    """What is new in the metrics of a merge, batch by batch."""

    def __init__(self) -> None:
        """All is well so far."""
        self._problems: dict[str, str] = {}
        self._case = ""

    def of(self, batch: Mapping[str, Any]) -> Iterator[str]:
        """The lines that a batch is worth."""
        copies = {
            name: copy.get("problem", "")
            for source in batch["sources"].values()
            for name, copy in source.get("copies", {}).items()
        }
        for name, problem in copies.items():
            before = self._problems.get(name, "")
            if problem and problem != before:
                yield f"copy '{name}' is not read: {problem}"
            elif before and not problem:
                yield f"copy '{name}' is read again"
            self._problems[name] = problem
        reports = [each for stage in batch["stages"].values() for each in stage.get("reports", ())]
        case = max((each.get("case") or "" for each in reports), default="")
        if case > self._case:
            self._case = case
            yield (
                f"the merge continues by {case} ({SAYS[case]}): a copy promises less than those "
                "with which it began"
            )
