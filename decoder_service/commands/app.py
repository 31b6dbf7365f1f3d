"""The ``draftwell`` command line: options in, one call a command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from decoder_service.client import ClientError, Drafts, Lookahead, Prompt, Sampling, Stop, Unreachable, chat
from decoder_service.client.client import DEFAULT_ADDRESS
from decoder_service.commands.bench.command import BenchOptions, run_bench
from decoder_service.commands.bench.systems import DRAFT_NODES, most_rows, systems_of
from decoder_service.commands.demo.command import DemoOptions, OutputDiffers, run_demo
from decoder_service.commands.generate import GenerateOptions, run_generate
from decoder_service.commands.pair import Pair, PairOptions
from decoder_service.commands.processes import ServiceFailed
from decoder_service.commands.replay import ReplayOptions, run_replay
from decoder_service.commands.up import run_up
from decoder_service.errors import DecoderError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="Language models decoded faster, and never differently.",
)

_FAILURES = (ClientError, ServiceFailed, OutputDiffers, DecoderError)

Model = Annotated[str | None, typer.Option(help="Model folder or GGUF file. Default: the embedded SmolLM2.")]
Dtype = Annotated[str | None, typer.Option(help="bfloat16 or float32. Default: the decoder's.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda. Default: the decoder's.")]
Redis = Annotated[
    str,
    typer.Option(
        help="The store: embedded: (gone at the end), embedded:FOLDER (kept), redis://, rediss://, unix://."
    ),
]


@contextmanager
def _failures_as_exit_status() -> Iterator[None]:
    try:
        yield
    except _FAILURES as error:
        hint = "\nIs it running? `draftwell up` starts one." if isinstance(error, Unreachable) else ""
        typer.echo(f"error: {error}{hint}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        raise typer.Exit(130) from error


@app.command()
def up(  # noqa: PLR0913 - one parameter an option
    *,
    listen: Annotated[str, typer.Option(help="Address of the decoder service.")] = DEFAULT_ADDRESS,
    trie_listen: Annotated[str, typer.Option(help="Address of the trie service.")] = "127.0.0.1:50052",
    redis: Redis = "embedded:",
    model: Model = None,
    dtype: Dtype = None,
    device: Device = None,
    logs: Annotated[bool, typer.Option(help="Show the services' logs.")] = True,
) -> None:
    """Start a store, a trie service and a decoder; Ctrl-C stops all three.

    Examples:

        draftwell up

        draftwell up --redis embedded:./store --model ./my-model --dtype float32
    """
    options = PairOptions(listen, trie_listen, redis, model, dtype, device)
    with _failures_as_exit_status():
        run_up(options, show_logs=logs)


@app.command()
def generate(  # noqa: PLR0913 - one parameter an option
    prompt: Annotated[str, typer.Argument(help="What to say; - reads it from standard input.")],
    *,
    address: Annotated[
        str, typer.Option(envvar="DRAFTWELL_ADDRESS", help="Of the decoder service; several with commas.")
    ] = DEFAULT_ADDRESS,
    use_chat: Annotated[
        bool, typer.Option("--chat/--raw", help="Under the chat template, or as raw text to continue.")
    ] = True,
    system: Annotated[str | None, typer.Option(help="System message of the chat.")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens to generate.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="Stop before this text; repeatable.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 or unset: greedy.")] = None,
    top_k: Annotated[int | None, typer.Option(help="Among the k likeliest tokens.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Among the likeliest of this mass.")] = None,
    min_p: Annotated[float | None, typer.Option(help="At least so likely as the likeliest.")] = None,
    repetition_penalty: Annotated[float | None, typer.Option(help="1: none.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed gives the same text.")] = None,
    drafts: Annotated[
        str | None, typer.Option(help="Any of own,index,lookahead,model; none: plain decoding.")
    ] = None,
    lookahead: Annotated[
        str | None, typer.Option(help="W,N,G of lookahead; N 2 and G 0 is Jacobi decoding.")
    ] = None,
    namespace: Annotated[str, typer.Option(help="Of the index. Default: the decoder's.")] = "",
    n: Annotated[int, typer.Option("--n", "-n", min=1, max=16, help="Continuations, seeds counted up.")] = 1,
    echo: Annotated[bool, typer.Option(help="Show the prompt, too.")] = False,
    logprobs: Annotated[
        int | None, typer.Option(min=0, max=20, help="Likeliest tokens beside each one; needs --json.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds until giving up.")] = None,
    show_drafts: Annotated[bool, typer.Option(help="Colour drafted tokens by source.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Generate text and stream it; a line of statistics goes to standard error.

    Examples:

        draftwell generate "Name three rivers."

        draftwell generate --show-drafts --max-tokens 200 "Explain recursion with an example."

        draftwell generate --raw --temperature 0.8 --seed 7 "Once upon a time"

        draftwell generate --n 3 --temperature 0.8 --logprobs 5 --json "Name a river."

        cat question.txt | draftwell generate --drafts none -
    """
    if logprobs is not None and not as_json:
        raise typer.BadParameter("--logprobs needs --json")
    if n > 1 and show_drafts:
        raise typer.BadParameter("--show-drafts shows one continuation: it excludes --n")
    options = GenerateOptions(
        address=address,
        prompt=_prompt(prompt, system, use_chat=use_chat),
        sampling=Sampling(temperature, top_k, top_p, min_p, repetition_penalty, seed),
        stop=Stop(max_tokens=max_tokens, strings=tuple(stop or ())),
        drafts=_drafts(drafts, namespace, lookahead),
        n=n,
        echo=echo,
        logprobs=logprobs,
        timeout=timeout,
        show_drafts=show_drafts,
        as_json=as_json,
    )
    with _failures_as_exit_status():
        run_generate(options)


