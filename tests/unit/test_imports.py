"""No module imports what it must not know."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from import_graph import PROJECT, ROOT, Project
from import_rules import RULES, Rule, violations


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name.replace(" ", "-"))
def test_no_module_imports_what_it_must_not_know(rule: Rule) -> None:
    assert violations(PROJECT, rule) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name.replace(" ", "-"))
def test_every_module_that_a_rule_names_exists(rule: Rule) -> None:
    assert {*rule.within, *rule.outside} <= PROJECT.imports.keys()


@pytest.mark.parametrize(
    "module", ["decoder_service.client", "decoder_service.commands.main", "trie_service.server"]
)
def test_importing_it_loads_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit(' '.join({{'torch', 'transformers'}} & sys.modules.keys()) or 0)"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'protos'}"}
    imported = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert imported.returncode == 0, imported.stderr


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("trie_service.index", "import torch"),
        ("trie_service.index", "def f():\n    from transformers import AutoTokenizer"),
        ("trie_service.index", "from decoder_service import forest"),
        ("trie_service.index", "import importlib\nimportlib.import_module('torch.nn')"),
        ("trie_service.index", "import tokenizers"),
        ("trie_service.index", "import redis.asyncio as redis"),
        ("trie_service.trie", "import time"),
        ("trie_service.trie", "from os import environ"),
        ("trie_service.trie", "from . import log"),
        ("trie_service.drafting", "from trie_service.log import entries"),
        ("decoder_service.engine", "from draftwell.decoder.v1 import decoder_pb2"),
        ("decoder_service.engine", "from trie_service.trie import Trie"),
        ("decoder_service.client", "try:\n    import torch\nexcept ImportError:\n    pass"),
        ("decoder_service.commands.demo", "from decoder_service.model import load"),
    ],
)
def test_a_forbidden_import_is_caught(module: str, source: str) -> None:
    sources = {
        "trie_service": "",
        "trie_service.log": "import logging",
        "decoder_service": "",
        "decoder_service.model": "import torch",
        "decoder_service.commands": "",
    }
    caught = [
        found for rule in RULES for found in violations(Project.of_sources({**sources, module: source}), rule)
    ]
    assert len(caught) >= 1
    assert violations(Project.of_sources(sources), RULES[0]) == []


@pytest.mark.parametrize(
    "source",
    [
        "def compare():\n    from decoder_service.model import load",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
    ],
)
def test_a_command_may_load_a_model_later(source: str) -> None:
    sources = {
        "decoder_service": "",
        "decoder_service.model": "import torch",
        "decoder_service.commands": source,
    }
    assert violations(Project.of_sources(sources), RULES[-1]) == []
