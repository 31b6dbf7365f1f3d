"""Reading documents out of files of every kind."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from pyarrow import parquet

from trie_service.admin.corpus import (
    BadLine,
    Content,
    Conversation,
    Document,
    EndOfSource,
    Item,
    Message,
    ReadOptions,
    TokenIds,
    find_sources,
    read_corpus,
)
from trie_service.admin.corpus.arrays import PIECE_LEN
from trie_service.admin.corpus.reading import LONGEST_TEXT_BYTES, MAX_TEXT_BYTES
from trie_service.admin.corpus.rows import CONTEXT_LEN
from trie_service.admin.errors import AdminError, UsageError

ROWS = (
    {"text": "héllo"},
    {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]},
    {"tokens": [1, 2, 3], "context_len": 1},
)
CONTENTS = ("héllo", Conversation((Message("user", "hi"), Message("assistant", "ho"))), ((1, 2, 3), 1))


def read(*arguments: str | Path, kind: str = "", text_field: str = "text") -> list[Item]:
    return list(read_corpus(find_sources(map(str, arguments), kind), ReadOptions(text_field)))


def plain(content: Content) -> object:
    """Token ids as a tuple: arrays do not compare."""
    return (tuple(content.ids.tolist()), content.context_len) if isinstance(content, TokenIds) else content


def contents(items: list[Item]) -> list[object]:
    return [plain(item.content) for item in items if isinstance(item, Document)]


def bad_lines(items: list[Item]) -> list[BadLine]:
    return [item for item in items if isinstance(item, BadLine)]


def jsonl(*rows: object) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def test_jsonl_holds_texts_conversations_and_tokens(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(ROWS[0]) + b"\n" + jsonl(*ROWS[1:]))
    items = read(path)
    assert contents(items) == list(CONTENTS)
    assert [item.place for item in items if isinstance(item, Document)] == [
        f"{path}:{line}" for line in (1, 3, 4)
    ]
    assert items[-1] == EndOfSource(str(path), path.stat().st_size)
    assert items[-2].end == path.stat().st_size


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.parquet"])
def test_packed_files_hold_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(jsonl(*ROWS)))
    elif name.endswith(".zst"):
        frames = zstandard.ZstdCompressor()
        path.write_bytes(frames.compress(jsonl(*ROWS[:1])) + frames.compress(jsonl(*ROWS[1:])))
    else:
        names = {name for row in ROWS for name in row}
        columns = {name: [row.get(name) for row in ROWS] for name in names} | {"context_len": [None, None, 1]}
        parquet.write_table(pa.table(columns), path)
    items = read(path)
    assert not bad_lines(items)
    assert contents(items) == list(CONTENTS)
    assert items[-1].end == path.stat().st_size
    ends = [item.end for item in items]
    assert ends == sorted(ends)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[]", "not a JSON object"),
        ("7", "not a JSON object"),
        ("{}", 'none of "text", "messages", "tokens"'),
        ('{"messages": [{"role": "user"}]}', "a message without 'content'"),
        ('{"messages": "hi"}', "not a list of objects"),
        ('{"messages": [{"role": "user", "content": null}]}', "not a text"),
        ('{"tokens": ["x"]}', "not a list of whole numbers"),
        ('{"tokens": [1.5]}', "not a list of whole numbers"),
        ('{"tokens": [true]}', "not a list of whole numbers"),
        ('{"tokens": [[1], [2]]}', "not a list of whole numbers"),
        ('{"tokens": [[1], [2, 3]]}', "not a list of token ids"),
        ('{"tokens": [1, -2]}', "-2 is no token id"),
        ('{"tokens": [16777216]}', "16777216 is no token id"),
        ('{"tokens": [99999999999999999999]}', "not a list of whole numbers"),
        ('{"tokens": 7}', "not a list of whole numbers"),
        ('{"tokens": [1], "context_len": 2}', "context_len 2 is not within the 1 tokens"),
        ('{"tokens": [1], "context_len": "x"}', "context_len 'x'"),
        ('{"text": 7}', '"text" is 7, not a text'),
        ("[" * 100_000, "recursion"),
    ],
)
def test_a_line_that_cannot_be_understood_is_named_and_left_out(
    tmp_path: Path, line: str, reason: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "fine"}}\n{line}\n{{"text": "also fine"}}\n')
    items = read(path)
    (bad,) = bad_lines(items)
    assert bad.place == f"{path}:2"
    assert reason in bad.reason
    assert contents(items) == ["fine", "also fine"]


def test_the_text_may_be_in_another_field(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl({"body": "hi", "text": "no"}))
    assert contents(read(path, text_field="body")) == ["hi"]


@pytest.mark.parametrize("field", ["token_ids", "input_ids"])
def test_tokens_have_the_names_that_others_use(tmp_path: Path, field: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl({field: [4, 5], "text": "ignored"}))
    assert contents(read(path)) == [((4, 5), 0)]


def test_an_answer_of_a_trace_has_the_conversation_for_a_context(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        jsonl(
            {"id": "x", "turn": 0, "delta": [1, 2], "out": [3]},
            {"id": "x", "turn": 1, "delta": [4], "out": [5, 6]},
            {"id": "y", "turn": 0, "delta": list(range(100, 200)), "out": [7]},
            {"id": "y", "turn": 1, "delta": [8], "out": []},
        )
    )
    found = contents(read(path))
    assert found[:2] == [((1, 2, 3), 2), ((1, 2, 3, 4, 5, 6), 4)]
    assert found[2] == ((*range(200 - CONTEXT_LEN, 200), 7), CONTEXT_LEN)
    assert found[3] == ((), 0)


def test_a_text_file_is_cut_at_blank_lines_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    paragraph = "word " * 100 + "\n\n"
    text = paragraph * 200
    path.write_text(text)
    items = read(path)
    texts = [str(content) for content in contents(items)]
    assert "".join(texts) == text
    assert len(texts) > 1
    assert max(map(len, texts)) < MAX_TEXT_BYTES + len(paragraph)
    positions = [item.position for item in items if isinstance(item, Document)]
    assert positions == list(range(1, len(texts) + 1))
    assert items[-1].end == path.stat().st_size


def test_a_text_file_without_blank_lines_is_cut_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    text = ("word " * 20 + "\n") * 30_000
    path.write_text(text)
    texts = [str(content) for content in contents(read(path))]
    assert "".join(texts) == text
    assert max(map(len, texts)) <= LONGEST_TEXT_BYTES + 101


def test_a_line_that_is_not_utf_8_is_left_out_of_a_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\xff\xfe\ntwo\n")
    items = read(path)
    (bad,) = bad_lines(items)
    assert (bad.place, bad.reason) == (f"{path}:2", "not UTF-8: invalid start byte at byte 1")
    assert contents(items) == ["one\ntwo\n"]


def test_an_array_is_cut_into_pieces_that_overlap(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    tokens = np.arange(PIECE_LEN + 10, dtype=np.uint16)
    np.save(path, tokens)
    first, second = contents(read(path))
    assert first == (tuple(range(PIECE_LEN)), 0)
    assert second == (tuple(range(PIECE_LEN - CONTEXT_LEN, PIECE_LEN + 10)), CONTEXT_LEN)


def test_the_rows_of_an_array_are_documents(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([[1, 2], [3, -1]]))
    items = read(path)
    assert contents(items) == [((1, 2), 0)]
    assert [bad.reason for bad in bad_lines(items)] == ["-1 is no token id"]


@pytest.mark.parametrize("array", [np.zeros((2, 2, 2), np.int32), np.array([0.5]), np.array([{}])])
def test_an_array_of_something_else_is_no_corpus(tmp_path: Path, array: object) -> None:
    path = tmp_path / "a.npy"
    np.save(path, array, allow_pickle=True)  # type: ignore[arg-type]
    items = read(path)
    assert len(bad_lines(items)) == 1
    assert contents(items) == []


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst", "a.parquet", "a.npy"])
def test_a_file_that_breaks_off_keeps_what_was_read_and_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    rows = jsonl(*({"text": f"{number} {number * 7919 % 10007}"} for number in range(20_000)))
    packed = {
        "a.jsonl.gz": gzip.compress(rows),
        "a.jsonl.zst": zstandard.ZstdCompressor().compress(rows),
    }.get(name, b"garbage" * 1000)
    path.write_bytes(packed[: len(packed) // 2])
    items = read(path)
    (bad,) = bad_lines(items)
    assert bad.place.startswith(str(path))
    assert bad.reason
    assert not any(isinstance(item, EndOfSource) for item in items)
    assert bool(contents(items)) == name.startswith("a.jsonl")


def test_a_folder_is_read_by_name_and_to_its_depth(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.jsonl", "a/c.txt", "a/.hidden.txt", ".git/d.txt", "notes.md", "w.csv.gz"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text('{"text": "x"}\n')
    found = [source.name for source in find_sources([str(tmp_path)])]
    assert found == [str(tmp_path / name) for name in ("a/c.txt", "a/z.jsonl", "b.txt")]


def test_a_glob_is_sorted_and_a_file_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    for name in ("2.txt", "1.txt", "deep/3.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    found = find_sources([str(tmp_path / "2.txt"), f"{tmp_path}/*.txt", f"{tmp_path}/**/*.txt"])
    assert [Path(source.name).name for source in found] == ["2.txt", "1.txt", "3.txt"]


@pytest.mark.parametrize("name", ["none.txt", "*.jsonl", "a.csv", "empty"])
def test_what_names_nothing_that_can_be_read_is_wrong_usage(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text("x\n")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=r"no such file|a file is one of|no file there"):
        find_sources([str(tmp_path / name)])


def test_another_name_can_be_said_to_hold_a_format(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(jsonl({"text": "hi"}))
    assert contents(read(path, kind="jsonl")) == ["hi"]
    packed = tmp_path / "a.log.gz"
    packed.write_bytes(gzip.compress(b"hi\n"))
    assert contents(read(packed, kind="txt")) == ["hi\n"]


@pytest.mark.parametrize(
    ("data", "expected"), [(jsonl({"text": "hi"}), ["hi"]), (b"plain\ntext\n", ["plain\ntext\n"]), (b"", [])]
)
def test_standard_input_is_what_its_first_byte_says(
    monkeypatch: pytest.MonkeyPatch, data: bytes, expected: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
    assert contents(read("-")) == expected


def test_the_end_counts_bytes_over_all_sources(tmp_path: Path) -> None:
    for name in ("1.txt", "2.txt"):
        (tmp_path / name).write_text("four\n")
    assert [item.end for item in read(tmp_path)] == [5, 5, 10, 10]


@pytest.mark.parametrize(("name", "library"), [("a.parquet", "pyarrow"), ("a.jsonl.zst", "zstandard")])
def test_a_missing_library_is_named_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, library: str
) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.setitem(sys.modules, f"{library}.parquet", None)
    path = tmp_path / name
    path.write_bytes(b"x")
    with pytest.raises(AdminError, match=rf"need {library}: pip install 'draftwell\[corpus\]'"):
        read(path)
