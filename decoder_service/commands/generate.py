"""``draftwell generate``: one generation, streamed to the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.console import Console

from decoder_service.client import Client, Drafts, Generation, GenerationStream, Prompt, Sampling, Stop
from decoder_service.commands.draft_marks import DraftMarker, legend


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """What to generate and how to show it."""

    address: str
    prompt: Prompt
    sampling: Sampling
    stop: Stop
    drafts: Drafts | None
    n: int
    echo: bool
    logprobs: int | None
    timeout: float | None
    show_drafts: bool
    as_json: bool


def run_generate(options: GenerateOptions) -> None:
    """Stream one generation; raise ClientError where it fails."""
    with Client(options.address) as client:
        stream = client.generate(
            options.prompt,
            sampling=options.sampling,
            stop=options.stop,
            drafts=options.drafts,
            n=options.n,
            echo=options.echo,
            logprobs=options.logprobs,
            timeout=options.timeout,
        )
        if options.as_json:
            print(json.dumps(_json_of(stream.results()), ensure_ascii=False, indent=2))
        elif options.show_drafts:
            _show_marked(client, stream)
        elif options.n > 1:
            _show_blocks(stream)
        else:
            _show_plain(stream)


def _show_plain(stream: GenerationStream) -> None:
    for number, step in enumerate(stream):
        if number == 0:
            print(stream.prompt_text, end="")
        print(step.text, end="", flush=True)
    print()
    _show_summary(stream.result())


def _show_blocks(stream: GenerationStream) -> None:
    for generation in stream.results():
        print(f"--- {generation.index}\n{generation.prompt_text}{generation.text}", flush=True)
        _show_summary(generation)


def _show_marked(client: Client, stream: GenerationStream) -> None:
    console = Console(highlight=False)
    console.print(legend(), style="dim")
    marker = DraftMarker(console, client)
    for step in stream:
        marker.show(step)
    marker.close()
    console.print()
    _show_summary(stream.result())


def _show_summary(generation: Generation) -> None:
    console = Console(file=sys.stderr, highlight=False)
    console.print(summary(generation), style="dim", soft_wrap=True)
    for warning in generation.warnings:
        console.print(f"warning: {warning}", style="yellow", markup=False)


def summary(generation: Generation) -> str:
    """One line: how much, how fast, thanks to which drafts."""
    rate = generation.tokens_per_second
    stats = generation.drafts
    num_tokens, a_step = len(generation.token_ids), generation.tokens_per_step
    parts = [
        f"{num_tokens} tokens in {stats.num_steps} steps ({a_step:.2f} a step)",
        "" if rate is None else f"{rate:.1f} tokens/s",
        *(f"{s.source} {s.num_accepted} of {s.num_drafted} drafted" for s in stats.sources),
        f"draft wait p50 {generation.timings.draft_wait_p50_ms:.2f} ms",
        f"seed {generation.seed}",
        f"ended by {generation.finish_reason.replace('_', ' ')}",
    ]
    return " · ".join(part for part in parts if part)


def _json_of(generations: Sequence[Generation]) -> dict[str, object]:
    """One generation as it is, several under one name."""
    if len(generations) == 1:
        return generation_json(generations[0])
    return {"continuations": [generation_json(generation) for generation in generations]}


def generation_json(generation: Generation) -> dict[str, object]:
    """The generation as JSON values, rates included, without the single steps."""
    fields = asdict(generation)
    del fields["steps"]
    return fields | {
        "tokens_per_step": generation.tokens_per_step,
        "tokens_per_second": generation.tokens_per_second,
    }
