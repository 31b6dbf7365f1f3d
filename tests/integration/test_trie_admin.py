"""``trie-admin`` against a real trie service and a decoder that only tokenizes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import Result
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1 import decoder_pb2_grpc as rpc
from trie_processes import Replica, free_port, until
from typer.testing import CliRunner

from trie_service.admin.commands import app


class ByteTokenizer(rpc.DecoderServiceServicer):
    """A decoder whose tokens are bytes."""

    def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        return pb.GetModelResponse(fingerprint="bytes", vocab_size=256)

    def Tokenize(self, request: pb.TokenizeRequest, context: Any) -> pb.TokenizeResponse:
        chat = "".join(f"<{turn.role}>{turn.content}" for turn in request.chat.messages)
        return pb.TokenizeResponse(token_ids=(request.text or chat).encode())

    def Detokenize(self, request: pb.DetokenizeRequest, context: Any) -> pb.DetokenizeResponse:
        return pb.DetokenizeResponse(pieces=[chr(token) for token in request.token_ids])


@pytest.fixture(scope="module")
def decoder() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    rpc.add_DecoderServiceServicer_to_server(ByteTokenizer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


@pytest.fixture(scope="module")
def replica() -> Iterator[Replica]:
    with Replica() as started:
        yield started


def admin(*arguments: str, replica: Replica | None = None) -> Result:
    trie = ("--trie", replica.address) if replica else ()
    return CliRunner().invoke(app, [*trie, *arguments], env={"COLUMNS": "300"})


def test_a_corpus_is_warmed_and_then_suggested(replica: Replica, decoder: str, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("the quick brown fox jumps\n")
    rows = tmp_path / "b.jsonl"
    rows.write_text(
        '{"text": "the quick brown dog"}\n{"text": ""}\n'
        '{"messages": [{"role": "user", "content": "hello"}]}\n{"tokens": [1, 2, 3]}\n'
    )
    warmed = admin(
        "warm", str(text), str(rows), "-n", "warm", "--decoder", decoder, "--json", replica=replica
    )
    assert warmed.exit_code == 0, warmed.stderr
    report = json.loads(warmed.stdout)
    assert report["num_sequences"] == 4
    assert report["num_tokens"] == 26 + 19 + 11 + 3
    assert report["tokens_per_second"] > 0
    until(lambda: replica.num_sequences("warm") == 4)

    asked = ("suggest", "quick brow", "-n", "warm", "--decoder", decoder)
    nodes = json.loads(admin(*asked, "--json", replica=replica).stdout)["nodes"]
    assert [node["piece"] for node in nodes[:2]] == ["n", " "]
    assert {"token", "parent", "match_order", "count", "total", "probability"} <= nodes[0].keys()
    drawn = admin(*asked, replica=replica)
    assert drawn.exit_code == 0
    assert "quick brow" in drawn.stdout
    assert "'f'" in drawn.stdout
    assert "'d'" in drawn.stdout


def test_tokens_need_no_decoder(replica: Replica, tmp_path: Path) -> None:
    rows = tmp_path / "a.jsonl"
    rows.write_text('{"tokens": [10, 20, 30]}\n' * 300)
    warmed = admin("warm", str(rows), "-n", "ids", "--fingerprint", "fp", replica=replica)
    assert warmed.exit_code == 0, warmed.stderr
    assert "learned 900 tokens in 300 sequences" in warmed.stdout
    until(lambda: replica.num_sequences("ids") == 300)
    drawn = admin("suggest", "--tokens", "10,20", "-n", "ids", replica=replica)
    assert "30" in drawn.stdout
    nothing = admin("suggest", "--tokens", "77", "-n", "ids", replica=replica)
    assert "nothing matched" in nothing.stdout


def test_statistics_and_namespaces_are_shown(replica: Replica) -> None:
    replica.learn("shown", [1, 2, 3])
    until(lambda: replica.num_sequences("shown") == 1)
    shown = json.loads(admin("stats", "shown", "--json", replica=replica).stdout)
    assert shown["server"]["state"] == "serving"
    assert shown["namespaces"][0]["stats"]["num_tokens"] == 3
    assert "shown" in admin("stats", replica=replica).stdout
    listed = json.loads(admin("namespaces", "--json", replica=replica).stdout)
    assert "shown" in [namespace["name"] for namespace in listed]


def test_failures_say_what_to_do(replica: Replica, decoder: str, tmp_path: Path) -> None:
    rows = tmp_path / "a.jsonl"
    rows.write_text('{"text": "x"}\n')
    replica.learn("taken", [1])
    cases = [
        (admin("namespaces", "--trie", "x"), 2, "--trie"),
        (admin("--trie", f"127.0.0.1:{free_port()}", "stats"), 1, "start one with `trie-service`"),
        (admin("stats", "none", replica=replica), 1, "namespace 'none' does not exist"),
        (admin("warm", str(rows), "-n", "taken", replica=replica), 1, "a.jsonl:1: text must be tokenized"),
        (admin("warm", str(tmp_path / "none.txt"), replica=replica), 2, "no such file"),
        (
            admin("warm", str(rows), "-n", "taken", "--decoder", decoder, replica=replica),
            1,
            "'fp', not 'bytes'",
        ),
        (
            admin("suggest", "text", replica=replica),
            2,
            "give a TEXT with --decoder or --tokenizer, or --tokens",
        ),
        (admin("suggest", "--tokens", "1,x", replica=replica), 2, "'1,x'"),
        (admin("suggest", "--tokens", "-1", "-n", "taken", replica=replica), 1, "token id"),
    ]
    for run, code, message in cases:
        assert run.exit_code == code, run
        assert message in " ".join(run.stderr.split()), run
        assert isinstance(run.exception, SystemExit)
