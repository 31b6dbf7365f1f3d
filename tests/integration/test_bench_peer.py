"""transformers' own generation as the benchmark's peer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from model_folder import save_model_folder
from transformers import AutoModelForCausalLM

from decoder_service.commands.bench.peer import PeerOptions, running_peer
from decoder_service.commands.bench.prompts import BenchPrompt
from decoder_service.commands.processes import ServiceFailed

PROMPT = BenchPrompt("p", "chat", "")
TOKENS = [7, 8, 9, 7, 8, 9, 7, 8]


def test_it_gives_what_generate_gives_and_when(tmp_path: Path) -> None:
    folder = save_model_folder(tmp_path / "model")
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    expected = network.generate(torch.tensor([TOKENS]), do_sample=False, max_new_tokens=24)[
        0, len(TOKENS) :
    ].tolist()
    with running_peer(PeerOptions(str(folder), "float32", "cpu")) as peer:
        plain, lookup = (peer.decode(PROMPT, TOKENS, 24, lookup=lookup) for lookup in (False, True))
    for sample in (plain, lookup):
        assert list(sample.token_ids) == expected
        assert sum(sample.step_lens) == len(expected)
        assert list(sample.arrivals_s) == sorted(sample.arrivals_s)
        assert len(sample.arrivals_s) == sample.num_steps
    assert plain.num_steps == len(expected)
    assert lookup.num_steps < len(expected)


def test_a_peer_that_cannot_load_says_so(tmp_path: Path) -> None:
    with (
        pytest.raises(ServiceFailed, match=r"transformers' process ended with exit status [1-9]"),
        running_peer(PeerOptions(str(tmp_path), "float32", "cpu")),
    ):
        pass
