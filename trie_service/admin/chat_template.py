"""Conversations as text, by the Jinja template of a model folder, as transformers renders it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from trie_service.admin.corpus import Conversation
from trie_service.admin.errors import AdminError
from trie_service.admin.extras import required


class BadConversationError(ValueError):
    """The template refuses a conversation."""


class ChatTemplate:
    """Renders conversations; the template is foreign code and runs in Jinja's sandbox."""

    def __init__(self, folder: Path, source: str, special_tokens: Mapping[str, str]) -> None:
        self._jinja = required("jinja2", "chat templates")
        sandbox = required("jinja2.sandbox", "chat templates")
        environment = sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {"raise_exception": self._raise, "strftime_now": datetime.now().strftime}
        try:
            self._template = environment.from_string(source)
        except self._jinja.TemplateError as error:
            raise AdminError(f"{folder}: its chat template cannot be used: {error}") from error
        self._special_tokens = special_tokens

    def render(self, conversation: Conversation) -> str:
        """The text that a model sees, ready for an answer where the assistant did not speak last.

        Raises BadConversationError.
        """
        turns = [{"role": turn.role, "content": turn.content} for turn in conversation.messages]
        is_answered = bool(turns) and turns[-1]["role"] == "assistant"
        try:
            text: str = self._template.render(
                messages=turns, add_generation_prompt=not is_answered, **self._special_tokens
            )
        except self._jinja.TemplateError as error:
            raise BadConversationError(f"the chat template refuses it: {error}") from error
        return text

    def _raise(self, message: str) -> None:
        raise self._jinja.TemplateError(message)


def load_chat_template(folder: Path) -> ChatTemplate | None:
    """The template of a model folder, None where there is none; raise AdminError for one that is broken."""
    config_path, template_path = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    try:
        config: dict[str, Any] = json.loads(config_path.read_text()) if config_path.exists() else {}
        source = (
            template_path.read_text() if template_path.exists() else _default(config.get("chat_template"))
        )
    except (OSError, ValueError) as error:
        raise AdminError(f"{folder}: its chat template cannot be read: {error}") from error
    return ChatTemplate(folder, source, _special_tokens(config)) if source else None


def _default(template: object) -> str:
    """The template, or the one named default out of several."""
    if isinstance(template, list):
        template = next((each["template"] for each in template if each.get("name") == "default"), None)
    return template if isinstance(template, str) else ""


def _special_tokens(config: Mapping[str, Any]) -> dict[str, str]:
    values = {name: value for name, value in config.items() if name.endswith("_token")}
    texts = {
        name: value.get("content") if isinstance(value, dict) else value for name, value in values.items()
    }
    return {name: text for name, text in texts.items() if isinstance(text, str)}


def _to_json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
