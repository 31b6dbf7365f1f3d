"""Lines of a file that may be compressed, each with the place in the file that it reaches."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

from trie_service.admin.corpus.sources import Source
from trie_service.admin.corpus.zstd_file import ZstdFile


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a source."""

    number: int  # from 1
    data: bytes  # its end included
    end: int  # bytes of the file that are read by now


@contextmanager
def lines_of(source: Source) -> Iterator[Iterator[Line]]:
    """The lines of a source; reading them raises OSError, EOFError or the decompressor's error."""
    if source.path is None:
        yield _lines(sys.stdin.buffer, None)
        return
    with source.path.open("rb") as file, _decompressed(file, source.compression) as unpacked:
        yield _lines(unpacked, file if source.compression else None)


def _lines(stream: BinaryIO, packed: BinaryIO | None) -> Iterator[Line]:
    end = 0
    for number, data in enumerate(stream, start=1):
        end = packed.tell() if packed else end + len(data)
        yield Line(number, data, end)


@contextmanager
def _decompressed(file: BinaryIO, compression: str) -> Iterator[BinaryIO]:
    if compression == "gz":
        with gzip.open(file, "rb") as unpacked:
            yield cast(BinaryIO, unpacked)
    elif compression == "zst":
        yield io.BufferedReader(ZstdFile(file))
    else:
        yield file
