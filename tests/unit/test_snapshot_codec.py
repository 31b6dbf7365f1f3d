"""Snapshots as bytes: what is written is read, and whatever is damaged is refused."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from trie_service.errors import SnapshotCorruptError, UnsupportedFormatError
from trie_service.snapshot import Snapshot
from trie_service.snapshot_codec import (
    CHUNK_BYTES,
    MAGIC,
    ArrayHeader,
    SnapshotEncoder,
    SnapshotHeader,
    decode_snapshot,
)

SEED = 5
NUM_DAMAGES = 300


def snapshot() -> Snapshot:
    rng = np.random.default_rng(SEED)
    arrays = {
        "extra": rng.integers(0, 9, size=(3, 4), dtype=np.int64),
        "big": rng.integers(0, 3, size=CHUNK_BYTES // 4 + 11, dtype=np.int32),
        "none": np.empty((0, 2), dtype=np.float32),
        "wide": np.arange(6, dtype=">i2")[::2],
    }
    return Snapshot("17-3", 42, arrays, {"name": "ü", "counts": [1, 2]})


def encoded(value: Snapshot) -> tuple[bytes, list[bytes]]:
    encoder = SnapshotEncoder(value)
    chunks = list(encoder.chunks())
    return encoder.header(), chunks


def header_with(**changes: object) -> bytes:
    header, _ = encoded(Snapshot("1-0", 1, {"a": np.zeros(4, dtype=np.int32)}))
    fields = json.loads(header[24:]) | changes
    arrays = tuple(ArrayHeader(**(entry | {"shape": tuple(entry["shape"])})) for entry in fields["arrays"])
    return SnapshotHeader(fields["position"], fields["number"], arrays, tuple(fields["digests"])).to_bytes()


def test_what_is_written_is_read() -> None:
    value = snapshot()
    found = decode_snapshot(*encoded(value))
    assert (found.position, found.number, found.extra) == (value.position, value.number, value.extra)
    assert found.arrays.keys() == value.arrays.keys()
    for name, array in value.arrays.items():
        assert found.arrays[name].shape == array.shape
        assert found.arrays[name].tolist() == array.tolist()
    assert found.num_bytes == value.num_bytes


def test_chunks_stay_within_their_size() -> None:
    header, chunks = encoded(snapshot())
    assert len(chunks) == 1 + 1 + 2 + 0 + 1
    assert all(len(chunk) <= CHUNK_BYTES + 1024 for chunk in (header, *chunks))


def test_every_changed_byte_is_found() -> None:
    header, chunks = encoded(snapshot())
    rng = random.Random(SEED)
    for _ in range(NUM_DAMAGES):
        parts = [header, *chunks]
        which = rng.randrange(len(parts))
        at = rng.randrange(len(parts[which]))
        damaged = bytearray(parts[which])
        damaged[at] ^= 1 << rng.randrange(8)
        parts[which] = bytes(damaged)
        with pytest.raises((SnapshotCorruptError, UnsupportedFormatError)):
            decode_snapshot(parts[0], parts[1:])


@pytest.mark.parametrize("cut", [0, 3, 7, 23, 24, 60])
def test_a_header_that_was_cut_short_is_refused(cut: int) -> None:
    header, chunks = encoded(snapshot())
    with pytest.raises(SnapshotCorruptError, match="header"):
        decode_snapshot(header[:cut], chunks)


def test_missing_too_many_and_mixed_up_chunks_are_refused() -> None:
    header, chunks = encoded(snapshot())
    for wrong in (chunks[:-1], [], [*chunks, chunks[0]], chunks[::-1]):
        with pytest.raises(SnapshotCorruptError, match="chunk"):
            decode_snapshot(header, wrong)


def test_an_unknown_format_is_refused_before_anything_else_is_read() -> None:
    header, chunks = encoded(snapshot())
    newer = MAGIC + (2).to_bytes(2, "little") + b"whatever that version writes"
    with pytest.raises(UnsupportedFormatError, match=r"format 2 .* reads format 1"):
        decode_snapshot(newer, chunks)
    assert header[len(MAGIC)] == 1


@pytest.mark.parametrize(
    "arrays",
    [
        [],
        [{"name": "extra", "dtype": "|u1", "shape": [-5]}],
        [{"name": "extra", "dtype": "O", "shape": [2]}],
        [{"name": "extra", "dtype": "no type", "shape": [2]}],
        [{"name": "extra", "dtype": "|u1", "shape": [1 << 60]}],
        [{"name": "other", "dtype": "|u1", "shape": [2]}],
    ],
)
def test_a_header_that_claims_nonsense_is_refused(arrays: list[dict[str, object]]) -> None:
    with pytest.raises(SnapshotCorruptError, match="makes no sense"):
        decode_snapshot(header_with(arrays=arrays), [])


def test_a_chunk_that_unpacks_to_more_than_it_should_is_refused() -> None:
    _, chunks = encoded(Snapshot("1-0", 1, {"a": np.zeros(CHUNK_BYTES // 4, dtype=np.int32)}))
    header, small = encoded(Snapshot("1-0", 1, {"a": np.zeros(4, dtype=np.int32)}))
    fields = json.loads(header[24:])
    _, bomb = encoded(Snapshot("1-0", 1, {"b": np.zeros(CHUNK_BYTES // 4, dtype=np.int32)}))
    big_header = json.loads(
        encoded(Snapshot("1-0", 1, {"b": np.zeros(CHUNK_BYTES // 4, dtype=np.int32)}))[0][24:]
    )
    swapped = header_with(digests=[fields["digests"][0], big_header["digests"][1]])
    assert chunks[1] == bomb[1]
    with pytest.raises(SnapshotCorruptError, match="unpacks to"):
        decode_snapshot(swapped, [small[0], bomb[1]])


def test_only_numbers_can_be_kept() -> None:
    with pytest.raises(ValueError, match="cannot hold an array of object"):
        SnapshotEncoder(Snapshot("1-0", 1, {"a": np.array([object()])}))
