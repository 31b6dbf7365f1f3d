"""transformers' own generation of the same model, for benchmarks: a process of its own, a JSON object a line.

``{"token_ids", "max_tokens", "lookup"}`` on standard input, ``{"token_ids", "arrivals_s", "step_lens"}`` on standard
output. The first line that it writes is ``{"ready": true}``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import torch
import typer
from transformers.generation.streamers import BaseStreamer

from decoder_service.config import DecoderConfig
from decoder_service.model import LoadedModel
from decoder_service.service import load

LOOKUP_TOKENS = 10  # transformers' own suggestion for prompt_lookup_num_tokens


class _Arrivals(BaseStreamer):  # type: ignore[misc]
    """When tokens arrived; the prompt comes first and is left out."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.times_s: list[float] = []
        self.lengths: list[int] = []
        self._has_seen_prompt = False

    def put(self, value: torch.Tensor) -> None:
        """Take what one step emitted."""
        if self._has_seen_prompt:
            self.times_s.append(time.monotonic() - self.began_s)
            self.lengths.append(value.numel())
        self._has_seen_prompt = True

    def end(self) -> None:
        """Nothing to do."""


@torch.inference_mode()
def generate(loaded: LoadedModel, token_ids: list[int], max_tokens: int, *, lookup: bool) -> dict[str, Any]:
    """Decode greedily with the model's own attention and cache."""
    prompt = torch.tensor([token_ids], dtype=torch.long, device=loaded.model.options.device)
    arrivals = _Arrivals()
    output = loaded.model.network.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=max_tokens,
        eos_token_id=list(loaded.eos_token_ids),
        pad_token_id=loaded.eos_token_ids[0],
        streamer=arrivals,
        **({"prompt_lookup_num_tokens": LOOKUP_TOKENS} if lookup else {}),
    )
    return {
        "token_ids": output[0, len(token_ids) :].tolist(),
        "arrivals_s": arrivals.times_s,
        "step_lens": arrivals.lengths,
    }


def main(model: str = "", dtype: str = "bfloat16", device: str = "cpu") -> None:
    """Serve until standard input ends."""
    config = DecoderConfig.load(
        {"model": model or None, "dtype": dtype, "device": device, "cache_positions": 16}
    )
    loaded = load(config)
    loaded.model.network.config.get_text_config()._attn_implementation = "sdpa"
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        answer = generate(loaded, asked["token_ids"], asked["max_tokens"], lookup=asked["lookup"])
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    typer.run(main)
