"""transformers' own generation as a child process that holds the same model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from decoder_service.commands.bench.prompts import BenchPrompt
from decoder_service.commands.bench.samples import Sample
from decoder_service.commands.processes import ServiceFailed

_GRACE_S = 15.0


@dataclass(frozen=True, slots=True)
class PeerOptions:
    """The model, as the decoder has it."""

    model: str | None = None
    dtype: str | None = None
    device: str | None = None


class Peer:
    """Runs one prompt at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def decode(
        self, prompt: BenchPrompt, token_ids: Sequence[int], max_tokens: int, *, lookup: bool
    ) -> Sample:
        """Decode greedily, timed by the peer itself; raise ServiceFailed where the process ended."""
        answer = self.ask({"token_ids": list(token_ids), "max_tokens": max_tokens, "lookup": lookup})
        return Sample(
            prompt, tuple(answer["token_ids"]), tuple(answer["arrivals_s"]), tuple(answer["step_lens"]), None
        )

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Send a line, wait for a line."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ServiceFailed("transformers' process has ended") from error
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next line."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ServiceFailed(f"transformers' process ended with exit status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def running_peer(options: PeerOptions) -> Iterator[Peer]:
    """A peer that has loaded the model; ended on the way out."""
    chosen = {"--model": options.model, "--dtype": options.dtype, "--device": options.device}
    given = [part for flag, value in chosen.items() if value is not None for part in (flag, value)]
    leash = [sys.executable, "-m", "decoder_service.commands.leash", str(os.getpid())]
    process = subprocess.Popen(
        [*leash, "decoder_service.peer_worker", *given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        peer = Peer(process)
        peer.answer()
        yield peer
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
