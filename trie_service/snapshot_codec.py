"""Snapshots as bytes: a header, and chunks of at most a mebibyte. No pickle.

The header is MAGIC, the format version (two bytes, little-endian), the digest of the rest, and JSON: position
and number, name, type and shape of each array, the digest of each chunk. A chunk is a piece of one array,
compressed by zlib; the first chunks are those of ``extra`` as JSON. Digests are BLAKE2b of 16 bytes: they show
damage, not malice, so nothing that a header says is believed beyond what the chunks hold.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trie_service.errors import SnapshotCorruptError, UnsupportedFormatError
from trie_service.snapshot import Snapshot

MAGIC: Final = b"DWSNAP"
SNAPSHOT_FORMAT: Final = 1
CHUNK_BYTES: Final = 1 << 20  # before compression
COMPRESSION_LEVEL: Final = 1
EXTRA: Final = "extra"

_DIGEST_BYTES: Final = 16
_PREFIX_BYTES: Final = len(MAGIC) + 2 + _DIGEST_BYTES
_NUMBER_KINDS: Final = "iufb"

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ArrayHeader:
    """One array of a snapshot."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def num_bytes(self) -> int:
        """Its bytes; raise ValueError for what is no array of numbers."""
        dtype = np.dtype(self.dtype)
        if dtype.kind not in _NUMBER_KINDS or any(size < 0 for size in self.shape):
            raise ValueError(f"array {self.name!r} is {self.dtype}{list(self.shape)}")
        return dtype.itemsize * prod(self.shape)

    @property
    def num_chunks(self) -> int:
        """Chunks that hold it."""
        return -(-self.num_bytes // CHUNK_BYTES)


@dataclass(frozen=True, slots=True)
class SnapshotHeader:
    """All of a snapshot but the contents of its arrays."""

    position: str
    number: int
    arrays: tuple[ArrayHeader, ...]  # the first is ``extra``
    digests: tuple[str, ...]  # of the chunks

    def to_bytes(self) -> bytes:
        """The header as it is stored."""
        body = json.dumps(asdict(self)).encode()
        return MAGIC + SNAPSHOT_FORMAT.to_bytes(2, "little") + _digest(body) + body

    @classmethod
    def from_bytes(cls, header: bytes) -> SnapshotHeader:
        """Raise UnsupportedFormatError for an unknown format, SnapshotCorruptError for no sound header."""
        if header[: len(MAGIC)] != MAGIC or len(header) < _PREFIX_BYTES:
            raise SnapshotCorruptError("the snapshot's header is none")
        version = int.from_bytes(header[len(MAGIC) : len(MAGIC) + 2], "little")
        if version != SNAPSHOT_FORMAT:
            raise UnsupportedFormatError(
                f"the snapshot is in format {version} and this version of trie-service reads format "
                f"{SNAPSHOT_FORMAT}: run the version that wrote it"
            )
        body = header[_PREFIX_BYTES:]
        if _digest(body) != header[_PREFIX_BYTES - _DIGEST_BYTES : _PREFIX_BYTES]:
            raise SnapshotCorruptError("the snapshot's header is damaged")
        try:
            return _checked(json.loads(body))
        except (KeyError, TypeError, ValueError) as error:
            raise SnapshotCorruptError(f"the snapshot's header makes no sense: {error!r}") from error


class SnapshotEncoder:
    """Encodes chunk by chunk, then the header."""

    def __init__(self, snapshot: Snapshot) -> None:
        extra = np.frombuffer(json.dumps(dict(snapshot.extra)).encode(), dtype=np.uint8)
        named = {EXTRA: extra} | {f"array:{name}": array for name, array in snapshot.arrays.items()}
        self._snapshot = snapshot
        self._arrays = {name: _little_endian(array) for name, array in named.items()}
        self._digests: list[str] = []

    def chunks(self) -> Iterator[bytes]:
        """The chunks, in order. Each takes some milliseconds, in which other threads run."""
        for array in self._arrays.values():
            data = _bytes_of(array)
            for at in range(0, len(data), CHUNK_BYTES):
                chunk = zlib.compress(data[at : at + CHUNK_BYTES], COMPRESSION_LEVEL)
                self._digests.append(_digest(chunk).hex())
                yield chunk

    def header(self) -> bytes:
        """The header, once all chunks were taken."""
        arrays = (ArrayHeader(name, array.dtype.str, array.shape) for name, array in self._arrays.items())
        snapshot = self._snapshot
        header = SnapshotHeader(snapshot.position, snapshot.number, tuple(arrays), tuple(self._digests))
        return header.to_bytes()


class SnapshotDecoder:
    """Puts a snapshot together from its chunks, which are given to it in order."""

    def __init__(self, header: bytes) -> None:
        """Raise UnsupportedFormatError or SnapshotCorruptError where the header cannot be used."""
        self._header = SnapshotHeader.from_bytes(header)
        self._arrays = {entry.name: np.empty(entry.shape, dtype=entry.dtype) for entry in self._header.arrays}
        self._pieces = self._places()
        self._num_taken = 0

    @property
    def num_chunks(self) -> int:
        """Chunks that make up the snapshot."""
        return len(self._header.digests)

    def add(self, chunk: bytes) -> None:
        """Take the next chunk; raise SnapshotCorruptError for a damaged one."""
        number = self._num_taken
        if number >= self.num_chunks or _digest(chunk).hex() != self._header.digests[number]:
            raise SnapshotCorruptError(f"chunk {number} of {self.num_chunks} of the snapshot is damaged")
        place = next(self._pieces)
        place[:] = _decompressed(chunk, len(place))
        self._num_taken += 1

    def snapshot(self) -> Snapshot:
        """The snapshot; raise SnapshotCorruptError where chunks are missing."""
        if self._num_taken < self.num_chunks:
            raise SnapshotCorruptError(
                f"{self.num_chunks - self._num_taken} chunks of the snapshot are missing"
            )
        arrays = {name.removeprefix("array:"): array for name, array in self._arrays.items() if name != EXTRA}
        try:
            extra = json.loads(self._arrays[EXTRA].tobytes())
        except ValueError as error:
            raise SnapshotCorruptError(f"what goes with the snapshot's arrays is no JSON: {error}") from error
        return Snapshot(self._header.position, self._header.number, arrays, extra)

    def _places(self) -> Iterator[memoryview]:
        for entry in self._header.arrays:
            data = _bytes_of(self._arrays[entry.name])
            for at in range(0, len(data), CHUNK_BYTES):
                yield data[at : at + CHUNK_BYTES]


def decode_snapshot(header: bytes, chunks: Iterable[bytes]) -> Snapshot:
    """The snapshot of a header and all its chunks, with SnapshotDecoder's errors."""
    decoder = SnapshotDecoder(header)
    for chunk in chunks:
        decoder.add(chunk)
    return decoder.snapshot()


def _checked(fields: dict[str, Any]) -> SnapshotHeader:
    arrays = tuple(
        ArrayHeader(str(entry["name"]), str(entry["dtype"]), tuple(map(int, entry["shape"])))
        for entry in fields["arrays"]
    )
    header = SnapshotHeader(str(fields["position"]), int(fields["number"]), arrays, tuple(fields["digests"]))
    num_chunks = sum(entry.num_chunks for entry in arrays)
    if num_chunks != len(header.digests) or not arrays or arrays[0].name != EXTRA:
        raise ValueError(f"{len(header.digests)} chunks for arrays of {num_chunks}")
    return header


def _decompressed(chunk: bytes, size: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(chunk, size + 1)
    except zlib.error as error:
        raise SnapshotCorruptError(f"a chunk of the snapshot does not unpack: {error}") from error
    if len(data) != size:
        raise SnapshotCorruptError(f"a chunk of the snapshot unpacks to {len(data)} bytes, not {size}")
    return data


def _little_endian(array: Array) -> Array:
    """The array as it is stored; raise ValueError for one that is not of numbers."""
    dtype = array.dtype.newbyteorder("<")
    if dtype.kind not in _NUMBER_KINDS:
        raise ValueError(f"a snapshot cannot hold an array of {array.dtype}")
    return np.ascontiguousarray(array, dtype=dtype)


def _bytes_of(array: Array) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data)


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES).digest()
