"""The tokenizer of a folder is the one that a decoder would have."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from draftwell.decoder.v1 import decoder_pb2 as pb
from draftwell.decoder.v1 import decoder_pb2_grpc as rpc
from fake_admin_trie import FakeAdminTrie, serving
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner

from decoder_service.model import tokenizer_fingerprint
from decoder_service.tokens import Tokenizer as DecoderTokenizer
from trie_service.admin.commands import app
from trie_service.admin.corpus import Conversation, Message
from trie_service.admin.errors import AdminError, UsageError
from trie_service.admin.folder_tokenizer import FolderTokenizer
from trie_service.admin.session import tokenizer_at
from trie_service.admin.tokenizer import Refusal

VOCAB_SIZE = 300
TEMPLATE = """\
{%- for message in messages %}
    {%- if message.role == 'system' and not loop.first %}{{ raise_exception('a late system message') }}{% endif %}
    {{- bos_token + message.role + '\\n' + message.content | trim + '<|end|>' }}
    {%- if message.content == 'stop' %}{% break %}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ bos_token + 'assistant\\n' }}{% endif %}
"""
TEXTS = ("hello world", " été 東京 😀\n", "", "<|end|> inside")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level tokenizer that begins every text with <|begin|>."""
    path = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - 10,
        special_tokens=["<|begin|>", "<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(["hello world hello there"], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|begin|> $A", special_tokens=[("<|begin|>", 0)]
    )
    tokenizer.enable_truncation(4)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin|>", eos_token="<|end|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(path)
    (path / "config.json").write_text(json.dumps({"vocab_size": VOCAB_SIZE}))
    return path


@pytest.fixture(scope="module")
def theirs(folder: Path) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast.from_pretrained(folder)


def ids(found: np.ndarray[Any, Any] | Refusal) -> list[int]:
    assert not isinstance(found, Refusal), found
    return [int(token) for token in found]


def test_the_fingerprint_is_the_decoders(folder: Path, theirs: PreTrainedTokenizerFast) -> None:
    ours = FolderTokenizer(folder).vocabulary()
    assert ours.fingerprint == tokenizer_fingerprint(theirs, VOCAB_SIZE)
    assert (ours.size, ours.default_namespace) == (VOCAB_SIZE, f"default-{ours.fingerprint[:12]}")


def test_texts_have_the_tokens_that_the_decoder_gives_them(
    folder: Path, theirs: PreTrainedTokenizerFast
) -> None:
    found = FolderTokenizer(folder).tokenize(TEXTS)
    assert [ids(tokens) for tokens in found] == [
        DecoderTokenizer(theirs).encode(text).tolist() for text in TEXTS
    ]


def test_conversations_are_rendered_as_the_decoder_does(
    folder: Path, theirs: PreTrainedTokenizerFast
) -> None:
    asked = (("system", " be kind "), ("user", "stop"), ("user", "never seen"))
    (found,) = FolderTokenizer(folder).tokenize([conversation(*asked)])
    assert ids(found) == DecoderTokenizer(theirs).encode_chat(asked).tolist()


def test_an_answered_conversation_ends_with_the_answer(folder: Path) -> None:
    tokenizer = FolderTokenizer(folder)
    (found,) = tokenizer.tokenize([conversation(("user", "hi"), ("assistant", "ho"))])
    assert "".join(tokenizer.pieces(ids(found))).endswith("assistant\nho<|end|>")


def test_a_conversation_that_the_template_refuses_is_a_refusal(folder: Path) -> None:
    refused, fine = FolderTokenizer(folder).tokenize(
        [conversation(("user", "a"), ("system", "b")), conversation(("user", "a"))]
    )
    assert isinstance(refused, Refusal)
    assert "a late system message" in refused.reason
    assert ids(fine)


def test_a_template_is_sandboxed(folder: Path, tmp_path: Path) -> None:
    copy_of(folder, tmp_path)
    (tmp_path / "chat_template.jinja").write_text("{{ messages.__class__.__mro__ }}")
    (refused,) = FolderTokenizer(tmp_path).tokenize([conversation(("user", "a"))])
    assert isinstance(refused, Refusal)
    assert "unsafe" in refused.reason


