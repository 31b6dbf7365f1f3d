"""The file that a namespace is exported to: its text and what it is called, and a checksum.

- 8 bytes: ``MAGIC``; 4 bytes: format version; 4 bytes: length of the header (little-endian, all of them)
- the header: JSON with ``name``, ``fingerprint``, ``vocab_size``, ``limits``, ``num_words``, ``num_rows``
- the words: int32, oldest first; a token, a token + 2^30 for context, -1 after each sequence
- the rows: 5 int64 each, one a named sequence: hash of its name, when it was learned (ms since 1970), distance
  of its first word from the end, its words, its tokens
- 32 bytes: SHA-256 of all before

A trie is grown anew from the text, so a file neither depends on the trie's layout nor can it harm it.
"""

from __future__ import annotations

import json
import struct
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

import numpy as np

from trie_service.errors import ExportFileError
from trie_service.ledger import NUM_COLUMNS, Int64Array
from trie_service.namespace import NamespaceLimits, NamespaceRecord, NamespaceRef
from trie_service.sequence import Int32Array
from trie_service.trie_arrays import SEPARATOR, TOKEN_MASK

MAGIC: Final = b"\x89DWNS\r\n\x1a"  # no text file begins so, and no text transfer leaves it as it is
VERSION: Final = 1

_PREAMBLE: Final = struct.Struct("<8sII")
_CHECKSUM_LEN: Final = 32


@dataclass(frozen=True, slots=True, eq=False)
class ExportedNamespace:
    """What a file holds."""

    record: NamespaceRecord
    words: Int32Array  # [words]
    rows: Int64Array  # [sequences, column]


def encode(exported: ExportedNamespace) -> bytes:
    """The file of a namespace."""
    record = exported.record
    header = {
        "name": record.name,
        "fingerprint": record.fingerprint,
        "vocab_size": record.vocab_size,
        "limits": asdict(record.limits),
        "num_words": len(exported.words),
        "num_rows": len(exported.rows),
    }
    text = json.dumps(header).encode()
    words, rows = exported.words.astype("<i4").tobytes(), exported.rows.astype("<i8").tobytes()
    body = b"".join((_PREAMBLE.pack(MAGIC, VERSION, len(text)), text, words, rows))
    return body + sha256(body).digest()


def decode(data: bytes | bytearray) -> ExportedNamespace:
    """What a file holds, under a new incarnation; raise ExportFileError for one that cannot be trusted."""
    header, body = _checked(memoryview(data))
    try:
        record = NamespaceRecord.new(
            NamespaceRef(_text(header, "name"), _text(header, "fingerprint")),
            _number(header, "vocab_size"),
            _limits(header["limits"]),
        )
        num_words, num_rows = int(header["num_words"]), int(header["num_rows"])
    except (KeyError, TypeError, ValueError) as error:
        raise ExportFileError(f"the file's header makes no sense: {error!r}") from error
    if min(num_words, num_rows) < 0 or len(body) != 4 * num_words + 8 * NUM_COLUMNS * num_rows:
        raise ExportFileError(f"the file has {len(body)} bytes of text, not what its header says")
    words = np.frombuffer(body[: 4 * num_words], dtype="<i4").astype(np.int32)
    rows = np.frombuffer(body[4 * num_words :], dtype="<i8").astype(np.int64).reshape(num_rows, NUM_COLUMNS)
    _check_words(words, record.vocab_size)
    return ExportedNamespace(record, words, rows)


def _checked(data: memoryview) -> tuple[dict[str, Any], memoryview]:
    """Header and body of a file that is whole."""
    if len(data) < _PREAMBLE.size or bytes(data[: len(MAGIC)]) != MAGIC:
        raise ExportFileError("the file is no export of a namespace")
    _, version, header_len = _PREAMBLE.unpack(data[: _PREAMBLE.size])
    if version != VERSION:
        raise ExportFileError(
            f"the file has format {version} and this version of trie-service reads format {VERSION}"
        )
    if sha256(data[:-_CHECKSUM_LEN]).digest() != bytes(data[-_CHECKSUM_LEN:]):
        raise ExportFileError("the file is damaged or cut short: its checksum does not match")
    start = _PREAMBLE.size + header_len
    try:
        header = json.loads(bytes(data[_PREAMBLE.size : start]))
    except ValueError as error:
        raise ExportFileError(f"the file's header makes no sense: {error}") from error
    if not isinstance(header, dict):
        raise ExportFileError("the file's header is no JSON object")
    return header, data[start:-_CHECKSUM_LEN]


def _limits(found: object) -> NamespaceLimits:
    if not isinstance(found, dict):
        raise ExportFileError(f"the file's limits are {found!r:.40}, not an object")
    return NamespaceLimits(**{name: _number(found, name) for name in found})


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise ExportFileError(f"the file's {name} is {value!r:.40}, not a text")
    return value


def _number(fields: dict[str, Any], name: str) -> int:
    """Replicas read it back from the store: nothing else must get there."""
    value = fields[name]
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ExportFileError(f"the file's {name} is {value!r:.40}, not a whole number")
    return value


def _check_words(words: Int32Array, vocab_size: int) -> None:
    if len(words) == 0:
        return
    wrong = words[(words < SEPARATOR) | ((words & TOKEN_MASK >= vocab_size) & (words != SEPARATOR))]
    if len(wrong) > 0:
        raise ExportFileError(f"the file holds {int(wrong[0])}, which is no token below {vocab_size}")
    if words[-1] != SEPARATOR:
        raise ExportFileError("the file's text ends within a sequence")
