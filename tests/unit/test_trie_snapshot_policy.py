"""When snapshots are due."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trie_service.snapshot_policy import IDLE_INTERVALS, SnapshotPolicy
from trie_service.store import Stored

NOW_MS = 10_000_000
POLICY = SnapshotPolicy(interval_s=10, log_bytes=100, grace_s=5)
WRITTEN = Stored(
    head=9, log_bytes=100, snapshot_bytes=1, snapshot_number=5, snapshot_ms=NOW_MS - 10_000, now_ms=NOW_MS
)


def is_due(stored: Stored, *, since_ms: int = NOW_MS, is_partial: bool = False) -> bool:
    return POLICY.is_due(stored, since_ms=since_ms, is_partial=is_partial)


def test_a_long_log_is_worth_a_snapshot_once_the_last_one_is_old_enough() -> None:
    assert is_due(WRITTEN)
    assert not is_due(replace(WRITTEN, snapshot_ms=NOW_MS - 9_000))
    assert not is_due(replace(WRITTEN, log_bytes=99))


def test_a_short_log_waits_long_but_not_for_ever() -> None:
    short = replace(WRITTEN, log_bytes=1)
    assert not is_due(replace(short, snapshot_ms=NOW_MS - 10_000 * IDLE_INTERVALS + 1))
    assert is_due(replace(short, snapshot_ms=NOW_MS - 10_000 * IDLE_INTERVALS))


def test_without_news_there_is_nothing_to_write() -> None:
    assert not is_due(replace(WRITTEN, head=5, snapshot_ms=1))
    assert not is_due(Stored(now_ms=NOW_MS), since_ms=0)


def test_the_first_snapshot_waits_as_long_as_any_other() -> None:
    first = replace(WRITTEN, snapshot_ms=0, snapshot_number=0)
    assert not is_due(first, since_ms=NOW_MS - 9_000)
    assert is_due(first, since_ms=NOW_MS - 10_000)


@pytest.mark.parametrize("is_rejected", [True, False])
def test_who_lost_text_waits_for_one_who_has_it(is_rejected: bool) -> None:
    rejected = replace(WRITTEN, snapshot_ms=0, is_snapshot_rejected=is_rejected)
    assert not is_due(rejected, since_ms=NOW_MS - 4_999, is_partial=True)
    assert is_due(rejected, since_ms=NOW_MS - 5_000, is_partial=True)


def test_who_has_all_the_text_replaces_a_damaged_snapshot_at_once() -> None:
    assert is_due(replace(WRITTEN, snapshot_ms=0, is_snapshot_rejected=True))
