"""Which request's text a source gets to see."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from engine_sources import RememberingSource
from tiny_model import VOCAB, loaded, one_thread, tiny_model

from decoder_service.calibration import Calibration
from decoder_service.draft import Source
from decoder_service.engine import Engine
from decoder_service.planner import Planner
from tests.verify.decode import CONFIG, DRAFTED, request


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