def _prompt(text: str, system: str | None, *, use_chat: bool) -> Prompt:
    if system is not None and not use_chat:
        raise typer.BadParameter("--system needs --chat: raw text has no system message")
    given = sys.stdin.read() if text == "-" else text
    return chat(given, system=system) if use_chat else given


def _drafts(sources: str | None, namespace: str, lookahead: str | None) -> Drafts | None:
    if sources is None:
        if namespace or lookahead:
            raise typer.BadParameter(f"{'--namespace' if namespace else '--lookahead'} needs --drafts")
        return None
    names = () if sources == "none" else tuple(name.strip() for name in sources.split(","))
    return Drafts(sources=names, namespace=namespace, lookahead=_lookahead(lookahead))


def _lookahead(value: str | None) -> Lookahead | None:
    if value is None:
        return None
    numbers = value.split(",")
    if len(numbers) != 3 or not all(number.strip().isdecimal() for number in numbers):
        raise typer.BadParameter(f"{value!r} is not W,N,G, for example 5,3,5", param_hint="--lookahead")
    return Lookahead(*map(int, numbers))


@app.command()
def demo(  # noqa: PLR0913 - one parameter an option
    *,
    json_path: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures there.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens a prompt.")] = 128,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first prompts.")] = None,
    redis: Redis = "embedded:",
    model: Model = None,
    dtype: Dtype = None,
    device: Device = None,
    decoder: Annotated[str | None, typer.Option(help="Of a pair that runs already; needs --trie.")] = None,
    trie: Annotated[str | None, typer.Option(help="Of a pair that runs already.")] = None,
) -> None:
    """Decode real prompts plainly and with drafts, and compare speed and output.

    Starts a pair of services, then decodes every prompt plainly, with drafts from a cold index, and with
    drafts from the index that the cold pass warmed. Exit status 1 if any output differs from plain
    decoding.

    Examples:

        draftwell demo

        draftwell demo --limit 3 --max-tokens 64 --json figures.json

        draftwell demo --decoder 127.0.0.1:50051 --trie 127.0.0.1:50052
    """
    options = DemoOptions(
        pair=PairOptions(redis=redis, model=model, dtype=dtype, device=device),
        running=_running_pair(decoder, trie),
        json_path=json_path,
        max_tokens=max_tokens,
        limit=limit,
    )
    with _failures_as_exit_status():
        run_demo(options)


def _running_pair(decoder: str | None, trie: str | None) -> Pair | None:
    if (decoder is None) != (trie is None):
        raise typer.BadParameter("--decoder and --trie go together")
    return None if decoder is None or trie is None else Pair(decoder, trie)


