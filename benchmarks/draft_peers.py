"""How many tokens a step each way of drafting gives for the draft nodes it has verified, on recorded answers.

    python benchmarks/draft_peers.py traces.jsonl.gz [more.jsonl.gz] [--limit 50] [--json]

Every way replays the same answers from a cold start and is counted the same: the accepted tokens and one more, at
most the last 4096 tokens of context. Draftwell drafts through a trie service that is started for it. The peers are
transformers' prompt lookup and ArcticInference's suffix tree (vLLM's "suffix" method); those that are not
installed are named and left out. CPU is this process's time a draft, so without the trie service's share.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

from decoder_service.commands.index_client import index_client
from decoder_service.commands.pair import LOOPBACK
from decoder_service.commands.processes import Launch, running_services
from decoder_service.replay import CONTEXT_LIMIT, ReplayLimits, cold_replay
from decoder_service.replay_index import FINGERPRINT, replay_index
from decoder_service.traces import VOCAB_LIMIT, Answer, read_trace

Chain = Sequence[int]


@dataclass(frozen=True, slots=True)
class Result:
    """One way of drafting on one trace."""

    trace: str
    way: str
    tokens_per_step: float
    nodes_per_step: float
    cpu_us: float  # of a draft


@dataclass(frozen=True, slots=True)
class Guess:
    """A tree of guesses; parents (-1: child of the newest token) come before children."""

    tokens: Sequence[int]
    parents: Sequence[int]

    def num_accepted(self, rest: Chain) -> int:
        """How many tokens of ``rest`` the tree holds as one path from its top."""
        at, accepted = -1, 0
        for token in rest:
            found = [
                node
                for node, (own, parent) in enumerate(zip(self.tokens, self.parents, strict=True))
                if own == token and parent == at
            ]
            if not found:
                break
            at, accepted = found[0], accepted + 1
        return accepted


class Drafter(Protocol):
    """A peer: it sees one answer at a time."""

    def start(self, answer: Answer) -> None:
        """Take in the context of an answer."""

    def draft(self, text: np.ndarray) -> Guess:
        """Guess what follows the text so far."""

    def emit(self, tokens: Chain) -> None:
        """Take in what followed."""

    def finish(self) -> None:
        """The answer is over."""


class PromptLookup:
    """transformers' candidate generator, on this text alone."""

    def __init__(self, ngram_len: int, draft_len: int) -> None:
        import torch
        from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

        self._torch = torch
        self._lookup = PromptLookupCandidateGenerator(
            max_matching_ngram_size=ngram_len, num_output_tokens=draft_len, max_length=1 << 30
        )

    def start(self, answer: Answer) -> None:
        """Nothing is kept."""

    def draft(self, text: np.ndarray) -> Guess:
        """The first continuation of the longest match."""
        ids = self._torch.from_numpy(text.astype(np.int64))[None]
        candidates, _ = self._lookup.get_candidates(ids)
        tokens = candidates[0, len(text) :].tolist()
        return Guess(tokens, range(-1, len(tokens) - 1))

    def emit(self, tokens: Chain) -> None:
        """Nothing is kept."""

    def finish(self) -> None:
        """Nothing is kept."""


class SuffixTree:
    """ArcticInference's suffix tree over this request and all earlier answers."""

    def __init__(self, options: dict[str, Any]) -> None:
        from arctic_inference.suffix_decoding import SuffixDecodingCache

        self._cache = SuffixDecodingCache(max_tree_depth=64, max_cached_requests=100_000)
        self._options = options
        self._request = 0

    def start(self, answer: Answer) -> None:
        """Open a request with its prompt."""
        self._request += 1
        prompt = answer.text[: answer.context_len][-CONTEXT_LIMIT:]
        self._cache.start_request(self._request, prompt)

    def draft(self, text: np.ndarray) -> Guess:
        """What the cache speculates."""
        draft = self._cache.speculate(self._request, text[-64:], **self._options)
        return Guess(draft.token_ids, draft.parents)

    def emit(self, tokens: Chain) -> None:
        """Add to the request's tree and the shared one."""
        self._cache.add_active_response(self._request, list(tokens))

    def finish(self) -> None:
        """Close the request; its answer stays."""
        self._cache.stop_request(self._request)


