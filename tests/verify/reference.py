"""transformers' own greedy ``generate``, and how near a tie was where it chose otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM

from decoder_service.embedded_model import ModelFiles
from decoder_service.forest import Int32Array

NEAR_TIE: Final = 1e-4  # of logits: the two compute in float32 in different orders


@dataclass(frozen=True, slots=True)
class Generated:
    """What ``generate`` chose."""

    tokens: list[int]
    logits: tuple[torch.Tensor, ...]  # one [1, vocab] a token

    def first_difference(self, output: list[int]) -> int | None:
        """The first place at which ``output`` is another, or None."""
        for place, (theirs, ours) in enumerate(zip(self.tokens, output, strict=False)):
            if theirs != ours:
                return place
        return None if len(self.tokens) == len(output) else min(len(self.tokens), len(output))

    def margin(self, place: int, ours: list[int]) -> float:
        """How much likelier, in logits, their token at ``place`` is than ours; infinite where there is none."""
        if place >= min(len(self.tokens), len(ours)):
            return float("inf")
        row = self.logits[place][0]
        return float(row[self.tokens[place]] - row[ours[place]])


class Reference:
    """The model as transformers runs it, in float32. End tokens end nothing."""

    def __init__(self, files: ModelFiles) -> None:
        self._network: Any = AutoModelForCausalLM.from_pretrained(files.folder, dtype=torch.float32).eval()
        self._network.generation_config.eos_token_id = None

    def generate(self, prompt: Int32Array, max_tokens: int) -> Generated:
        """Greedy, with its cache."""
        answer = self._network.generate(
            torch.from_numpy(prompt).long()[None],
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=max_tokens,
            pad_token_id=0,  # for batches of several, this one has one
            output_logits=True,
            return_dict_in_generate=True,
        )
        return Generated(answer.sequences[0, len(prompt) :].tolist(), answer.logits)
