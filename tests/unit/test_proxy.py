"""Proxies of the environment catch none of the traffic between client, decoder and index."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from draftwell.trie.v1 import trie_pb2
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub
from fake_pair import fake_pair
from fake_trie import RunningTrie

from decoder_service.client import Client
from decoder_service.commands.index_client import index_client
from decoder_service.index_channel import open_index_channel
from trie_service.admin.connection import trie_at

ROOT = Path(__file__).resolve().parents[2]
DEAD_PROXY = "http://127.0.0.1:1"
INFO = trie_pb2.GetServerInfoRequest()
TIMEOUT_S = 10.0


@pytest.fixture(autouse=True)
def dead_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, DEAD_PROXY)
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def trie() -> Iterator[RunningTrie]:
    running = RunningTrie()
    yield running
    running.kill()


def test_a_channel_without_our_options_would_fail_here(trie: RunningTrie) -> None:
    with grpc.insecure_channel(trie.target) as channel, pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
        TrieServiceStub(channel).GetServerInfo(INFO, timeout=TIMEOUT_S)


def test_the_decoder_reaches_its_index(trie: RunningTrie) -> None:
    with open_index_channel(trie.target) as channel:
        assert TrieServiceStub(channel).GetServerInfo(INFO, timeout=TIMEOUT_S).version == "fake"


def test_the_admin_command_reaches_the_index(trie: RunningTrie) -> None:
    with trie_at(trie.target) as stub:
        assert stub.GetServerInfo(INFO, timeout=TIMEOUT_S).version == "fake"


def test_the_client_and_the_commands_reach_the_pair() -> None:
    with fake_pair() as pair, Client(pair.address) as client, index_client(pair.address) as index:
        client.wait_until_ready(TIMEOUT_S)
        assert client.model(timeout=TIMEOUT_S).name
        assert index.store()


def test_the_images_health_check_reaches_its_service() -> None:
    with fake_pair() as pair:
        command = [sys.executable, str(ROOT / "docker" / "healthcheck.py"), pair.address]
        assert subprocess.run(command, env=os.environ, check=False).returncode == 0
