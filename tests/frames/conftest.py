"""A stream of five bids, with timestamps."""

import json
from pathlib import Path

import pytest

import anabranch as ab

ROWS = [(1, 80.0, 1), (2, 15.0, 4), (1, 95.0, 7), (2, 20.0, 12), (1, 90.0, 21)]


@pytest.fixture
def bids(tmp_path: Path) -> ab.Stream:
    lines = [
        json.dumps({"item": i, "price": p, "at": f"2026-11-01T10:00:{s:02d}"}) for i, p, s in ROWS
    ]
    path = tmp_path / "bids.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return ab.Engine().stream(path, start="at", delay="10 s", name="Bid")
