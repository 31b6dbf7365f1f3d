"""Names and places of what a ring of words holds."""

from __future__ import annotations

import numpy as np
import pytest

from trie_service.ledger import ROWS_AT_ONCE, Ledger, Row, hash_of


def filled(*lengths: int) -> Ledger:
    ledger = Ledger()
    start = 0
    for number, length in enumerate(lengths):
        ledger.add(Row(hash_of(str(number)), 1000 + number, start, length, length - 1))
        start += length
    return ledger


def test_a_row_is_found_by_its_name_until_it_is_removed() -> None:
    ledger = filled(3, 4)
    row = ledger.find("1")
    assert row == Row(hash_of("1"), 1001, 3, 4, 3)
    ledger.remove(row)
    assert ledger.find("1") is None
    assert len(ledger) == 1


def test_rows_leave_once_their_last_word_has_left() -> None:
    ledger = filled(3, 4, 5)
    ledger.drop_before(6)
    assert ledger.find("0") is None
    assert ledger.oldest() == ledger.find("1")
    ledger.drop_before(12)
    assert ledger.oldest() is None


def test_an_array_gives_the_rows_back_wherever_the_ring_ends_then() -> None:
    rows = filled(3, 4).to_array(end=10)
    ledger = Ledger.from_array(rows, end=110)
    assert ledger.find("1") == Row(hash_of("1"), 1001, 103, 4, 3)


def test_many_rows_become_an_array_and_rows_again() -> None:
    lengths = [1 + number % 7 for number in range(2 * ROWS_AT_ONCE + 3)]
    ledger = filled(*lengths)
    rows = ledger.to_array(end=sum(lengths))
    again = Ledger.from_array(rows, end=sum(lengths))
    assert rows.shape == (len(lengths), 5)
    for number in range(len(lengths)):
        assert again.find(str(number)) == ledger.find(str(number)) is not None


@pytest.mark.parametrize(
    "rows",
    [
        np.zeros((1, 4), dtype=np.int64),
        np.zeros((1, 5), dtype=np.int32),
        np.array([[1, 0, 5, 6, 1]], dtype=np.int64),  # ends after the ring
        np.array([[1, 0, 9, 5, 1], [2, 0, 8, 3, 1]], dtype=np.int64),  # they overlap
        np.array([[1, 0, 9, 2, 1], [1, 0, 5, 2, 1]], dtype=np.int64),  # one name twice
        np.array([[1, 0, 9, -2, 1]], dtype=np.int64),
    ],
)
def test_rows_that_make_no_sense_are_refused(rows: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"rows? "):
        Ledger.from_array(rows, end=10)
