"""Both services' logs."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator

import pytest
import structlog

from decoder_service.log import configure_logging as configure_decoder
from trie_service.log import configure_logging as configure_trie


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.parametrize("configure", [configure_decoder, configure_trie])
def test_logs_go_to_the_stderr_of_the_moment(
    configure: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, current = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", closed)
    configure("json")
    closed.close()
    monkeypatch.setattr(sys, "stderr", current)
    structlog.get_logger().warning("still heard")
    assert "still heard" in current.getvalue()
