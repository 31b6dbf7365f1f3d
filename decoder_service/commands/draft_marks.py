"""Shows streamed text with the tokens that drafts contributed, and from which source."""

from __future__ import annotations

from itertools import groupby

from rich.console import Console
from rich.text import Text

from decoder_service.client import Client, Step, TokenSource
from decoder_service.commands.token_text import Token, TokenText, TokenTexts

STYLES = {
    TokenSource.MODEL: "",
    TokenSource.OWN: "black on green",
    TokenSource.INDEX: "black on cyan",
    TokenSource.LOOKAHEAD: "black on yellow",
    TokenSource.DRAFT_MODEL: "black on magenta",
}
_STEP_END = "▏"


def legend() -> Text:
    """What the colours mean."""
    return Text.assemble(
        ("own", STYLES[TokenSource.OWN]),
        " from the request's own text, ",
        ("index", STYLES[TokenSource.INDEX]),
        " from the draft index, ",
        ("lookahead", STYLES[TokenSource.LOOKAHEAD]),
        " from its window, ",
        ("draft-model", STYLES[TokenSource.DRAFT_MODEL]),
        " from the draft model, the rest from the model alone; ",
        f"{_STEP_END} ends a step of several tokens",
    )


class DraftMarker:
    """Prints the steps of one stream. Without colours drafted text stands as ``[source|text]``."""

    def __init__(self, console: Console, client: Client) -> None:
        self._console = console
        self._client = client
        self._texts = TokenTexts()
        self._num_steps = 0
        self._last: Token | None = None  # newest token shown
        self._run_len = 0  # tokens shown of its step

    def show(self, step: Step) -> None:
        """Print what became certain with this step."""
        pieces = self._client.pieces(step.token_ids) if step.token_ids else ()
        tokens = [Token(*pair, self._num_steps) for pair in zip(pieces, step.sources, strict=True)]
        self._num_steps += 1
        for _, parts in groupby(self._texts.feed(tokens, step.text), key=_step_and_source):
            self._show_run(list(parts))

    def close(self) -> None:
        """End the last step."""
        self._end_step()

    def _show_run(self, parts: list[TokenText]) -> None:
        token = parts[0].token
        if self._last is not None and self._last.step != token.step:
            self._end_step()
        self._last = token
        self._run_len += len(parts)
        self._print(self._marked("".join(part.text for part in parts), token.source))

    def _end_step(self) -> None:
        if self._run_len > 1:
            self._print(Text(_STEP_END, style="dim"))
        self._run_len = 0

    def _marked(self, text: str, source: TokenSource) -> Text:
        if self._console.color_system is None and source is not TokenSource.MODEL and text:
            return Text(f"[{source}|{text}]")
        return Text(text, style=STYLES[source])

    def _print(self, text: Text) -> None:
        self._console.print(text, end="", soft_wrap=True)


def _step_and_source(part: TokenText) -> tuple[int, TokenSource]:
    return part.token.step, part.token.source
