"""One row of a .jsonl or .parquet file as a document's content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trie_service.admin.corpus.document import Content, Conversation, Message, TokenArray, TokenIds

TOKEN_FIELDS = ("tokens", "token_ids", "input_ids")
CONTEXT_LEN = 32  # tokens of an answer's context that are sent with it: the longest that an index matches
MAX_TOKEN_ID = (1 << 24) - 1


class BadRowError(ValueError):
    """A row that is no document; the text says why."""


class RowReader:
    """Understands rows, one after the other: an answer of a trace has the earlier rows for a context."""

    def __init__(self, text_field: str) -> None:
        self._text_field = text_field
        self._trace_id: object = None
        self._trace: TokenArray = np.empty(0, np.int64)  # the newest tokens of the conversation

    def content(self, row: object) -> Content:
        """What a row holds; raise BadRowError."""
        if not isinstance(row, dict):
            raise BadRowError("not a JSON object")
        if "out" in row and "delta" in row:
            return self._answer(row)
        for field in TOKEN_FIELDS:
            if row.get(field) is not None:
                return _tokens_with_context(row, field)
        if row.get(self._text_field) is not None:
            return _text(row[self._text_field], self._text_field)
        if row.get("messages") is not None:
            return _conversation(row["messages"])
        raise BadRowError(f'none of "{self._text_field}", "messages", "tokens" and "out" with "delta"')

    def _answer(self, row: Mapping[str, Any]) -> TokenIds:
        delta, out = token_array(row["delta"]), token_array(row["out"])
        is_same = row.get("id") is not None and row["id"] == self._trace_id
        context = np.concatenate([self._trace, delta] if is_same else [delta])[-CONTEXT_LEN:]
        whole = np.concatenate([context, out])
        self._trace_id, self._trace = row.get("id"), whole[-CONTEXT_LEN:]
        return TokenIds(whole, len(context)) if len(out) else TokenIds(out)


def token_array(value: object) -> TokenArray:
    """Token ids out of foreign values; raise BadRowError naming a wrong one."""
    try:
        found = np.asarray(value)
    except (ValueError, OverflowError) as error:
        raise BadRowError(f"not a list of token ids: {error}") from error
    if found.ndim != 1 or (len(found) and found.dtype.kind not in "iu"):
        raise BadRowError("not a list of whole numbers")
    wrong = (found < 0) | (found > MAX_TOKEN_ID)
    if wrong.any():
        raise BadRowError(f"{found[wrong.argmax()]} is no token id")
    return found.astype(np.int64)


def _tokens_with_context(row: Mapping[str, Any], field: str) -> TokenIds:
    ids, context_len = token_array(row[field]), row.get("context_len", 0)
    if type(context_len) is not int or not 0 <= context_len <= len(ids):
        raise BadRowError(f"context_len {context_len!r} is not within the {len(ids)} tokens")
    return TokenIds(ids, context_len)


def _conversation(value: object) -> Conversation:
    if not isinstance(value, list) or not all(isinstance(turn, dict) for turn in value):
        raise BadRowError('"messages" is not a list of objects')
    try:
        turns = [(turn["role"], turn["content"]) for turn in value]
    except KeyError as error:
        raise BadRowError(f"a message without {error}") from error
    return Conversation(tuple(Message(_text(role, "role"), _text(said, "content")) for role, said in turns))


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise BadRowError(f'"{field}" is {value!r:.40}, not a text')
    return value
