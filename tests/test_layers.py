"""What import-linter cannot see: which modules are loaded when a program starts."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["anabranch", "anabranch.cli.app", "anabranch.testing"])
def test_importing_it_does_not_load_spark(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{'pyspark', 'py4j'}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