PEERS: dict[str, tuple[str, Callable[[], Drafter]]] = {
    "prompt lookup, defaults": ("transformers", lambda: PromptLookup(2, 10)),
    "prompt lookup, n-gram 3, 10 tokens": ("transformers", lambda: PromptLookup(3, 10)),
    "suffix tree, defaults": ("arctic_inference", lambda: SuffixTree({"max_spec_tokens": 64})),
    "suffix tree, tree mode, factor 4, budget 16": (
        "arctic_inference",
        lambda: SuffixTree({"max_spec_tokens": 16, "max_spec_factor": 4.0, "use_tree_spec": True}),
    ),
    "suffix tree, tree mode, factor 4, budget 64": (
        "arctic_inference",
        lambda: SuffixTree({"max_spec_tokens": 64, "max_spec_factor": 4.0, "use_tree_spec": True}),
    ),
}
OURS = {
    "Draftwell, down to 0.12": ReplayLimits(64, 0.12),
    "Draftwell, down to 0.05": ReplayLimits(64, 0.05),
    "Draftwell, down to 0.02": ReplayLimits(64, 0.02),
}


def replay_peer(drafter: Drafter, answers: Sequence[Answer]) -> tuple[float, float, float]:
    """Tokens a step, nodes a step and CPU microseconds a draft."""
    steps = tokens = nodes = 0
    cpu = 0.0
    for answer in answers:
        drafter.start(answer)
        end = answer.context_len
        while end < len(answer.text):
            began = time.process_time()
            guess = drafter.draft(answer.text[max(end - CONTEXT_LIMIT, 0) : end])
            cpu += time.process_time() - began
            rest = answer.text[end:].tolist()
            emitted = rest[: guess.num_accepted(rest) + 1]
            drafter.emit(emitted)
            steps, tokens, nodes, end = (
                steps + 1,
                tokens + len(emitted),
                nodes + len(guess.tokens),
                end + len(emitted),
            )
        drafter.finish()
    return tokens / steps, nodes / steps, cpu / steps * 1e6


def replay_ours(address: str, limits: ReplayLimits, answers: Sequence[Answer]) -> tuple[float, float, float]:
    """The same for Draftwell; what a step learns counts as its draft's."""
    namespace = f"peers-{time.monotonic_ns()}"
    with index_client(address) as client:
        client.create_namespace(namespace, FINGERPRINT, VOCAB_LIMIT)
        with replay_index(address, namespace) as index:
            replay = cold_replay(limits, own=True, index=index)
            cpu = 0.0
            for number, answer in enumerate(answers, 1):
                began = time.process_time()
                replay.run(answer)
                cpu += time.process_time() - began
                index.learn(answer, lambda: client.learned(namespace).num_sequences, number)
        client.delete_namespace(namespace)
    tally = replay.tally
    steps = tally.num_steps
    return tally.num_tokens / steps, tally.num_nodes / steps, cpu / steps * 1e6


def results(paths: Sequence[Path], limit: int | None, missing: set[str]) -> Iterator[Result]:
    """Every installed way on every trace."""
    traces = {path: read_trace(path, limit) for path in paths}
    for path, answers in traces.items():
        for way, (package, make) in PEERS.items():
            if package not in missing:
                yield Result(path.name, way, *replay_peer(make(), answers))
                gc.collect()
    with running_services(lambda _name, _line: None) as services:
        launch = Launch("trie-service", "trie_service", ("--listen", LOOPBACK, "--redis", "embedded:"))
        address = services.start(launch, lambda _line: None)
        for path, answers in traces.items():
            for way, limits in OURS.items():
                yield Result(path.name, way, *replay_ours(address, limits, answers))


def main() -> None:
    """Run what the arguments ask for and print one table or one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="+", type=Path, help="recorded answers, .jsonl or .jsonl.gz")
    parser.add_argument("--limit", type=int, help="only the first answers of each file")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    packages = {package for package, _ in PEERS.values()}
    missing = {package for package in packages if importlib.util.find_spec(package) is None}
    found = list(results(arguments.traces, arguments.limit, missing))
    if arguments.json:
        print(json.dumps({"results": [asdict(each) for each in found], "left_out": sorted(missing)}))
        return
    table = Table("way of drafting", box=None)
    for path in arguments.traces:
        table.add_column(path.name.split(".")[0], justify="right")
    table.add_column("CPU us a draft", justify="right")
    for way in [*PEERS, *OURS]:
        of_way = [each for each in found if each.way == way]
        if of_way:
            figures = [f"{each.tokens_per_step:.2f} @ {each.nodes_per_step:.1f}" for each in of_way]
            table.add_row(way, *figures, f"{np.mean([each.cpu_us for each in of_way]):.0f}")
    Console(highlight=False).print(table)
    print("tokens a step @ draft nodes a step")
    for package in sorted(missing):
        print(f"left out, not installed: {package}")


if __name__ == "__main__":
    main()
