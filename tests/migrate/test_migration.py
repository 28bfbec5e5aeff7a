"""Who asked for a change waits for it, and learns what has become of it."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from anabranch.errors import EngineError, PlanError
from anabranch.migrate.migration import Migration
from anabranch.migrate.request import earliest
from anabranch.model.clock import INTEGERS
from anabranch.model.time import BEGINNING, FOREVER
from anabranch.runtime.store.migrations import MigrationRecord, MigrationState, MigrationVerb

RECORD = MigrationRecord(number=3, what="q")


@pytest.mark.parametrize(
    ("state", "hint"), [("requested", "ask for the change again"), ("switched", "goes on")]
)
def test_who_waits_is_told_that_the_query_has_ended(state: MigrationState, hint: str) -> None:
    over = threading.Event()
    migration = Migration(replace(RECORD, state=state), INTEGERS, over.is_set)
    threading.Timer(0.05, over.set).start()
    with pytest.raises(EngineError, match=f"has ended while change 3 was {state}") as raised:
        migration.await_finished()
    assert hint in raised.value.hint


def test_a_change_in_the_last_batch_has_been_made() -> None:
    migration = Migration(RECORD, INTEGERS)

    def ends() -> bool:
        migration.update(replace(RECORD, state="finished", at=7))
        return True

    migration = Migration(RECORD, INTEGERS, ends)
    assert migration.await_finished().at == 7


def test_waiting_ends_with_its_time() -> None:
    migration = Migration(RECORD, INTEGERS)
    began = time.monotonic()
    with pytest.raises(EngineError, match=r"still requested after 0\.1 seconds"):
        migration.await_switched(0.1)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    ("verb", "what"),
    [("change", "was not changed: no"), ("add", "has not joined: no"), ("drop", "has not left")],
)
def test_a_refusal_says_what_has_not_happened(verb: MigrationVerb, what: str) -> None:
    migration = Migration(replace(RECORD, verb=verb, state="refused", reason="no"), INTEGERS)
    with pytest.raises(PlanError, match=what) as raised:
        migration.await_finished()
    assert (raised.value.where, "as it was" in raised.value.hint) == ("change 3", verb == "change")


def test_no_answer_counts_from_forever_on() -> None:
    assert earliest(None, INTEGERS, where="q") == BEGINNING
    assert earliest("40", INTEGERS, where="q") == 40
    for never in ("forever", FOREVER):
        with pytest.raises(PlanError, match="would never count") as raised:
            earliest(never, INTEGERS, where="q")
        assert raised.value.where == "q"
