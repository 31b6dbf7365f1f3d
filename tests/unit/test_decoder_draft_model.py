"""Which draft models a decoder takes, and what it says where there is none."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from model_folder import save_model_folder

from decoder_service.config import ConfigError, DecoderConfig
from decoder_service.draft import Source
from decoder_service.embedded_model import ModelNotFoundError
from decoder_service.model import LoadedModel
from decoder_service.request import DraftChoice, Event, FinishedEvent, GenerationRequest, StopConditions
from decoder_service.sampling import SamplingParams
from decoder_service.service import Drafting, load, load_draft_model
from decoder_service.step_cost import StepCost

SETTING = r"^--draft-model \(DRAFTWELL_DECODER_DRAFT_MODEL\): "


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model_folder(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def target(folder: Path) -> LoadedModel:
    return load(config(folder))


def config(folder: Path, **settings: object) -> DecoderConfig:
    return DecoderConfig.load(
        {"model": str(folder), "max_context_len": 64, "cache_positions": 256} | settings
    )


def changed(folder: Path, path: Path, file: str, change: Callable[[dict[str, object]], None]) -> Path:
    """A copy of a model folder with one JSON file changed."""
    shutil.copytree(folder, path)
    content = json.loads((path / file).read_text())
    change(content)
    (path / file).write_text(json.dumps(content))
    return path


def swap_two_tokens(tokenizer: dict[str, object]) -> None:
    vocab = tokenizer["model"]["vocab"]  # type: ignore[index]
    first, second = [token for token, number in vocab.items() if number in {300, 301}]
    vocab[first], vocab[second] = vocab[second], vocab[first]


def generate(drafting: Drafting, settings: DecoderConfig, target: LoadedModel) -> FinishedEvent:
    """A greedy run that names every source."""
    engine, events = drafting.engine(settings, target, StepCost.linear(0.0)), list[Event]()
    choice = DraftChoice(frozenset(Source) - {Source.MODEL}, 24, "", learn=False)
    prompt = np.arange(2, 12, dtype=np.int32)
    stop = StopConditions(30, ignore_eos=True)
    engine.add(GenerationRequest("one", prompt, SamplingParams(), stop, choice), events.append)
    while not engine.is_idle:
        engine.step()
    finished = events[-1]
    assert isinstance(finished, FinishedEvent)
    return finished


def test_a_draft_model_of_the_same_tokenizer_drafts(folder: Path, target: LoadedModel) -> None:
    settings = config(folder, draft_model=str(folder), draft_depth=4, draft_width=2)
    draft = load_draft_model(settings, target)
    assert draft is not None
    assert draft.model is not target.model
    finished = generate(Drafting.open(settings, target, draft), settings, target)
    assert finished.warnings == ["the decoder has no index"]
    assert finished.stats.accepted_by[Source.DRAFT_MODEL] > 0


def test_a_request_learns_that_there_is_no_draft_model(folder: Path, target: LoadedModel) -> None:
    settings = config(folder)
    assert load_draft_model(settings, target) is None
    finished = generate(Drafting.open(settings, target), settings, target)
    assert finished.warnings == ["the decoder has no draft model", "the decoder has no index"]
    assert Source.DRAFT_MODEL not in finished.stats.drafted_by


def test_a_draft_model_of_another_tokenizer_is_refused(
    folder: Path, target: LoadedModel, tmp_path: Path
) -> None:
    other = changed(folder, tmp_path / "other", "tokenizer.json", swap_two_tokens)
    with pytest.raises(ConfigError, match=SETTING) as caught:
        load_draft_model(config(folder, draft_model=str(other)), target)
    for word in (str(other), str(folder), target.fingerprint, "tokenizer"):
        assert word in str(caught.value)


def test_a_draft_model_that_cannot_be_loaded_is_named(
    folder: Path, target: LoadedModel, tmp_path: Path
) -> None:
    broken = changed(folder, tmp_path / "broken", "config.json", lambda content: content.clear())
    with pytest.raises(ConfigError, match=f"{SETTING}'{broken}' cannot be loaded: "):
        load_draft_model(config(folder, draft_model=str(broken)), target)
    with pytest.raises(ModelNotFoundError, match="'no/such/model'"):
        load_draft_model(config(folder, draft_model="no/such/model"), target)
