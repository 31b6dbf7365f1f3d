"""A decoder process with a draft model: what it tells, and that its drafts are taken."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from decoder_process import ended_after, start_decoder

from decoder_service.client import Client, Drafts, Sampling, Stop

STOP = Stop(max_tokens=60, ignore_eos=True)
SAMPLED = Sampling(temperature=0.9, top_k=50, seed=5)


@pytest.fixture(scope="module")
def decoder(model_folder: Path) -> Iterator[Client]:
    """A client of a decoder whose draft model is its own model."""
    process = start_decoder(
        model_folder,
        draft_model=model_folder,
        draft_depth=5,
        draft_width=1,
        draft_min_probability=0,
        row_cost=0,
    )
    with ended_after(process), Client(process.address) as client:
        yield client


def test_it_is_a_source_by_default(decoder: Client) -> None:
    assert decoder.model().default_sources == ("own", "model")
    assert "model" in decoder.server_info().sources


@pytest.mark.parametrize("sampling", [None, SAMPLED], ids=["greedy", "sampled"])
def test_its_drafts_are_accepted_and_change_nothing(decoder: Client, sampling: Sampling | None) -> None:
    prompt = "a draft is a guess"
    plain = decoder.generate(prompt, sampling=sampling, stop=STOP, drafts=Drafts.none()).result()
    drafts = Drafts(sources=("model",))
    fast = decoder.generate(prompt, sampling=sampling, stop=STOP, drafts=drafts).result()
    assert (fast.token_ids, fast.text) == (plain.token_ids, plain.text)
    assert fast.warnings == ()
    assert [source.source for source in fast.drafts.sources] == ["model"]
    assert fast.drafts.num_accepted > 0.9 * fast.drafts.num_drafted
    assert fast.drafts.num_steps < 60 / 2
