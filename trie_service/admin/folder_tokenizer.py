"""A tokenizer out of a model folder, in this process: no decoder is needed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

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
        tokenizers = required("tokenizers", "tokenizer folders")
        path = folder / "tokenizer.json"
        if not path.exists():
            raise AdminError(f"{folder}: there is no tokenizer.json")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
            self._template = load_chat_template(folder)
        except AdminError:
            raise
        except Exception as error:  # tokenizers raises plain Exception
            raise AdminError(f"{folder}: its tokenizer cannot be read: {error}") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._folder = folder

    def vocabulary(self) -> Vocabulary:
        """Fingerprint and size as a decoder has them that serves the folder's model."""
        size = self._vocab_size()
        vocab = sorted(self._tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
        digest = hashlib.sha256(json.dumps([size, vocab], ensure_ascii=True).encode())
        fingerprint = digest.hexdigest()[:32]
        return Vocabulary(fingerprint, size, f"default-{fingerprint[:12]}")

    def tokenize(self, texts: Sequence[Text]) -> list[TokenArray | Refusal]:
        """Token ids, with the special tokens that the tokenizer adds to raw text."""
        return [self._tokenized(text) for text in texts]

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token alone."""
        return [self._tokenizer.decode([token], skip_special_tokens=False) for token in tokens]

    def _tokenized(self, text: Text) -> TokenArray | Refusal:
        if isinstance(text, Conversation):
            if self._template is None:
                return Refusal(f"{self._folder} has no chat template for conversations")
            try:
                rendered = self._template.render(text)
            except BadConversationError as error:
                return Refusal(str(error))
        else:
            rendered = text
        is_raw = isinstance(text, str)
        return np.array(self._tokenizer.encode(rendered, add_special_tokens=is_raw).ids, dtype=np.int64)

    def _vocab_size(self) -> int:
        """Of the model: its logits may be more than the tokenizer has tokens."""
        path = self._folder / "config.json"
        try:
            config = json.loads(path.read_text())
            text_config = config.get("text_config", config)
            return int(text_config.get("vocab_size", config.get("vocab_size")))
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise AdminError(f"{path}: no vocab_size there: the fingerprint needs the model's") from error
