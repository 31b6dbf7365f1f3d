"""Only the model modules use transformers' models, only the configuration the environment."""

from __future__ import annotations

import ast
import re

import pytest
from import_graph import SOURCES, imports_of, is_under

MODEL_LOADERS = ("decoder_service.model", "decoder_service.drafts.model")
CONFIGS = ("trie_service.config", "decoder_service.config")
MODEL_NAMES = re.compile(
    r"^(transformers\.)?(models\b|modeling_|AutoModel|PreTrainedModel|\w+For(CausalLM|\w+Generation)$)"
)


def model_uses(source: str) -> list[str]:
    """Names of transformers' models that a source imports or reaches through the package."""
    if "transformers" not in source:
        return []
    tree = ast.parse(source)
    imported = [entry.target for entry in imports_of(source, "") if is_under(entry.target, ["transformers"])]
    reached = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    names = [*imported, *(name for name in reached if name.startswith("transformers."))]
    return [name for name in names if MODEL_NAMES.search(name.removeprefix("transformers."))]


def environment_reads(source: str) -> list[int]:
    """Lines that read the process environment."""
    pattern = re.compile(r"\bos\.(environ|getenv)\b|\bfrom os import .*\b(environ|getenv)\b")
    code = "\n".join(ast.unparse(node) for node in ast.parse(source).body)  # without comments
    return [number for number, line in enumerate(code.splitlines(), 1) if pattern.search(line)]


def test_only_the_model_modules_use_transformers_models() -> None:
    users = {name for name, source in SOURCES.items() if model_uses(source)}
    assert users
    assert {name for name in users if not is_under(name, MODEL_LOADERS)} == set()


def test_only_the_configuration_reads_the_environment() -> None:
    readers = {name for name, source in SOURCES.items() if environment_reads(source)}
    assert readers <= set(CONFIGS)


@pytest.mark.parametrize(
    "source",
    [
        "from transformers import AutoModelForCausalLM",
        "from transformers.models.llama import modeling_llama",
        "import transformers\ntransformers.LlamaForCausalLM",
        "from transformers import PreTrainedModel",
    ],
)
def test_the_use_of_a_transformers_model_is_caught(source: str) -> None:
    assert model_uses(source)


def test_logits_processors_and_tokenizers_are_no_models() -> None:
    assert model_uses("from transformers import AutoTokenizer, TopKLogitsWarper, LogitsProcessorList") == []


@pytest.mark.parametrize(
    "source", ["import os\nos.environ['A']", "from os import getenv", "import os\nos.getenv('A')"]
)
def test_a_read_of_the_environment_is_caught(source: str) -> None:
    assert environment_reads(source)