def test_a_template_in_the_configuration_is_found(folder: Path, tmp_path: Path) -> None:
    copy_of(folder, tmp_path)
    (tmp_path / "chat_template.jinja").unlink(missing_ok=True)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["chat_template"] = [
        {"name": "tool", "template": "x"},
        {"name": "default", "template": "y{{ bos_token }}"},
    ]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (found,) = FolderTokenizer(tmp_path).tokenize([conversation(("user", "a"))])
    assert ids(found) == ids(FolderTokenizer(folder).tokenize(["y<|begin|>"])[0])[1:]
    del config["chat_template"]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (refused,) = FolderTokenizer(tmp_path).tokenize([conversation(("user", "a"))])
    assert isinstance(refused, Refusal)
    assert "no chat template" in refused.reason


def test_a_folder_that_is_no_model_says_what_is_missing(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(AdminError, match=r"there is no tokenizer\.json"):
        FolderTokenizer(tmp_path)
    copy_of(folder, tmp_path)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(AdminError, match=r"config\.json: no vocab_size there"):
        FolderTokenizer(tmp_path).vocabulary()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(AdminError, match="its tokenizer cannot be read"):
        FolderTokenizer(tmp_path)


def test_a_missing_library_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(
        AdminError, match=r"tokenizer folders need tokenizers: pip install 'draftwell\[corpus\]'"
    ):
        FolderTokenizer(folder)


class PickyDecoder(rpc.DecoderServiceServicer):
    """Tokens are bytes; refuses conversations, and breaks down on "crash"."""

    def GetModel(self, request: pb.GetModelRequest, context: Any) -> pb.GetModelResponse:
        return pb.GetModelResponse(fingerprint="bytes", vocab_size=256, default_namespace="theirs")

    def Tokenize(self, request: pb.TokenizeRequest, context: Any) -> pb.TokenizeResponse:
        if request.HasField("chat"):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no conversations here")
        if request.text == "crash":
            context.abort(grpc.StatusCode.INTERNAL, "out of order")
        return pb.TokenizeResponse(token_ids=request.text.encode())


@contextmanager
def decoder() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(2))
    rpc.add_DecoderServiceServicer_to_server(PickyDecoder(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None)


def test_a_decoder_tokenizes_many_texts_in_order() -> None:
    with decoder() as address, ExitStack() as stack:
        tokenizer = tokenizer_at(address, stack)
        texts = [str(number) for number in range(100)]
        found = tokenizer.tokenize([*texts, conversation(("user", "a"))])
        assert [bytes(ids(tokens)).decode() for tokens in found[:-1]] == texts
        assert found[-1] == Refusal("no conversations here")
        assert tokenizer.pieces([]) == []
        with pytest.raises(AdminError, match=r"decoder at .*: out of order"):
            tokenizer.tokenize(["crash"])


def test_failures_name_the_service_that_failed() -> None:
    trie = FakeAdminTrie()
    with serving(trie) as address, decoder() as decoder_address:
        asked = ["--trie", address, "suggest", "crash", "--decoder", decoder_address]
        run = CliRunner().invoke(app, asked)
        assert f"decoder at {decoder_address}: out of order" in run.stderr
        run = CliRunner().invoke(app, ["--trie", address, "suggest", "x", "--decoder", decoder_address])
        assert f"trie service at {address}" in run.stderr
        run = CliRunner().invoke(app, ["--trie", address, "suggest", "x", "--decoder", "127.0.0.1:1"])
        assert "no decoder answers at 127.0.0.1:1" in run.stderr
        assert run.exit_code == 1


def test_a_corpus_is_warmed_with_a_folder(folder: Path, tmp_path: Path) -> None:
    trie = FakeAdminTrie()
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "hello"}\n{"messages": [{"role": "user", "content": "hi"}]}\n')
    with serving(trie) as address:
        run = CliRunner().invoke(app, ["--trie", address, "warm", str(path), "--tokenizer", str(folder)])
    assert run.exit_code == 0, run.stderr
    vocabulary = FolderTokenizer(folder).vocabulary()
    (made,) = trie.namespaces.values()
    assert (made.name, made.fingerprint) == (vocabulary.default_namespace, vocabulary.fingerprint)
    assert made.vocab_size == VOCAB_SIZE
    assert len(trie.learned) == 2


def test_a_place_that_is_neither_folder_nor_address_is_wrong_usage() -> None:
    with ExitStack() as stack, pytest.raises(UsageError, match="neither a folder nor HOST:PORT"):
        tokenizer_at("nowhere", stack)


def conversation(*turns: tuple[str, str]) -> Conversation:
    return Conversation(tuple(Message(role, content) for role, content in turns))


def copy_of(folder: Path, target: Path) -> None:
    for path in folder.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
