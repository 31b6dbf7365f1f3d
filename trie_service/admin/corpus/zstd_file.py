"""A .zst file to read, which says so when it breaks off: zstandard's own reader just ends."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

from trie_service.admin.extras import required

CHUNK_BYTES = 1 << 17


class ZstdFile(io.RawIOBase):
    """The frames of a file, one after the other. Reading raises EOFError or zstandard's ZstdError."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decompressor = required("zstandard", ".zst files").ZstdDecompressor()
        self._frame = self._decompressor.decompressobj()
        self._has_begun = False  # the frame
        self._packed = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - a buffer
        """The next bytes; 0 at the end."""
        while not self._ready and self._feed():
            pass
        room = memoryview(buffer).cast("B")
        num_bytes = min(len(room), len(self._ready))
        room[:num_bytes] = self._ready[:num_bytes]
        self._ready = self._ready[num_bytes:]
        return num_bytes

    def _feed(self) -> bool:
        """Decompress some more; False at the end of the file."""
        packed = self._packed or self._file.read(CHUNK_BYTES)
        if not packed:
            if self._has_begun:
                raise EOFError("the file breaks off within a compressed frame")
            return False
        self._ready = memoryview(self._frame.decompress(packed))
        self._packed, self._has_begun = b"", True
        if self._frame.eof:
            self._packed = self._frame.unused_data
            self._frame, self._has_begun = self._decompressor.decompressobj(), False
        return True
