"""A Bytewax of several processes, as `python -m bytewax.run -i 0 -a ...` makes one; they stay.

Starting Python and importing everything would otherwise be a part of every run.
"""

from __future__ import annotations

import importlib
import multiprocessing
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

Flow = Callable[[str, Path, Path], Any]
"""The dataflow of a job over a folder of input, into another folder."""

_testing: Any = importlib.import_module("bytewax.testing")


class Processes:
    """This process is the first of them; the others start when they are first needed."""

    def __init__(self, flow: Flow, count: int) -> None:
        """So many processes, each with one worker."""
        self._flow, self._count = flow, count
        self._others: list[Any] = []

    def run(self, job: str, folder: Path, out: Path) -> None:
        """Run a job in all of them."""
        spawning = multiprocessing.get_context("spawn")
        for number in range(len(self._others) + 1, self._count):
            pipe, end = spawning.Pipe()
            spawning.Process(target=_follow, args=(end, self._flow, number), daemon=True).start()
            end.close()
            self._others.append(pipe)
        addresses = _free_addresses(self._count)
        for pipe in self._others:
            pipe.send((job, folder, out, addresses))
        _testing.cluster_main(self._flow(job, folder, out), addresses, 0)
        for pipe in self._others:
            pipe.recv()


def _follow(pipe: Any, flow: Flow, number: int) -> None:
    while True:
        try:
            job, folder, out, addresses = pipe.recv()
        except EOFError:
            return
        _testing.cluster_main(flow(job, folder, out), addresses, number)
        pipe.send(None)


def _free_addresses(count: int) -> list[str]:
    with ExitStack() as stack:
        # All at once, so that no two are the same; workers listen to them afterwards.
        listening = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in listening:
            each.bind(("localhost", 0))
        return [f"localhost:{each.getsockname()[1]}" for each in listening]
