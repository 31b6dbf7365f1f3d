"""Columns and arrays: .parquet and .npy files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trie_service.admin.corpus.document import BadLine, Document, TokenIds
from trie_service.admin.corpus.rows import CONTEXT_LEN, BadRowError, RowReader, token_array
from trie_service.admin.corpus.sources import Source
from trie_service.admin.extras import required

ROWS_PER_BATCH = 1024
PIECE_LEN = 16384  # tokens of a long .npy array that are learned as one sequence


def read_parquet(source: Source, rows: RowReader) -> Iterator[Document | BadLine]:
    """One document a row, from the columns that a .jsonl file's fields would be."""
    assert source.path is not None
    parquet = required("pyarrow.parquet", ".parquet files")
    with parquet.ParquetFile(source.path) as file:
        total, number = file.metadata.num_rows, 0
        for batch in file.iter_batches(ROWS_PER_BATCH):
            for row in batch.to_pylist():
                number += 1
                yield _row_item(source, rows, row, number=number, end=source.num_bytes * number // total)


def _row_item(source: Source, rows: RowReader, row: object, *, number: int, end: int) -> Document | BadLine:
    place = f"{source.name}:{number}"
    try:
        return Document(source.identity, place, number, rows.content(row), end)
    except BadRowError as error:
        return BadLine(source.identity, place, number, str(error), end)


def read_npy(source: Source) -> Iterator[Document | BadLine]:
    """Each row of a [rows, len] array a document, or pieces of a [len] array; raise ValueError, OSError."""
    assert source.path is not None
    array = np.load(source.path, mmap_mode="r", allow_pickle=False)
    if array.ndim not in {1, 2} or array.dtype.kind not in "iu":
        raise ValueError(f"an array of {array.dtype} with shape {array.shape}, not of token ids")
    starts = range(0, len(array), 1 if array.ndim == 2 else PIECE_LEN)
    for position, start in enumerate(starts, start=1):
        context_len = 0 if array.ndim == 2 else min(start, CONTEXT_LEN)
        part = array[start] if array.ndim == 2 else array[start - context_len : start + PIECE_LEN]
        place, end = f"{source.name}:{position}", source.num_bytes * position // len(starts)
        try:
            yield Document(source.identity, place, position, TokenIds(token_array(part), context_len), end)
        except BadRowError as error:
            yield BadLine(source.identity, place, position, str(error), end)
