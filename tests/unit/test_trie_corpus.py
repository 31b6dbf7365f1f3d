"""Reading documents out of files."""

from __future__ import annotations

from pathlib import Path

import pytest

from trie_service.admin.corpus import MAX_TEXT_BYTES, Conversation, Message, TokenIds, read_documents
from trie_service.admin.errors import AdminError


def test_jsonl_holds_texts_conversations_and_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "héllo"}\n\n{"messages": [{"role": "user", "content": "hi"}]}\n{"tokens": [1, 2]}\n'
    )
    documents = list(read_documents(path))
    assert [document.content for document in documents] == [
        "héllo",
        Conversation((Message("user", "hi"),)),
        TokenIds((1, 2)),
    ]
    assert [document.name for document in documents] == ["a.jsonl:1", "a.jsonl:3", "a.jsonl:4"]
    assert sum(document.num_bytes for document in documents) == path.stat().st_size - 1


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "7",
        "{}",
        '{"messages": [{"role": "user"}]}',
        '{"tokens": ["x"]}',
        '{"tokens": 7}',
        '{"text": 7}',
    ],
)
def test_a_line_that_cannot_be_understood_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n')
    with pytest.raises(AdminError, match=r"^a\.jsonl:2: not a JSON object with"):
        list(read_documents(path))


def test_a_text_file_is_cut_at_blank_lines_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    paragraph = "word " * 100 + "\n\n"
    text = paragraph * 200
    path.write_text(text)
    documents = list(read_documents(path))
    assert "".join(str(document.content) for document in documents) == text
    assert sum(document.num_bytes for document in documents) == path.stat().st_size
    assert all(document.num_bytes < MAX_TEXT_BYTES + len(paragraph) for document in documents)
    assert len(documents) > 1


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AdminError, match=r"neither \.txt nor \.jsonl"):
        list(read_documents(tmp_path / "a.csv"))


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AdminError, match=r"a\.txt"):
        list(read_documents(path))
