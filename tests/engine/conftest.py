"""Fixtures of the tests that run tiny models."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from engine_cases import MODES
from tiny_model import loaded, one_thread, tiny_model

from decoder_service.model import LoadedModel
from decoder_service.sampling import SamplingParams


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    with one_thread():
        yield


@pytest.fixture(scope="module")
def llama() -> LoadedModel:
    """bfloat16, where rounding shows every difference."""
    return loaded(tiny_model("llama", torch.bfloat16))


@pytest.fixture(params=list(MODES))
def sampling(request: pytest.FixtureRequest) -> SamplingParams:
    return MODES[request.param]
