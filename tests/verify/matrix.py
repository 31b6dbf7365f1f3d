"""The runs: every prompt, greedy and sampled, plain and in every other way, in each number type.

What all ways are compared with is plain decoding, one token a step: of one request alone in bfloat16, of several at
once in float32, where a request alone costs nearly as much as four; there some are decoded alone as well. End tokens
end nothing, so that every text has as many tokens as were asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from decoder_service.calibration import Calibration
from decoder_service.config import default_cache_folder
from decoder_service.draft import DraftSource, LookaheadShape, Source
from decoder_service.drafts.lookahead import LookaheadSource
from decoder_service.drafts.model import DraftModelOptions, DraftModelSource
from decoder_service.embedded_model import EMBEDDED, ModelFiles, locate_model
from decoder_service.model import LoadedModel, Model, ModelOptions, load_model
from decoder_service.products import Product
from decoder_service.request import DraftChoice, GenerationRequest
from tests.verify.cases import MODES, cases
from tests.verify.decode import CONFIG, DRAFTED, Computed, Decoded, decode, decode_alone, prefill
from tests.verify.products import check_products
from tests.verify.prompts import Prompt, encode
from tests.verify.proposals import GarbageSource, RecordedSource
from tests.verify.reference import Reference
from tests.verify.row import Row

AT_ONCE = 8
CONTEXT_LEN = 2048
ENGINE = replace(CONFIG, max_streams=AT_ONCE)
PREFILL_ROWS = 156  # another number than the engine's, so that pieces end elsewhere
NUM_ALONE = 2  # prompts in AT_ONCE that float32 decodes plain and alone
MAX_RANDOM_NODES = 8
NUM_DRAFT_LAYERS = 4
PLAIN_ALONE, PLAIN_TOGETHER = f"plain, alone ({NUM_ALONE} prompts in {AT_ONCE})", f"plain, {AT_ONCE} at once"
ALONE, TOGETHER, GARBAGE = "drafts, alone", f"drafts, {AT_ONCE} at once", f"random drafts, {AT_ONCE} at once"
LOOKAHEAD, JACOBI = f"lookahead, {AT_ONCE} at once", f"Jacobi, {AT_ONCE} at once"
MODEL, ALL = f"draft model, {AT_ONCE} at once", "all sources, alone"
METHODS = (LOOKAHEAD, JACOBI, MODEL, ALL)
DECODED = (PLAIN_ALONE, PLAIN_TOGETHER, ALONE, TOGETHER, GARBAGE, *METHODS)
PREFILL, GENERATE = "one prefill of the text", "transformers' generate"
WAYS = {
    "plain-alone": PLAIN_ALONE,
    "plain-together": PLAIN_TOGETHER,
    "alone": ALONE,
    "together": TOGETHER,
    "random": GARBAGE,
    "lookahead": LOOKAHEAD,
    "jacobi": JACOBI,
    "model": MODEL,
    "all": ALL,
    "prefill": PREFILL,
    "generate": GENERATE,
}

CHOICES = {
    LOOKAHEAD: DraftChoice(frozenset({Source.LOOKAHEAD}), 24, "", learn=False),
    JACOBI: DraftChoice(
        frozenset({Source.LOOKAHEAD}), 24, "", learn=False, lookahead=LookaheadShape(6, 2, 0)
    ),
    MODEL: DraftChoice(frozenset({Source.DRAFT_MODEL}), 24, "", learn=False),
    ALL: DraftChoice(frozenset(Source) - {Source.MODEL}, 24, "", learn=False),
}

Progress = Callable[[str, int], None]  # what was done, and for how many prompts


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run."""

    prompts: Sequence[Prompt]
    max_tokens: int = 128
    dtypes: Sequence[str] = ("bfloat16", "float32")
    leave_out: frozenset[str] = frozenset()  # names of ways

    def ways(self, dtype: str, mode: str) -> list[str]:
        """What plain decoding is compared with, but for what is left out."""
        return [way for way in ways_of(dtype, mode) if way not in self.leave_out]

    @property
    def num_units(self) -> int:
        """Prompts times ways, what progress is counted in."""
        ways = sum(len(self.ways(dtype, mode)) for dtype in self.dtypes for mode in MODES)
        return (ways + len(MODES) * len(self.dtypes)) * len(self.prompts)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out."""

    rows: list[Row]
    products: dict[str, list[Product]]  # by number type
    num_threads: int  # that one run computed with

    @property
    def passed(self) -> bool:
        """Whether nothing differs."""
        products = [product for each in self.products.values() for product in each]
        return all(row.passed for row in self.rows) and all(product.passed for product in products)


def ways_of(dtype: str, mode: str) -> list[str]:
    """What plain decoding is compared with; transformers in float32 and greedy alone, where it computes the same."""
    ways = [ALONE, TOGETHER, GARBAGE, *METHODS, PREFILL]
    if dtype == "bfloat16":
        return [PLAIN_TOGETHER, *ways]
    return [PLAIN_ALONE, *ways, GENERATE] if mode == "greedy" else [PLAIN_ALONE, *ways]


def load(dtype: str, files: ModelFiles | None = None) -> LoadedModel:
    """The embedded model, with room for the runs."""
    options = ModelOptions(
        getattr(torch, dtype),
        torch.device("cpu"),
        CONTEXT_LEN,
        (AT_ONCE + 1) * CONTEXT_LEN // 2,
        max_rows=160,
    )
    return load_model(files or locate_model(EMBEDDED, default_cache_folder()), options)


def smaller(dtype: str) -> Model:
    """The first layers of the embedded model, for a draft model that is right now and then."""
    network = load(dtype).model.network
    del network.model.layers[NUM_DRAFT_LAYERS:]
    network.config.num_hidden_layers = NUM_DRAFT_LAYERS
    room = (AT_ONCE + 1) * CONTEXT_LEN // 2
    return Model(
        network, ModelOptions(getattr(torch, dtype), torch.device("cpu"), CONTEXT_LEN, room, max_rows=160)
    )


def run(plan: Plan, progress: Progress = lambda _what, _count: None) -> Outcome:
    """Run everything."""
    outcome = Outcome([], {}, torch.get_num_threads())
    for dtype in plan.dtypes:
        loaded = load(dtype)
        outcome.products[dtype] = check_products(loaded.model)
        for mode in MODES:
            outcome.rows.extend(run_mode(loaded, dtype, mode, plan, progress))
    return outcome


def run_mode(loaded: LoadedModel, dtype: str, mode: str, plan: Plan, progress: Progress) -> list[Row]:
    """The rows of one number type and mode, in groups of AT_ONCE prompts."""
    rows = {way: Row(dtype, mode, way) for way in plan.ways(dtype, mode)}
    reference = _reference() if GENERATE in rows else None
    draft_model = smaller(dtype) if MODEL in rows or ALL in rows else None
    encoded = [encode(loaded, prompt) for prompt in plan.prompts]
    requests = cases(encoded, mode, plan.max_tokens)
    for first in range(0, len(requests), AT_ONCE):
        group = Group(
            loaded, draft_model, plan.prompts[first : first + AT_ONCE], requests[first : first + AT_ONCE]
        )
        plain = group.plain(alone=dtype == "bfloat16")
        progress(f"{dtype} {mode}: plain", len(group.prompts))
        for way in [way for way in DECODED if way in rows]:
            for name, one, other in zip(group.names, plain, group.decoded(way, plain), strict=False):
                rows[way].add_decoded(name, one, other)
            progress(f"{dtype} {mode}: {way}", len(group.prompts))
        if PREFILL in rows:
            for name, one, computed in zip(group.names, plain, group.prefilled(plain), strict=True):
                rows[PREFILL].add_prefill(name, one, computed)
            progress(f"{dtype} {mode}: {PREFILL}", len(group.prompts))
        if reference is not None:
            for name, one, each in zip(group.names, plain, group.requests, strict=True):
                generated = reference.generate(each.prompt, plan.max_tokens)
                rows[GENERATE].add_generated(name, one, generated)
            progress(f"{dtype} {mode}: {GENERATE}", len(group.prompts))
    return list(rows.values())


@dataclass(frozen=True, slots=True)
class Group:
    """Prompts that are decoded at the same time where a way says so."""

    loaded: LoadedModel
    draft_model: Model | None
    prompts: Sequence[Prompt]
    requests: Sequence[GenerationRequest]

    @property
    def names(self) -> list[str]:
        """The prompts' names."""
        return [prompt.name for prompt in self.prompts]

    def plain(self, *, alone: bool) -> list[Decoded]:
        """One token a step, with nobody beside it or with all of the group."""
        return decode_alone(self.loaded, self.requests) if alone else self.decoded(PLAIN_TOGETHER, [])

    def decoded(self, way: str, plain: Sequence[Decoded]) -> list[Decoded]:
        """Plain, or with drafts from the requests' own text and from a source that fits the way."""
        if way == PLAIN_ALONE:
            return decode_alone(self.loaded, self.requests[:NUM_ALONE])
        if way == PLAIN_TOGETHER:
            return decode(self.loaded, self.requests, config=ENGINE)
        requests = [replace(each, drafts=CHOICES.get(way, DRAFTED)) for each in self.requests]
        if way in (ALONE, ALL):
            return [decode(self.loaded, [each], self._sources(way, plain))[0] for each in requests]
        return decode(self.loaded, requests, self._sources(way, plain), ENGINE)

    def prefilled(self, plain: Sequence[Decoded]) -> Iterator[Computed]:
        """The final text but for its newest token, as a prompt."""
        for each, request in zip(plain, self.requests, strict=True):
            yield prefill(self.loaded.model, each.text[:-1], len(request.prompt) - 1, PREFILL_ROWS)

    def _sources(self, way: str, plain: Sequence[Decoded]) -> list[DraftSource]:
        vocab_size = self.loaded.model.vocab_size
        if way == GARBAGE:
            return [GarbageSource(vocab_size, max_nodes=MAX_RANDOM_NODES)]
        if way in (LOOKAHEAD, JACOBI):
            return [LookaheadSource()]
        if way == MODEL:
            return [self._by_model()]
        if way == ALL:  # and the index lies
            lies = GarbageSource(vocab_size, max_nodes=MAX_RANDOM_NODES)
            return [lies, LookaheadSource(), self._by_model()]
        return [RecordedSource([each.text for each in plain], vocab_size)]

    def _by_model(self) -> DraftModelSource:
        assert self.draft_model is not None
        return DraftModelSource(
            self.draft_model, Calibration(), DraftModelOptions(depth=4, min_probability=0.0)
        )


def _reference() -> Reference:
    files = locate_model(EMBEDDED, default_cache_folder()).in_dtype("float32")
    return Reference(files)
