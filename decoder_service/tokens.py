"""Text to tokens and back, with errors that callers can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jinja2 import TemplateError

from decoder_service.errors import InvalidRequestError
from decoder_service.forest import Int32Array


class Tokenizer:
    """The served model's tokenizer."""

    def __init__(self, tokenizer: Any) -> None:  # noqa: ANN401 - a transformers tokenizer
        self._tokenizer = tokenizer

    def encode(self, text: str) -> Int32Array:
        """Tokens of raw text, with the special tokens that the tokenizer adds."""
        return np.array(self._tokenizer.encode(text), dtype=np.int32)

    def encode_chat(self, messages: Sequence[tuple[str, str]]) -> Int32Array:
        """Tokens of a conversation of (role, content), ready for the assistant's answer."""
        if not messages:
            raise InvalidRequestError("chat.messages is empty")
        if not getattr(self._tokenizer, "chat_template", None):
            raise InvalidRequestError("chat: the model has no chat template; give text or token_ids")
        if not all(role for role, _ in messages):
            raise InvalidRequestError("chat.messages: a role is empty")
        text = self._rendered(messages)
        return np.array(self._tokenizer.encode(text, add_special_tokens=False), dtype=np.int32)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of all tokens together; special tokens are shown."""
        text: str = self._tokenizer.decode(list(tokens))
        return text

    def _rendered(self, messages: Sequence[tuple[str, str]]) -> str:
        turns = [{"role": role, "content": content} for role, content in messages]
        try:
            text: str = self._tokenizer.apply_chat_template(turns, add_generation_prompt=True, tokenize=False)
        except TemplateError as error:
            raise InvalidRequestError(
                f"chat.messages: the model's chat template refuses them: {error}"
            ) from error
        return text
