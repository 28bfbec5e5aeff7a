"""`anabranch new`: the files of a project."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from anabranch.errors import QueryError

_QUERY: Final = """\
-- Rows with a time column. They may arrive out of order by up to an hour.
CREATE STREAM Sale (product STRING, amount DOUBLE, time TIMESTAMP)
  SOURCE 'data/sales.jsonl' ORDERED BY time DELAY 1 HOUR;

-- The sales of the last hour, at every instant.
SELECT product, SUM(amount) AS total, COUNT(*) AS sales
FROM Sale WINDOW(RANGE 1 HOUR)
GROUP BY product;
"""

_ROWS: Final = (
    ("tea", 40.0, "2026-11-15T08:00:00"),
    ("cup", 25.0, "2026-11-15T08:10:00"),
    ("tea", 60.0, "2026-11-15T08:50:00"),
    ("cup", 10.0, "2026-11-15T08:40:00"),
    ("pot", 90.0, "2026-11-15T10:30:00"),
)

_TEST: Final = '''\
"""The query gives the answer that we expect; runs without Spark."""

import os
from pathlib import Path

import anabranch as ab


def test_sales_of_the_last_hour() -> None:
    os.chdir(Path(__file__).parent)
    query = ab.Engine().sql(Path("query.sql").read_text())
    answer = query.run_local().snapshot("2026-11-15 09:00")
    found = {row["product"]: (row["total"], row["sales"]) for row in answer.to_pylist()}
    assert found == {"tea": (60.0, 1), "cup": (35.0, 2)}
'''

_README: Final = """\
# {name}

```text
anabranch run query.sql --engine local --to answer.jsonl   in this process, without Spark
anabranch show answer.jsonl --at '2026-11-15 09:00'        the answer at an instant
anabranch run query.sql --to answer                        on Spark; --follow waits for more rows
pytest                                                     the test of the query
```

`query.sql` is the query, `data/` has sample rows, `test_query.py` is its test, and `explore.ipynb`
is a notebook.
"""

_CELLS: Final = (
    ("markdown", "# Sales of the last hour\n\nThe query of this project, looked at step by step."),
    (
        "code",
        "from pathlib import Path\n\nimport anabranch as ab\n\n"
        'engine = ab.Engine()\nquery = engine.sql(Path("query.sql").read_text())\n'
        "print(query.explain())",
    ),
    ("markdown", "The answer at an instant: what the last hour looked like then."),
    (
        "code",
        'run = query.run_local()\nrun.snapshot("2026-11-15 09:00").to_pylist()',
    ),
)


def new(
    project: Annotated[str, typer.Argument(help="The folder to make; it must not exist yet.")],
) -> None:
    r"""Lay out a project: a query, sample data, a test and a notebook.

    \b
    $ anabranch new shop
    $ cd shop
    $ anabranch run query.sql --engine local
    """
    folder = Path(project)
    if folder.exists():
        raise QueryError(
            f"'{project}' already exists",
            where=f"anabranch new {project}",
            hint="choose another name, or remove it first",
        )
    files = project_files(folder.name)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    typer.echo(f"{project}: {', '.join(files)}", err=True)
    typer.echo(f"next: cd {project} && anabranch run query.sql --engine local", err=True)


def project_files(name: str) -> dict[str, str]:
    """The files of a new project, by their paths."""
    keys = ("product", "amount", "time")
    rows = [json.dumps(dict(zip(keys, row))) for row in _ROWS]
    return {
        "README.md": _README.format(name=name),
        "query.sql": _QUERY,
        "data/sales.jsonl": "\n".join(rows) + "\n",
        "test_query.py": _TEST,
        "explore.ipynb": _notebook(),
    }


def _notebook() -> str:
    """A notebook in Jupyter's format 4, without outputs."""
    cells = []
    for number, (kind, source) in enumerate(_CELLS):
        cell: dict[str, object] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
        if kind == "code":
            cell |= {"execution_count": None, "outputs": []}
        cells.append({**cell, "source": source.splitlines(keepends=True)})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {
        "cells": cells,
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(whole, indent=1) + "\n"
