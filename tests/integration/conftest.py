"""Services that the tests of this folder share: started once, when the first test needs them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from decoder_process import ServiceProcess, ended_after, start_decoder, start_trie
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub
from model_folder import save_model_folder

from decoder_service.client import Client


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model of random weights."""
    return save_model_folder(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def trie_process() -> Iterator[ServiceProcess]:
    """A trie service with a store of its own."""
    process = start_trie()
    with ended_after(process):
        yield process


@pytest.fixture(scope="session")
def decoder_process(model_folder: Path, trie_process: ServiceProcess) -> Iterator[ServiceProcess]:
    """A decoder that waits for its drafts even on a busy machine."""
    process = start_decoder(model_folder, trie=trie_process.address, draft_deadline_ms=1000)
    with ended_after(process):
        yield process


@pytest.fixture(scope="session")
def decoder(decoder_process: ServiceProcess) -> Iterator[Client]:
    """A client of that decoder."""
    with Client(decoder_process.address) as client:
        yield client


@pytest.fixture(scope="session")
def trie(trie_process: ServiceProcess) -> Iterator[TrieServiceStub]:
    """A stub of that trie service."""
    with grpc.insecure_channel(trie_process.address) as channel:
        yield TrieServiceStub(channel)
