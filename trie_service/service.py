"""One replica's life: open the store, bind, load, serve, stop."""

from __future__ import annotations

import asyncio
import signal
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import grpc
import numpy as np
import structlog
from draftwell.trie.v1 import trie_pb2_grpc
from grpc_reflection.v1alpha import reflection

from trie_service.abandon import abandonable
from trie_service.compile_drafts import drafts_compiled_beside
from trie_service.config import TrieConfig
from trie_service.drafting import DraftLimits, draft_batch
from trie_service.draining import StreamDrain
from trie_service.embedded_store import EmbeddedServer
from trie_service.errors import ConfigError, StoreUnavailableError
from trie_service.follow import Follower
from trie_service.health import DRAFT_SERVICES, Health
from trie_service.held_text import MIN_BYTES, HeldText
from trie_service.index import DraftIndex
from trie_service.limits import ServiceLimits
from trie_service.metrics import Metrics
from trie_service.options import IndexOptions
from trie_service.redis_store import RedisStore
from trie_service.sequence import TokenSequence
from trie_service.servicer import TrieServicer
from trie_service.serving import ServingState
from trie_service.snapshot_policy import SnapshotPolicy

MAX_MESSAGE_BYTES = 8 << 20

SERVER_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),  # a second replica on the port fails instead of taking half of the calls
)

log = structlog.get_logger()


async def serve(config: TrieConfig) -> None:
    """Serve until SIGINT or SIGTERM, then stop in order.

    Raises ConfigError, StoreUnavailableError or EmbeddedServerError where it cannot start.
    """
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await _serve(config)
    log.info("stopped")


async def _serve(config: TrieConfig) -> None:
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(_open_store(config))
        index = DraftIndex(store, _index_options(config))
        health = Health()
        index.serving.on_state = health.note
        await health.set(ServingState.LOADING)
        address = await stack.enter_async_context(listening(config, index, health))
        await abandonable(compile_index)
        follower = Follower(store, index)
        await follower.catch_up()
        await index.upkeep.round()
        index.serving.state = ServingState.SERVING
        await health.set(ServingState.SERVING)
        log.info("serving", address=address, store=store.description)
        print(f"trie-service listening on {address}", flush=True)
        async with asyncio.TaskGroup() as work:
            work.create_task(index.upkeep.run())
            work.create_task(index.snapshots.run())
            work.create_task(follower.run())


def compile_index() -> None:
    """Have the index's machine code compiled, or loaded, before anybody waits for it."""
    tokens = np.arange(8, dtype=np.int32)
    text = HeldText(max_order=4, max_bytes=MIN_BYTES)
    with drafts_compiled_beside():
        for name in ("first", "second", "third"):
            deque(text.insert(TokenSequence(name, tokens, context_len=1), appended_ms=1))
        deque(text.forget("first"))
        deque(text.expire(before_ms=2))
        HeldText.from_arrays(text.to_arrays(), max_order=4, max_bytes=MIN_BYTES)
    draft_batch(text.trie, [tokens[:2]], [DraftLimits(max_nodes=4)])


@asynccontextmanager
async def _open_store(config: TrieConfig) -> AsyncIterator[RedisStore]:
    scheme, _, rest = config.redis.partition(":")
    async with AsyncExitStack() as stack:
        url = config.redis
        if scheme == "embedded":
            embedded = EmbeddedServer(Path(rest) if rest else None)
            await embedded.start()
            stack.push_async_callback(embedded.stop)
            url = embedded.url
        description = config.redis if scheme == "embedded" else ""
        store = RedisStore(url, max_log_bytes=int(config.max_bytes), description=description)
        stack.push_async_callback(store.close)
        await _connect(store)
        yield store


async def _connect(store: RedisStore) -> None:
    try:
        await store.connect()
    except StoreUnavailableError as error:
        raise StoreUnavailableError(
            f"{error}\nStart a Redis or Valkey there, name another one with --redis, "
            "or use --redis embedded: for a private one."
        ) from error


@asynccontextmanager
async def listening(config: TrieConfig, index: DraftIndex, health: Health) -> AsyncIterator[str]:
    """A started gRPC server, and its metrics; gives the address it got."""
    metrics = Metrics(index, config.metrics_namespaces)
    drain = StreamDrain()
    server = grpc.aio.server(interceptors=[drain], options=SERVER_OPTIONS)
    trie_pb2_grpc.add_TrieServiceServicer_to_server(TrieServicer(index, metrics), server)
    health.add_to(server)
    names = (*DRAFT_SERVICES[1:], "grpc.health.v1.Health", reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    port = _bind(server, config.listen)
    await server.start()
    try:
        with metrics.served(config.metrics_listen):
            yield f"{config.listen.rpartition(':')[0]}:{port}"
    finally:
        log.info("stopping")
        await health.stop()
        drain.close()
        await server.stop(config.stop_grace_s)


def _bind(server: grpc.aio.Server, address: str) -> int:
    try:
        return server.add_insecure_port(address)
    except RuntimeError as error:
        raise ConfigError(
            f"--listen (DRAFTWELL_TRIE_LISTEN): cannot bind {address}: is it in use?"
        ) from error


def _index_options(config: TrieConfig) -> IndexOptions:
    return IndexOptions(
        max_order=config.max_order,
        limits=ServiceLimits(
            max_bytes=int(config.max_bytes),
            max_total_bytes=int(config.max_total_bytes),
            max_namespaces=config.max_namespaces,
            max_tokens_per_second=config.max_tokens_per_second,
            max_total_tokens_per_second=config.max_total_tokens_per_second,
            text_ttl_s=config.text_ttl_s,
        ),
        auto_create=config.auto_create,
        default_limits=DraftLimits(max_nodes=config.draft_nodes, max_depth=config.draft_depth),
        snapshots=SnapshotPolicy(
            interval_s=config.snapshot_interval_s,
            log_bytes=int(config.snapshot_log_bytes),
            keep_s=config.snapshot_keep_s,
            lease_s=config.snapshot_lease_s,
            grace_s=config.snapshot_grace_s,
        ),
    )
