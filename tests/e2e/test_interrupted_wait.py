"""Ctrl-C while somebody waits for a query: it stops after its batch, and nothing is noisy."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch import Engine

pytestmark = pytest.mark.spark

SCRIPT = """
import signal, threading, time
import anabranch as ab

signal.signal(signal.SIGINT, signal.default_int_handler)

def tell_when_waiting(before):
    # await_end takes the signal over; from then on it is safe to send one.
    while signal.getsignal(signal.SIGINT) is before:
        time.sleep(0.01)
    print("waiting", flush=True)

with ab.Engine(cores=1) as engine:
    bids = engine.stream("bids", start="at", delay="1 s")
    run = bids.window("10 s").groupBy("item").count().start(to="out")
    run.drain()
    before = signal.getsignal(signal.SIGINT)
    threading.Thread(target=tell_when_waiting, args=[before], daemon=True).start()
    try:
        run.await_end()
    except KeyboardInterrupt:
        print(run.status, flush=True)
"""


def test_ctrl_c_stops_a_query_cleanly(tmp_path: Path) -> None:
    (tmp_path / "bids").mkdir()
    row = '{"item": 1, "at": "2026-11-01T10:00:01"}\n'
    (tmp_path / "bids" / "1.jsonl").write_text(row)
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        # A terminal sends it to all processes in front: the JVM and the workers, too.
        os.killpg(process.pid, signal.SIGINT)
        said, noise = process.communicate(timeout=120)
    assert said == "ended\n"
    assert noise.splitlines() == [
        "interrupted: query_1 stops after this batch",
        "query_1 has stopped",
    ]
    again = Engine().stream(str(tmp_path / "out"))
    assert again.run_local().events().num_rows == 1
