"""``trie-admin warm`` against a fake index on real gRPC."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
from click.testing import Result
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub
from fake_admin_trie import FakeAdminTrie, serving
from typer.testing import CliRunner

from trie_service.admin import learning_calls, lessons, warm_run, warming
from trie_service.admin.bookmark import Bookmark
from trie_service.admin.commands import app
from trie_service.admin.corpus import Document, TokenIds
from trie_service.admin.learning_calls import Group, LearningCalls
from trie_service.admin.lessons import learn_requests
from trie_service.admin.meter import LineMeter


@pytest.fixture
def trie() -> FakeAdminTrie:
    service = FakeAdminTrie()
    service.add("ns")
    return service


@pytest.fixture
def address(trie: FakeAdminTrie) -> Iterator[str]:
    with serving(trie) as served:
        yield served


def warm(address: str, *arguments: str | Path, stdin: str | None = None) -> Result:
    words = ["--trie", address, "warm", *map(str, arguments)]
    return CliRunner().invoke(app, words, env={"COLUMNS": "200"}, input=stdin)


def report_of(run: Result) -> dict[str, float]:
    assert run.exit_code == 0, run.stderr
    found: dict[str, float] = json.loads(run.stdout)
    return found


def token_file(path: Path, num_rows: int, row_len: int = 3) -> Path:
    rows = (list(range(row, row + row_len)) for row in range(num_rows))
    path.write_text("".join(json.dumps({"tokens": row}) + "\n" for row in rows))
    return path


def test_everything_arrives_and_is_reported(trie: FakeAdminTrie, address: str, tmp_path: Path) -> None:
    report = report_of(warm(address, token_file(tmp_path / "a.jsonl", 700), "-n", "ns", "--json"))
    assert sorted(list(request.tokens) for request in trie.learned.values()) == [
        [row, row + 1, row + 2] for row in range(700)
    ]
    assert {request.namespace.name for request in trie.learned.values()} == {"ns"}
    assert (report["num_sequences"], report["num_tokens"], report["num_documents"]) == (700, 2100, 700)
    assert report["tokens_per_second"] > 0
    assert len(trie.calls) == 3


def test_the_context_of_an_answer_is_not_counted(trie: FakeAdminTrie, address: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": 1, "delta": [1, 2], "out": [3]}\n{"id": 1, "delta": [4], "out": []}\n')
    report = report_of(warm(address, path, "-n", "ns", "--json"))
    (learned,) = trie.learned.values()
    assert (list(learned.tokens), learned.context_len) == ([1, 2, 3], 2)
    assert (report["num_tokens"], report["num_documents"], report["num_empty"]) == (1, 2, 1)


def test_the_same_file_has_the_same_ids_and_others_have_others(
    trie: FakeAdminTrie, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token_file(tmp_path / "a.jsonl", 10)
    warm(address, tmp_path / "a.jsonl", "-n", "ns")
    assert len(trie.learned) == 10
    monkeypatch.chdir(tmp_path)
    warm(address, "a.jsonl", "-n", "ns")
    assert len(trie.learned) == 10
    token_file(tmp_path / "b.jsonl", 10)
    warm(address, "b.jsonl", "-n", "ns")
    assert len(trie.learned) == 20
    token_file(tmp_path / "a.jsonl", 10, row_len=4)
    warm(address, "a.jsonl", "-n", "ns")
    assert len(trie.learned) == 30


def test_a_long_document_is_cut_with_its_context_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lessons, "MAX_LEARNED_LEN", 100)
    document = Document("/a.npy", "a.npy:1", 1, TokenIds(np.arange(250)), 0)
    cut = list(learn_requests(pb.NamespaceRef(name="ns"), document, TokenIds(np.arange(250), 10)))
    learned = [token for request in cut for token in request.tokens[request.context_len :]]
    assert learned == list(range(10, 250))
    assert [request.context_len for request in cut] == [10, 32, 32]
    assert [request.tokens[0] for request in cut] == [0, 110 - 32, 210 - 32]
    assert len({request.sequence_id for request in cut}) == 3
    assert all(request.sequence_id.startswith("a.npy:1#") for request in cut)


def test_bad_lines_are_named_and_left_out(trie: FakeAdminTrie, address: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": [1]}\nnonsense\n{"tokens": [1000]}\n')
    run = warm(address, path, "-n", "ns", "--json")
    assert report_of(run)["num_bad"] == 2
    assert f"{path}:2: not JSON" in run.stderr
    assert f"{path}:3: token id 1000 is not below the namespace's vocabulary size 1000" in run.stderr
    assert len(trie.learned) == 1


def test_strict_ends_at_the_first_bad_line(trie: FakeAdminTrie, address: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": [1]}\nnonsense\n')
    run = warm(address, path, "-n", "ns", "--strict")
    assert run.exit_code == 1
    assert f"trie-admin: {path}:2: not JSON" in run.stderr
    assert not trie.learned


def test_many_bad_lines_are_not_told_one_by_one(address: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"tokens": [1]}\n' + "x\n" * 100)
    run = warm(address, path, "-n", "ns")
    assert run.exit_code == 0
    assert len(run.stderr.splitlines()) == warm_run.SHOWN_BAD_LINES + 1
    assert f"{100 - warm_run.SHOWN_BAD_LINES} more lines left out" in run.stderr


def test_a_corpus_of_bad_lines_alone_is_a_failure(address: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("x\n")
    run = warm(address, path, "-n", "ns")
    assert run.exit_code == 1
    assert "nothing there could be read" in run.stderr


def test_a_dry_run_needs_no_service_and_sends_nothing(trie: FakeAdminTrie, tmp_path: Path) -> None:
    run = warm("127.0.0.1:1", token_file(tmp_path / "a.jsonl", 10), "--dry-run", "--json")
    report = report_of(run)
    assert (report["num_tokens"], report["num_sequences"], report["dry_run"]) == (30, 10, True)
    assert not trie.num_attempts


def test_a_limit_ends_after_so_many_documents(trie: FakeAdminTrie, address: str, tmp_path: Path) -> None:
    warm(address, token_file(tmp_path / "a.jsonl", 10), "-n", "ns", "--limit", "4")
    assert len(trie.learned) == 4


def test_a_replica_that_applies_nothing_is_not_waited_for_without_end(
    trie: FakeAdminTrie, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_run, "STALLED_S", 0.2)
    trie.add("stuck", num_pending=1234)
    run = warm(address, token_file(tmp_path / "a.jsonl", 3), "-n", "stuck", "--wait")
    assert run.exit_code == 1
    assert "stuck: 1,234 log entries are not applied, and none was in 0 s" in run.stderr
    assert len(trie.learned) == 3


def test_what_comes_by_standard_input_later_is_another_corpus(
    trie: FakeAdminTrie, address: str, tmp_path: Path
) -> None:
    arguments = ("-", "-n", "ns", "--resume", tmp_path / "place", "--json")
    assert report_of(warm(address, *arguments, stdin='{"tokens": [1, 2]}\n'))["num_sequences"] == 1
    report = report_of(warm(address, *arguments, stdin='{"tokens": [3, 4]}\n'))
    assert (report["num_sequences"], report["num_resumed"]) == (1, 0)


def test_standard_input_is_learned(trie: FakeAdminTrie, address: str) -> None:
    run = warm(address, "-", "-n", "ns", stdin='{"tokens": [1, 2]}\n')
    assert run.exit_code == 0, run.stderr
    assert len(trie.learned) == 1


def test_text_without_a_tokenizer_says_what_to_name(address: str) -> None:
    run = warm(address, "-", "-n", "ns", stdin="hello\n")
    assert run.exit_code == 1
    assert "standard input:1: text must be tokenized: name a decoder with --decoder" in run.stderr


def test_an_unknown_namespace_needs_a_fingerprint(trie: FakeAdminTrie, address: str, tmp_path: Path) -> None:
    path = token_file(tmp_path / "a.jsonl", 1)
    run = warm(address, path, "-n", "new")
    assert run.exit_code == 1
    assert "namespace 'new' does not exist: make it with `trie-admin create`" in run.stderr
    assert warm(address, path, "-n", "new", "--fingerprint", "fp").exit_code == 0
    assert trie.learned.popitem()[1].namespace.fingerprint == "fp"


def test_a_bookmark_goes_on_after_what_was_acknowledged(
    trie: FakeAdminTrie, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warming, "MAX_GROUP_SEQUENCES", 10)
    monkeypatch.setattr(learning_calls, "RETRIED", ())
    monkeypatch.setattr(learning_calls, "CALLS_IN_FLIGHT", 1)
    place = tmp_path / "place.json"
    arguments = (token_file(tmp_path / "a.jsonl", 95), "-n", "ns", "--resume", place, "--json")
    trie.failures = []
    first = warm(address, *arguments, "--limit", "30")
    assert report_of(first)["num_documents"] == 30
    trie.failures = [grpc.StatusCode.INTERNAL]
    assert warm(address, *arguments).exit_code == 1
    trie.learned.clear()
    report = report_of(warm(address, *arguments))
    assert (report["num_documents"], report["num_resumed"]) == (65, 30)
    assert sorted(request.tokens[0] for request in trie.learned.values()) == list(range(30, 95))

    again = report_of(warm(address, *arguments))
    assert (again["num_documents"], again["num_resumed"]) == (0, 0)  # the whole file is not read again
    token_file(tmp_path / "a.jsonl", 97)
    assert report_of(warm(address, *arguments))["num_documents"] == 97


def test_a_bookmark_of_another_namespace_or_format_is_refused(
    trie: FakeAdminTrie, address: str, tmp_path: Path
) -> None:
    place, path = tmp_path / "place.json", token_file(tmp_path / "a.jsonl", 1)
    Bookmark(place, "other").save()
    run = warm(address, path, "-n", "ns", "--resume", place)
    assert (run.exit_code, "about namespace 'other', not 'ns'" in run.stderr) == (1, True)
    place.write_text('{"format": 99}')
    assert "its format is 99, not 1" in warm(address, path, "-n", "ns", "--resume", place).stderr
    place.write_text("[]")
    assert "not a file that --resume has written" in warm(address, path, "-n", "ns", "--resume", place).stderr
    assert not trie.learned


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED])
def test_a_call_that_may_succeed_later_is_repeated(
    trie: FakeAdminTrie, address: str, tmp_path: Path, code: grpc.StatusCode
) -> None:
    trie.failures = [code, code]
    report = report_of(warm(address, token_file(tmp_path / "a.jsonl", 10), "-n", "ns", "--json"))
    assert report["num_sequences"] == 10
    assert len(trie.learned) == 10


def test_an_index_that_takes_less_at_once_is_given_less(
    trie: FakeAdminTrie, address: str, tmp_path: Path
) -> None:
    trie.largest_call = 70
    assert warm(address, token_file(tmp_path / "a.jsonl", 256), "-n", "ns").exit_code == 0
    assert len(trie.learned) == 256
    assert max(trie.calls) <= 70


def test_a_refusal_that_stays_ends_the_run(trie: FakeAdminTrie, address: str) -> None:
    requests = [pb.LearnRequest(sequence_id="a", tokens=[1])]
    trie.failures = [grpc.StatusCode.UNAVAILABLE] * 100
    with grpc.insecure_channel(address) as channel:
        calls = LearningCalls(TrieServiceStub(channel), patience_s=0.0)
        list(calls.send(Group(requests)))
        with pytest.raises(grpc.RpcError, match="told to fail"):
            list(calls.flush())
        trie.failures = [grpc.StatusCode.INVALID_ARGUMENT]
        list(calls.send(Group(requests)))
        with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENT"):
            list(calls.flush())
    assert trie.num_attempts == 3  # the first call and one more, then the last one alone


def test_lines_tell_the_share_and_the_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    meter = LineMeter("learning", total=100, every_s=0.0)
    meter.update(25, "7 tokens")
    LineMeter("learning", total=0, every_s=0.0).update(25, "7 tokens")
    LineMeter("learning", total=100, every_s=60.0).update(25, "too early")
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 2
    assert told[0].startswith("learning: 25%, 7 tokens, ")
    assert told[0].endswith(" s left")
    assert told[1] == "learning: 7 tokens"


def test_a_file_whose_name_is_not_utf_8_is_learned(trie: FakeAdminTrie, address: str, tmp_path: Path) -> None:
    name = os.fsdecode(bytes(tmp_path) + b"/\xff.jsonl")
    Path(name).write_text('{"tokens": [1]}\nx\n')
    run = warm(address, name, "-n", "ns", "--list-ids")
    assert run.exit_code == 0, run.stderr
    sequence_id, place = run.stdout.strip().split("\t")
    assert trie.learned.keys() == {sequence_id}
    assert place == f"{tmp_path}/\\udcff.jsonl:1"


def test_ids_and_json_do_not_mix(address: str, tmp_path: Path) -> None:
    run = warm(address, token_file(tmp_path / "a.jsonl", 1), "-n", "ns", "--list-ids", "--json")
    assert (run.exit_code, "give one of them" in run.stderr) == (2, True)


def test_wrong_usage_is_told_as_such(address: str, tmp_path: Path) -> None:
    path = token_file(tmp_path / "a.jsonl", 1)
    cases = [
        (("nothing.jsonl",), "no such file"),
        ((path, "--format", "csv"), "'csv' is none of"),
        ((path, "--decoder", "a:1", "--tokenizer", "b"), "give one of them"),
        ((path, "--tokenizer", "nowhere"), "neither a folder nor HOST:PORT"),
        ((), "Missing argument"),
    ]
    for arguments, message in cases:
        run = warm(address, *arguments)
        assert run.exit_code == 2, run.stderr
        assert message in " ".join(run.stderr.split())