@app.command()
def bench(  # noqa: PLR0913 - one parameter an option
    *,
    prompts: Annotated[
        list[str],
        typer.Option(metavar="FILE[=N]", help="Prompts, .jsonl or .jsonl.gz, or N of them; repeatable."),
    ],
    systems: Annotated[
        str, typer.Option(help="What to compare; lookahead:WxNxG is a system too.")
    ] = "plain,own,index,lookahead,jacobi,all,hf-generate,hf-prompt-lookup",
    concurrency: Annotated[str, typer.Option(help="Requests at once; several, separated by commas.")] = "1",
    lessons: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE[=N]", help="Prompts that all-taught learns first; repeatable."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="So many prompts in all.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Most tokens a prompt.")] = 128,
    passes: Annotated[
        int, typer.Option(min=1, help="Over all prompts; later ones find what was learned.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Draw the figures there, .png or .svg.")] = None,
    redis: Redis = "embedded:",
    model: Model = None,
    dtype: Dtype = None,
    device: Device = None,
    draft_model: Annotated[str | None, typer.Option(help="Smaller model for the system named model.")] = None,
    decoder: Annotated[str | None, typer.Option(help="Of a pair that runs already; needs --trie.")] = None,
    trie: Annotated[str | None, typer.Option(help="Of a pair that runs already.")] = None,
) -> None:
    """Compare ways of decoding on the same prompts, greedily, in one run.

    Systems take turns, prompt by prompt. Exit status 1 if a way of this decoder gave other tokens than plain
    decoding.

    Examples:

        draftwell bench --prompts prompts.jsonl.gz --limit 20

        draftwell bench --prompts chat.jsonl=60 --prompts code.jsonl=20 --systems plain,all,hf-generate --json

        draftwell bench --prompts chat.jsonl=20 --systems plain,lookahead:4x3x5,lookahead:8x3x5 --picture sweep.svg
    """
    try:
        chosen = systems_of(systems)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--systems") from error
    concurrencies = _concurrencies(concurrency)
    flags: tuple[str, ...] = (
        "--draft-nodes",
        str(max(DRAFT_NODES, most_rows(chosen))),
        "--max-streams",
        str(max(concurrencies)),
    )
    if draft_model is not None:
        flags = (*flags, "--draft-model", draft_model)
    options = BenchOptions(
        pair=PairOptions(redis=redis, model=model, dtype=dtype, device=device, decoder_flags=flags),
        running=_running_pair(decoder, trie),
        prompts=tuple(prompts),
        lessons=tuple(lessons or ()),
        systems=tuple(chosen),
        concurrencies=concurrencies,
        limit=limit,
        max_tokens=max_tokens,
        passes=passes,
        as_json=as_json,
        picture=picture,
    )
    with _failures_as_exit_status():
        run_bench(options)


def _concurrencies(value: str) -> tuple[int, ...]:
    numbers = [number.strip() for number in value.split(",")]
    if not all(number.isdecimal() and int(number) > 0 for number in numbers):
        raise typer.BadParameter(
            f"{value!r} is not numbers above 0, for example 1,4,16", param_hint="--concurrency"
        )
    return tuple(map(int, numbers))


@app.command()
def replay(  # noqa: PLR0913 - one parameter an option
    traces: Annotated[list[Path], typer.Argument(help="Recorded answers, .jsonl or .jsonl.gz.")],
    *,
    budget: Annotated[int, typer.Option(min=0, max=1024, help="Most draft nodes a step.")] = 24,
    min_probability: Annotated[float, typer.Option(min=0, max=1, help="Least of a node's path.")] = 0.02,
    source: Annotated[str, typer.Option(help="own,index or one of them.")] = "own,index",
    trie: Annotated[str | None, typer.Option(help="Address of a trie service that runs already.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first answers of each file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Replay recorded answers through the real drafting code, without a model.

    Every file starts with nothing learned. Tells the tokens a step would have emitted and the draft nodes
    that it would have verified, and how honest the predicted probabilities were.

    Examples:

        draftwell replay traces.jsonl.gz

        draftwell replay --budget 64 --min-probability 0.05 --json one.jsonl.gz two.jsonl.gz

        draftwell replay --source own --limit 20 traces.jsonl
    """
    sources = frozenset(name.strip() for name in source.split(","))
    if unknown := sources - {"own", "index"}:
        raise typer.BadParameter(f"{min(unknown)!r} is no draft source; there are own, index")
    options = ReplayOptions(traces, budget, min_probability, sources, trie, limit, as_json)
    with _failures_as_exit_status():
        run_replay(options)
