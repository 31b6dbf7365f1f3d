"""Which nodes of a cluster answer: what is kept on the others is left alone until they do again.

A store that is no cluster is one node; where it does not answer, the store does not.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NamedTuple

import structlog

from trie_service.errors import NodeUnavailableError, StoreUnavailableError

PROBE_S: Final = 0.5  # between two questions whether a lost node is back

Calling = Callable[[], AbstractAsyncContextManager[None]]

log = structlog.get_logger()


class Ask(NamedTuple):
    """A command on one key, as it is put into a pipeline."""

    key: str
    put_into: Callable[[Any], object]


class RedisNodes:
    """Asks many keys at once, each node for its own; says once that a node is lost, and that it is back."""

    def __init__(self, redis: Any, calling: Calling, *, is_cluster: bool) -> None:  # noqa: ANN401 - redis-py's
        self._redis = redis
        self._calling = calling
        self.is_cluster = is_cluster
        self.num_losses = 0  # of nodes, so far
        self._probes: dict[str, asyncio.Task[None]] = {}  # of lost nodes, by name

    async def close(self) -> None:
        """Ask after lost nodes no more."""
        for probe in self._probes.values():
            probe.cancel()
        await asyncio.gather(*self._probes.values(), return_exceptions=True)

    def require(self, key: str) -> None:
        """Raise NodeUnavailableError where the node of a key is lost: nobody waits for it again and again."""
        if self._probes and (name := self.name_of(key)) in self._probes:
            raise _lost(name)

    async def now_ms(self) -> int:
        """The clock of a node that answers, in milliseconds since 1970; raise StoreUnavailableError without one."""
        if not self.is_cluster:
            async with self._calling():
                return _milliseconds(await self._redis.time())
        async with self._calling():
            await self._redis.initialize()
        nodes = sorted(self._redis.get_primaries(), key=lambda node: node.name in self._probes)
        error: StoreUnavailableError | None = None
        for node in nodes:
            try:
                async with self._calling():
                    return _milliseconds(await self._redis.time(target_nodes=node))
            except StoreUnavailableError as failure:
                error = failure
        raise StoreUnavailableError(f"no node of the cluster answers: {error}") from error

    async def ask(self, asks: Sequence[Ask]) -> list[Any]:
        """The replies, None for what is kept on a node that does not answer.

        Raises StoreUnavailableError where no node answers.
        """
        if not self.is_cluster:
            return await self._pipelined(asks)
        places = await self._places(asks)
        asked = [name for name in places if name not in self._probes]
        answers = await asyncio.gather(
            *(self._ask_node(name, [asks[place] for place in places[name]]) for name in asked)
        )
        replies: list[Any] = [None] * len(asks)
        for name, answer in zip(asked, answers, strict=True):
            for place, reply in zip(places[name], answer or (), strict=answer is not None):
                replies[place] = reply
        if asks and all(answer is None for answer in answers):
            raise StoreUnavailableError(f"no answer from {', '.join(sorted(places))}")
        return replies

    async def _places(self, asks: Sequence[Ask]) -> dict[str, list[int]]:
        """Which of the questions go to each node, by name."""
        places: dict[str, list[int]] = defaultdict(list)
        try:
            async with self._calling():
                await self._redis.initialize()
                for place, ask in enumerate(asks):
                    places[self.name_of(ask.key)].append(place)
        except NodeUnavailableError as error:  # nobody says where the keys are
            raise StoreUnavailableError(str(error)) from error
        return places

    async def _ask_node(self, name: str, asks: Sequence[Ask]) -> list[Any] | None:
        """None where it does not answer."""
        try:
            return await self._pipelined(asks)
        except StoreUnavailableError as error:
            self._lose(name, asks[0].key, error)
            return None

    async def _pipelined(self, asks: Sequence[Ask]) -> list[Any]:
        async with self._calling(), self._redis.pipeline(transaction=False) as pipeline:
            for ask in asks:
                ask.put_into(pipeline)
            replies: list[Any] = await pipeline.execute()
        return replies

    def _lose(self, name: str, key: str, error: StoreUnavailableError) -> None:
        if name not in self._probes:
            log.warning("node of the store lost: its namespaces learn nothing", node=name, error=str(error))
            self.num_losses += 1
            self._probes[name] = asyncio.create_task(self._probe(name, key))

    async def _probe(self, name: str, key: str) -> None:
        """Ask for one of its keys until there is an answer, from this node or from one in its place."""
        while True:
            await asyncio.sleep(PROBE_S)
            try:
                async with self._calling():
                    await self._redis.exists(key)
            except StoreUnavailableError:
                continue
            log.info("node of the store is back", node=name)
            del self._probes[name]
            return

    def name_of(self, key: str) -> str:
        """The node of a cluster that keeps a key, once the cluster was asked for anything."""
        name: str = self._redis.get_node_from_key(key).name
        return name


def _lost(name: str) -> NodeUnavailableError:
    return NodeUnavailableError(f"node {name} of the store does not answer: try again later")


def _milliseconds(reply: tuple[int, int]) -> int:
    seconds, microseconds = reply
    return seconds * 1000 + microseconds // 1000
