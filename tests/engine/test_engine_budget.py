"""What a step takes, and how drafts are counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from engine_cases import (
    GREEDY,
    LENGTH,
    assert_all_equal,
    assert_equal,
    base,
    drafted,
    knowing,
    prompt,
    ragged_requests,
)
from tiny_model import VOCAB

from decoder_service.draft import Source
from decoder_service.engine_config import EngineConfig
from decoder_service.model import LoadedModel
from tests.verify.decode import (
    CONFIG,
    DRAFTED,
    decode,
    decode_alone,
    request,
)
from tests.verify.proposals import GarbageSource


def test_counts_and_sources_of_a_request_add_up(llama: LoadedModel) -> None:
    long = base(llama, GREEDY)
    each = drafted(request(prompt(1), max_tokens=LENGTH, ignore_eos=True))
    (fast,) = decode(llama, [each], knowing(long))
    stats, sources = fast.finished.stats, [source for step in fast.steps for source in step.sources]
    assert stats.num_steps == len(fast.steps) == sum(stats.accepted_len_histogram)
    assert stats.num_drafted == sum(step.num_drafted for step in fast.steps) == sum(stats.drafted_by.values())
    assert stats.num_accepted == sum(stats.accepted_by.values()) == LENGTH - sources.count(Source.MODEL)
    assert stats.accepted_by == {source: sources.count(source) for source in stats.accepted_by}
    assert stats.num_accepted == sum(
        length * count for length, count in enumerate(stats.accepted_len_histogram)
    )


@pytest.mark.parametrize("max_nodes", [0, 1, 5])
def test_a_request_gets_no_more_draft_nodes_than_it_allows(llama: LoadedModel, max_nodes: int) -> None:
    long = base(llama, GREEDY)
    choice = replace(DRAFTED, max_nodes=max_nodes)
    each = replace(request(prompt(1), max_tokens=LENGTH, ignore_eos=True), drafts=choice)
    (found,) = decode(llama, [each], knowing(long))
    assert max(step.num_drafted for step in found.steps) == max_nodes
    assert_equal(found, long)


def test_a_source_that_a_request_does_not_name_gives_it_no_drafts(llama: LoadedModel) -> None:
    long = base(llama, GREEDY)
    choice = replace(DRAFTED, sources=frozenset({Source.OWN}))
    each = replace(request(prompt(1), max_tokens=LENGTH, ignore_eos=True), drafts=choice)
    (found,) = decode(llama, [each], knowing(long))
    assert Source.INDEX not in found.finished.stats.drafted_by
    assert_equal(found, long)


def test_a_step_takes_no_more_rows_than_it_may(llama: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    config = EngineConfig(max_streams=3, prefill_rows=32, draft_nodes=10, min_probability=0.0)
    rows: list[int] = []
    forward = llama.model.forward

    def counted(steps: Sequence[Any]) -> Any:
        rows.append(sum(len(each.forest) for each in steps))
        return forward(steps)

    alone = decode_alone(llama, ragged_requests())
    monkeypatch.setattr(llama.model, "forward", counted)
    found = decode(llama, [drafted(each) for each in ragged_requests()], knowing(*alone), config)
    assert_all_equal(found, alone)
    assert 0 < max(rows) <= 32 + 3 + 10


def test_the_engines_default_configuration_of_these_tests_fills_its_budget(llama: LoadedModel) -> None:
    """Without this the other tests would compare plain decoding with itself."""
    long = base(llama, GREEDY)
    each = drafted(request(prompt(1), max_tokens=LENGTH, ignore_eos=True))
    (fast,) = decode(llama, [each], knowing(long))
    (blind,) = decode(llama, [each], [GarbageSource(VOCAB)])
    assert np.mean([step.num_drafted for step in blind.steps]) > CONFIG.draft_nodes / 4
    assert len(fast.steps) < LENGTH / 3
