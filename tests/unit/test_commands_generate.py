from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from fake_pair import FakePair, closed_port, fake_pair
from rich.console import Console
from typer.testing import CliRunner, Result

from decoder_service.client import Client, Drafts
from decoder_service.commands.app import app
from decoder_service.commands.draft_marks import DraftMarker


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair() as running:
        yield running


def generate(pair: FakePair, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["generate", "--address", pair.address, *arguments], input=stdin)


def test_text_goes_to_standard_output_and_statistics_to_standard_error(pair: FakePair) -> None:
    result = generate(pair, "hello")
    assert result.exit_code == 0
    assert result.stdout == "hello né 🙂.\n"
    assert "16 tokens in 16 steps (1.00 a step)" in " ".join(result.stderr.split())
    assert "own 20 of 30 drafted" in " ".join(result.stderr.split())


def test_a_prompt_is_a_chat_unless_it_is_raw(pair: FakePair) -> None:
    generate(pair, "hello", "--system", "Be kind.")
    generate(pair, "hello", "--raw")
    talk, raw = pair.decoder.requests
    assert [turn.role for turn in talk.chat.messages] == ["system", "user"]
    assert raw.text == "hello"


def test_a_dash_reads_the_prompt_from_standard_input(pair: FakePair) -> None:
    assert generate(pair, "-", stdin="from a file").stdout.startswith("from a file")


def test_sampling_stop_and_draft_options_reach_the_server(pair: FakePair) -> None:
    options = (
        "--temperature 0.5 --top-k 3 --seed 4 --max-tokens 6 --stop END --drafts own,index --namespace n"
    )
    assert generate(pair, "hello", *options.split()).exit_code == 0
    request = pair.decoder.requests[0]
    assert (request.sampling.temperature, request.sampling.top_k, request.sampling.seed) == (0.5, 3, 4)
    assert not request.sampling.HasField("top_p")
    assert (request.stop.max_tokens, list(request.stop.strings)) == (6, ["END"])
    assert (list(request.drafts.sources), request.drafts.namespace) == (["own", "index"], "n")


def test_drafts_none_is_plain_decoding_and_no_option_the_servers_default(pair: FakePair) -> None:
    generate(pair, "hello", "--drafts", "none")
    generate(pair, "hello")
    plain, default = pair.decoder.requests
    assert plain.HasField("drafts")
    assert list(plain.drafts.sources) == []
    assert not default.HasField("drafts")


def test_json_has_text_tokens_and_rates(pair: FakePair) -> None:
    output = json.loads(generate(pair, "hello", "--json").stdout)
    assert output["text"] == "hello né 🙂."
    assert output["finish_reason"] == "stop_token"
    assert output["usage"]["num_output_tokens"] == len(output["token_ids"]) == 16
    assert output["tokens_per_step"] == 1.0


def test_several_continuations_are_a_block_each_at_the_end(pair: FakePair) -> None:
    assert generate(pair, "hello", "--n", "2").stdout == "--- 0\nhello né 🙂.\n--- 1\nhello né 🙂.\n"


def test_the_prompt_is_shown_where_echo_is_asked_for(pair: FakePair) -> None:
    assert generate(pair, "hello", "--echo").stdout == "prompt:hello né 🙂.\n"


def test_json_holds_all_continuations_and_log_probabilities(pair: FakePair) -> None:
    output = json.loads(generate(pair, "hello", "--json", "--n", "2", "--logprobs", "1").stdout)
    assert [each["index"] for each in output["continuations"]] == [0, 1]
    assert output["continuations"][1]["logprobs"][0] == {"logprob": -1.0, "top": [[7, -0.5]]}


def test_drafted_text_is_marked_with_its_source_where_there_are_no_colours(pair: FakePair) -> None:
    result = generate(pair, "hello", "--show-drafts", "--drafts", "own,index")
    # steps of bytes: h e | l, l || o ␣ | n, half an é || the other half ...
    shown = result.stdout.splitlines()[-1]
    assert shown.startswith("[own|he][index|l]l▏[own|o ][index|n]")
    assert "🙂" in shown
    assert "from the draft index" in result.stdout


def test_drafted_text_has_its_sources_colour_on_a_terminal(pair: FakePair) -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", width=80)
    with Client(pair.address) as client:
        marker = DraftMarker(console, client)
        for step in client.generate("hello", drafts=Drafts(("own", "index"))):
            marker.show(step)
        marker.close()
    assert "\x1b[30;42mhe\x1b[0m\x1b[30;46ml\x1b[0ml" in file.getvalue()


def test_warnings_of_the_server_are_shown(pair: FakePair) -> None:
    pair.decoder.hold_back = 2
    result = generate(pair, "hello")
    assert "warning: the index was out of reach" in result.stderr
    assert result.stdout == "hello né 🙂.\n"


def test_an_unreachable_service_is_named_with_what_to_do() -> None:
    address = closed_port()
    result = CliRunner().invoke(app, ["generate", "--address", address, "hello"])
    assert result.exit_code == 1
    assert address in result.stderr
    assert "draftwell up" in result.stderr
    assert "Traceback" not in result.output


def test_the_servers_own_message_is_the_error(pair: FakePair) -> None:
    result = generate(pair, "")
    assert result.exit_code == 1
    assert result.stderr == "error: the prompt is empty\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--raw", "--system", "x"],
        ["--namespace", "n"],
        ["--top-k", "many"],
        ["--logprobs", "3"],
        ["--n", "2", "--show-drafts"],
    ],
)
def test_options_that_contradict_each_other_are_a_usage_error(pair: FakePair, arguments: list[str]) -> None:
    assert generate(pair, "hello", *arguments).exit_code == 2
    assert pair.decoder.requests == []


def test_every_command_explains_itself_with_examples() -> None:
    for command in ("up", "generate", "demo"):
        result = CliRunner().invoke(app, [command, "--help"])
        assert result.exit_code == 0
        assert f"draftwell {command}" in result.stdout


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_base_installation_says_what_the_command_needs(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from decoder_service.commands import main; main.main()"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr == f"draftwell needs {missing}: pip install 'draftwell[cli]'\n"
