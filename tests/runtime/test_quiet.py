"""What the JVM and workers write to standard error reaches people, but for noise."""

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from anabranch.runtime.spark.quiet import quiet_start, without_noise

DAEMON = b"""Traceback (most recent call last):
  File "/x/pyspark/daemon.py", line 193, in manager
    ready_fds = select.select([0, listen_sock], [], [], 1)[0]
KeyboardInterrupt
"""
OWN = b"""Traceback (most recent call last):
  File "/x/pyspark/worker.py", line 1, in main
ValueError: mine

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/x/mine.py", line 2, in f
KeyError: 'a'
"""


def test_only_noise_is_left_out() -> None:
    lines = (
        b"WARNING: Using incubator modules: a\nfirst\n" + DAEMON + b"second\n" + OWN + b"third\n"
    )
    found = b"".join(without_noise(iter(lines.splitlines(keepends=True))))
    assert found == b"first\nsecond\n" + OWN + b"third\n"


def test_a_traceback_that_does_not_end_goes_through() -> None:
    lines = DAEMON.splitlines(keepends=True)[:-1]
    assert list(without_noise(iter(lines))) == lines
    endless = [b"Traceback (most recent call last):\n", *[b"  more\n"] * 1000]
    assert len(list(without_noise(iter(endless)))) == 1001


def test_what_is_started_meanwhile_is_filtered(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys; sys.stderr.write('WARNING: Using incubator modules: x\\nwell\\n')"
    with quiet_start():
        subprocess.run([sys.executable, "-c", code], check=True)
    os.write(2, b"after\n")
    with suppress(RuntimeError), quiet_start():
        os.write(2, b"why\n")
        raise RuntimeError
    found = capfd.readouterr().err
    assert "incubator" not in found
    assert {"after", "why"} <= set(found.split())
