"""The command that asks an index: suggest."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from trie_service.admin.asking import Question, ask_index, namespace_for
from trie_service.admin.drawing import print_json, suggestion_json, suggestion_tree
from trie_service.admin.options import AsJson, Decoder, Namespace, TokenizerFolder, one_tokenizer
from trie_service.admin.session import services


def suggest(  # noqa: PLR0913, PLR0917 - one parameter a flag
    context: typer.Context,
    text: Annotated[str | None, typer.Argument(help="The text to continue; needs --decoder.")] = None,
    namespace: Namespace = None,
    decoder: Decoder = None,
    tokenizer: TokenizerFolder = None,
    tokens: Annotated[
        str | None, typer.Option(help="Token ids to continue instead of a text, for example 1,2,3.")
    ] = None,
    max_nodes: Annotated[int, typer.Option(min=0, help="Most nodes; 0: the server's default.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Draw the draft tree that the index has for a context, with the probability of each path.

    Examples:

        trie-admin suggest "def main(" -n code --decoder 127.0.0.1:50051

        trie-admin suggest "def main(" -n code --tokenizer ./model --max-nodes 16

        trie-admin suggest --tokens 1,2,3 -n code --json
    """
    named = one_tokenizer(decoder, tokenizer)
    if (text is None) == (tokens is None) or (text is not None and named is None):
        raise typer.BadParameter("give a TEXT with --decoder or --tokenizer, or --tokens")
    asked = text if text is not None else _token_ids(tokens or "")
    with services(context, named) as (trie, vocabulary):
        question = Question(namespace_for(vocabulary, namespace), asked, max_nodes)
        suggestion = ask_index(trie, vocabulary, question)
    if as_json:
        print_json(suggestion_json(suggestion))
    else:
        Console().print(suggestion_tree(text or tokens or "", suggestion))


def _token_ids(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--tokens {text!r} is not a list of numbers such as 1,2,3") from error
