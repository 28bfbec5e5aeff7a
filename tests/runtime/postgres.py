"""A PostgreSQL server of one's own, in a folder, reached through a socket in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

DEMANDED = "ANABRANCH_DEMANDS_POSTGRES"
"""Environment variable: the tests of PostgreSQL must run."""


def _program(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else shutil.which(name)


@contextmanager
def postgres_server() -> Iterator[str]:
    """The address of a server that ends with the block.

    A database server is nothing that whoever runs the tests must have: without one they are
    skipped, and say how to get it. Where `DEMANDED` is set, as in continuous integration, they
    fail.
    """
    initdb, control = _program("initdb"), _program("pg_ctl")
    if initdb is None or control is None:
        missing = "no PostgreSQL server here: apt install postgresql"
        assert DEMANDED not in os.environ, missing
        pytest.skip(missing)
    # The server refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="anabranch-pg-", dir="/tmp"))
    if user is not None:
        shutil.chown(folder, user)

    def call(*command: str) -> None:
        # The server inherits what is open, so its words must not go into a pipe.
        with (folder.parent / f"{folder.name}.log").open("ab") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, cwd="/", user=user)

    data = str(folder / "data")
    try:
        call(initdb, "--pgdata", data, "--username", "ann", "--auth", "trust", "--no-sync")
        options = f"-c listen_addresses='' -c fsync=off -k {folder}"
        call(control, "--pgdata", data, "--wait", "--options", options, "start")
        try:
            yield f"postgresql://ann:secret@/postgres?host={folder}"
        finally:
            call(control, "--pgdata", data, "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        (folder.parent / f"{folder.name}.log").unlink(missing_ok=True)
