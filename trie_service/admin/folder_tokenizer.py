"""A tokenizer out of a model folder, in this process: no decoder is needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trie_service.admin.chat_template import BadConversationError, load_chat_template
from trie_service.admin.corpus import Conversation
from trie_service.admin.corpus.document import TokenArray
from trie_service.admin.errors import AdminError
from trie_service.admin.extras import required
from trie_service.admin.tokenizer import Refusal, Text, Vocabulary


class FolderTokenizer:
    """The tokenizer of a model folder: tokenizer.json, config.json and, for conversations, a template."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tokenizer = _load(folder / "tokenizer.json")
        self._template = load_chat_template(folder)

    def vocabulary(self) -> Vocabulary:
        """Fingerprint and size as a decoder has them that serves the folder's model."""
        size = self._vocab_size()
        vocab = sorted(self._tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
        digest = hashlib.sha256(json.dumps([size, vocab], ensure_ascii=True).encode())
        fingerprint = digest.hexdigest()[:32]
        return Vocabulary(fingerprint, size, f"default-{fingerprint[:12]}")

    def tokenize(self, texts: Sequence[Text]) -> list[TokenArray | Refusal]:
        """Token ids, with the special tokens that the tokenizer adds to raw text; all cores share the work."""
        rendered = [text if isinstance(text, str) else self._rendered(text) for text in texts]
        pairs = list(zip(texts, rendered, strict=True))
        raw = self._encoded([text for text in texts if isinstance(text, str)], is_raw=True)
        chats = self._encoded(
            [chat for text, chat in pairs if isinstance(text, Conversation) and isinstance(chat, str)],
            is_raw=False,
        )
        return [
            found if isinstance(found, Refusal) else next(raw if isinstance(text, str) else chats)
            for text, found in pairs
        ]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token alone."""
        return [self._tokenizer.decode([token], skip_special_tokens=False) for token in tokens]

    def _encoded(self, texts: list[str], *, is_raw: bool) -> Iterator[TokenArray]:
        """A chat template has written its special tokens itself."""
        for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=is_raw):
            yield np.array(encoding.ids, dtype=np.int64)

    def _rendered(self, conversation: Conversation) -> str | Refusal:
        if self._template is None:
            return Refusal(f"{self._folder} has no chat template for conversations")
        try:
            return self._template.render(conversation)
        except BadConversationError as error:
            return Refusal(str(error))

    def _vocab_size(self) -> int:
        """Of the model: its logits may be more than the tokenizer has tokens."""
        path = self._folder / "config.json"
        try:
            config = json.loads(path.read_text())
            text_config = config.get("text_config", config)
            return int(text_config.get("vocab_size", config.get("vocab_size")))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise AdminError(f"{path}: no vocab_size there: the fingerprint needs the model's") from error


def _load(path: Path) -> Any:  # noqa: ANN401 - a tokenizers.Tokenizer
    tokenizers = required("tokenizers", "tokenizer folders")
    if not path.exists():
        raise AdminError(f"{path.parent}: there is no tokenizer.json")
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing narrower
        raise AdminError(f"{path}: its tokenizer cannot be read: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
