"""The demo's prompts, kept beside this module in ``prompts.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from decoder_service.client import Message, Sampling, chat


@dataclass(frozen=True, slots=True)
class DemoPrompt:
    """One prompt."""

    name: str
    kind: str  # for people
    messages: tuple[Message, ...]
    sampling: Sampling


def demo_prompts() -> tuple[DemoPrompt, ...]:
    """All prompts, in the order in which the demo runs them."""
    text = resources.files(__package__).joinpath("prompts.json").read_text(encoding="utf-8")
    return tuple(_prompt(entry) for entry in json.loads(text))


def _prompt(entry: dict[str, Any]) -> DemoPrompt:
    messages = chat("\n".join(entry["prompt"]), system=entry.get("system"))
    return DemoPrompt(entry["name"], entry["kind"], messages, Sampling(**entry.get("sampling", {})))
