"""Which request's text a source gets to see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from tiny_model import VOCAB, loaded, one_thread, tiny_model

from decoder_service.calibration import Calibration
from decoder_service.draft import DraftAsk, DraftTree, Source
from decoder_service.engine import Engine
from decoder_service.planner import Planner
from tests.verify.decode import CONFIG, DRAFTED, request


class RememberingSource:
    """Proposes nothing and remembers which texts it was shown."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.prompts: set[int] = set()  # first tokens
        self._num_asks = 0

    def begin(self, asks: Sequence[DraftAsk]) -> None:
        self.prompts |= {int(ask.text[0]) for ask in asks}
        self._num_asks = len(asks)

    def collect(self) -> list[DraftTree]:
        return [DraftTree.empty() for _ in range(self._num_asks)]

    def close(self, request_id: int) -> None:
        pass


def test_a_source_sees_only_the_texts_of_requests_that_name_it() -> None:
    own, index = RememberingSource(Source.OWN), RememberingSource(Source.INDEX)
    with one_thread():
        engine = Engine(
            loaded(tiny_model("llama", torch.float32)), [own, index], Planner(Calibration()), CONFIG
        )
        wanted = {5: {Source.OWN}, 6: {Source.OWN, Source.INDEX}, 7: set()}
        for first, sources in wanted.items():
            prompt = np.array([first, *range(10, 20)], dtype=np.int32) % VOCAB
            asked = request(prompt, max_tokens=6, ignore_eos=True)
            engine.add(
                replace(asked, drafts=replace(DRAFTED, sources=frozenset(sources))), lambda event: None
            )
        while not engine.is_idle:
            engine.step()
    assert own.prompts == {5, 6}
    assert index.prompts == {6}
