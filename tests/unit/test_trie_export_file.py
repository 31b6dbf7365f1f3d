"""The file of a namespace: whole, or refused."""

from __future__ import annotations

import json
import struct
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trie_service.errors import ExportFileError, TrieServiceError
from trie_service.export_file import MAGIC, ExportedNamespace, decode, encode
from trie_service.namespace import NamespaceLimits, NamespaceRecord, NamespaceRef

RECORD = NamespaceRecord.new(NamespaceRef("chat", "fp"), 10, NamespaceLimits(1 << 20, 5, 60))
WORDS = np.array([1, 2, -1, 3 | 1 << 30, 4, -1], dtype=np.int32)
ROWS = np.array([[-7, 1000, 6, 3, 2], [8, 1001, 3, 3, 1]], dtype=np.int64)
FILE = encode(ExportedNamespace(RECORD, WORDS, ROWS))


def file_with(words: np.ndarray = WORDS, **changes: object) -> bytes:
    """A file whose checksum is right, whatever it says."""
    header = {
        "name": "chat",
        "fingerprint": "fp",
        "vocab_size": 10,
        "limits": {"max_bytes": 0, "max_tokens_per_second": 0, "text_ttl_s": 0},
        "num_words": len(words),
        "num_rows": 0,
    }
    return file_of(json.dumps(header | changes).encode(), words.astype("<i4").tobytes())


def file_of(header: bytes, body: bytes, version: int = 1) -> bytes:
    data = struct.pack("<8sII", MAGIC, version, len(header)) + header + body
    return data + sha256(data).digest()


def test_a_file_gives_back_what_went_into_it_under_a_new_incarnation() -> None:
    found = decode(FILE)
    assert (found.record.name, found.record.fingerprint, found.record.vocab_size) == ("chat", "fp", 10)
    assert found.record.limits == RECORD.limits
    assert found.record.incarnation != RECORD.incarnation
    assert found.words.tolist() == WORDS.tolist()
    assert found.rows.tolist() == ROWS.tolist()


@pytest.mark.parametrize("length", [*range(0, len(FILE), 7), len(FILE) - 1])
def test_a_file_that_is_cut_short_is_refused(length: int) -> None:
    with pytest.raises(ExportFileError, match=r"cut short|no export"):
        decode(FILE[:length])


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.integers(0, len(FILE) - 1), st.integers(1, 255))
def test_a_file_with_any_other_byte_is_refused(at: int, change: int) -> None:
    damaged = bytearray(FILE)
    damaged[at] ^= change
    with pytest.raises(ExportFileError):
        decode(damaged)


def test_an_unknown_version_is_named() -> None:
    with pytest.raises(ExportFileError, match=r"format 2 .* reads format 1"):
        decode(file_of(b"{}", b"", version=2))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no export"),
        (b"\x80\x04pickle" * 100, "no export"),
        (file_of(b"[]", b""), "no JSON object"),
        (file_of(b"nonsense", b""), "header makes no sense"),
        (file_of(b"\xff", b""), "header makes no sense"),
        (file_of(b"{}", b""), "'name'"),
        (file_with(num_words=99), "not what its header says"),
        (file_with(num_words=-1), "not what its header says"),
        (file_with(np.zeros(9), num_words=-1, num_rows=1), "not what its header says"),
        (file_with(num_words="many"), "header makes no sense"),
        (file_with(limits={"colour": 1}), "colour"),
        (file_with(np.array([10, -1])), "10, which is no token below 10"),
        (file_with(np.array([-2, -1])), "-2, which is no token"),
        (file_with(np.array([1, 2])), "ends within a sequence"),
        (file_with(name="a b"), "'a b'"),
        (file_with(name=7), "name is 7, not a text"),
        (file_with(vocab_size=0), "vocab_size 0"),
        (file_with(fingerprint=""), "without a fingerprint"),
        (file_with(fingerprint=["fp"]), "fingerprint is \\['fp'\\], not a text"),
        (file_with(vocab_size=10.5), "vocab_size is 10.5, not a whole number"),
        (file_with(vocab_size=True), "vocab_size is True"),
        (file_with(limits={"max_tokens_per_second": "x"}), "max_tokens_per_second is 'x', not a whole"),
        (file_with(limits={"text_ttl_s": -1}), "text_ttl_s is -1, not a whole number"),
        (file_with(limits={"max_bytes": 1 << 64}), "max_bytes is 18446744073709551616, not a whole"),
        (file_with(limits=[]), "limits are"),
    ],
)
def test_what_makes_no_sense_is_refused_and_named(data: bytes, message: str) -> None:
    with pytest.raises(TrieServiceError, match=message):
        decode(data)


def test_a_namespace_without_text_has_a_file_too() -> None:
    empty = ExportedNamespace(RECORD, WORDS[:0], ROWS[:0])
    assert decode(encode(empty)).words.tolist() == []
