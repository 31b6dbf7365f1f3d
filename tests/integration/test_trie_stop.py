"""How a replica stops: nobody who only might ask again holds it up."""

from __future__ import annotations

import asyncio
import os
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1 import trie_pb2_grpc as rpc
from trie_processes import children_of, command, is_running, until

from trie_service.config import TrieConfig
from trie_service.drafting import DraftLimits
from trie_service.health import Health
from trie_service.index import DraftIndex
from trie_service.limits import ServiceLimits
from trie_service.memory_store import MemoryStore
from trie_service.options import IndexOptions
from trie_service.service import listening
from trie_service.serving import ServingState

OPTIONS = IndexOptions(
    max_order=8,
    limits=ServiceLimits(max_bytes=1 << 20),
    auto_create=True,
    default_limits=DraftLimits(max_nodes=8),
)
LONG_GRACE = TrieConfig.load({"listen": "127.0.0.1:0", "stop_grace_s": 60})


async def test_open_draft_streams_end_at_once_with_their_answers() -> None:
    index = DraftIndex(MemoryStore(), OPTIONS)
    index.serving.state = ServingState.SERVING
    async with AsyncExitStack() as clients:
        async with listening(LONG_GRACE, index, Health()) as address:
            channel = await clients.enter_async_context(grpc.aio.insecure_channel(address))
            streams = [rpc.TrieServiceStub(channel).Draft() for _ in range(3)]
            for number, stream in enumerate(streams[:2]):
                await stream.write(pb.DraftRequest(id=number))
                answer = await stream.read()
                assert isinstance(answer, pb.DraftResponse)
                assert answer.id == number
            await streams[2].wait_for_connection()
            stopped_from = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - stopped_from < LONG_GRACE.stop_grace_s / 4
        for stream in streams:
            assert await stream.read() is grpc.aio.EOF
            assert await stream.code() is grpc.StatusCode.OK


async def test_a_stream_that_its_caller_ends_is_answered_to_the_last_request() -> None:
    index = DraftIndex(MemoryStore(), OPTIONS)
    index.serving.state = ServingState.SERVING
    async with (
        listening(LONG_GRACE, index, Health()) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        requests = [pb.DraftRequest(id=number) for number in range(5)]
        answers = rpc.TrieServiceStub(channel).Draft(iter(requests))
        assert [answer.id async for answer in answers] == [0, 1, 2, 3, 4]


def test_a_stop_does_not_wait_for_the_first_compilation(tmp_path: Path) -> None:
    code = tmp_path / "code"
    service = subprocess.Popen(
        command("--listen", "127.0.0.1:0"),
        env=os.environ | {"NUMBA_CACHE_DIR": str(code), "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with service:
        until(lambda: any(code.rglob("*.nbc")))  # the first function of many
        (store,) = children_of(service.pid)
        service.terminate()
        assert service.wait(timeout=3) == 0
        assert not is_running(store)
        assert service.stdout is not None
        assert service.stdout.read() == ""  # it had not begun to serve
    assert [path.name for path in tmp_path.iterdir()] == ["code"]
