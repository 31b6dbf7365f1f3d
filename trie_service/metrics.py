"""Prometheus metrics of one replica, served on a port of their own. The index itself knows nothing of it.

Counters of namespaces are read when they are scraped. At most ``max_labels`` namespaces have a label of
their own, those that were asked and taught most when a label was free; the rest are "other".
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, Histogram, start_http_server
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from trie_service.errors import ConfigError
from trie_service.index import DraftIndex
from trie_service.memory import NamespaceMemory
from trie_service.serving import ServingState

OTHER: Final = "other"
PREFIX: Final = "draftwell_trie_"

DRAFT_SECONDS_BUCKETS: Final = (25e-6, 50e-6, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 5e-3, 20e-3, 0.1, 1.0)

log = structlog.get_logger()


class _Figure(NamedTuple):
    """A figure of NamespaceStats and the metric that shows it."""

    attribute: str
    metric: str
    text: str


COUNTERS: Final = (
    _Figure("num_lookups", "lookups", "Queries answered"),
    _Figure("num_hits", "hits", "Queries answered with at least one node; over lookups: the hit rate"),
    _Figure("num_drafted_nodes", "draft_nodes", "Nodes drafted"),
    _Figure("num_tokens", "learned_tokens", "Tokens learned, context not counted"),
    _Figure("num_sequences", "learned_sequences", "Sequences learned"),
    _Figure(
        "num_evicted_tokens", "evicted_tokens", "Tokens that left because of the bound in bytes or their age"
    ),
    _Figure("num_forgotten_sequences", "forgotten_sequences", "Sequences taken back"),
)
SUMMED_GAUGES: Final = (
    _Figure("num_bytes", "bytes", "Bytes of memory held"),
    _Figure("num_nodes", "nodes", "Trie nodes in use"),
    _Figure("num_pending", "pending_entries", "Entries of the log that are not yet applied"),
    _Figure("log_bytes", "log_bytes", "Bytes of the log in the store"),
    _Figure("snapshot_bytes", "snapshot_bytes", "Bytes of the newest snapshot"),
)
HIGHEST_GAUGES: Final = (
    _Figure(
        "replication_lag_s", "replication_lag_seconds", "From the newest entry's append to its application"
    ),
    _Figure("snapshot_age_s", "snapshot_age_seconds", "Since the newest snapshot was written"),
)


@dataclass(slots=True)
class _Totals:
    """What a label's namespaces have counted so far, those that are gone included: it never falls."""

    figures: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    lookups_by_order: dict[int, int] = field(default_factory=lambda: defaultdict(int))


@dataclass(slots=True)
class _Seen:
    """A namespace's counters at the last scrape."""

    figures: dict[str, float]
    lookups_by_order: list[int]


class NamespaceCollector(Collector):
    """Reads the index when it is scraped; from another thread, so figures may be a moment apart."""

    def __init__(self, index: DraftIndex, max_labels: int) -> None:
        self._index = index
        self._max_labels = max_labels
        self._one_scrape_at_a_time = threading.Lock()
        self._labelled: set[str] = set()
        self._seen: dict[str, _Seen] = {}  # by incarnation
        self._totals: dict[str, _Totals] = {OTHER: _Totals()}

    def collect(self) -> Iterable[Metric]:
        """All metrics of the moment."""
        with self._one_scrape_at_a_time:
            return list(self._metrics())

    def _metrics(self) -> Iterator[Metric]:
        memories = self._index.namespaces.all()
        self._label(memories)
        for memory in memories:
            self._count(memory)
        self._seen = {memory.record.incarnation: self._seen[memory.record.incarnation] for memory in memories}
        yield from self._counters()
        yield self._match_orders()
        yield from self._gauges(memories)
        yield _state_metric(self._index.serving.state)
        yield GaugeMetricFamily(f"{PREFIX}namespaces", "Namespaces held", value=len(memories))
        num_lost = sum(memory.is_out_of_reach for memory in memories)
        yield GaugeMetricFamily(
            f"{PREFIX}namespaces_out_of_reach", "Namespaces on lost nodes of the store", value=num_lost
        )

    def _label_of(self, memory: NamespaceMemory) -> str:
        return memory.record.name if memory.record.name in self._labelled else OTHER

    def _label(self, memories: list[NamespaceMemory]) -> None:
        """Give free labels to the most active; take those back of namespaces that are gone."""
        names = {memory.record.name for memory in memories}
        for name in self._labelled - names:
            self._merge_into_other(self._totals.pop(name))
        self._labelled &= names
        waiting = [memory for memory in memories if memory.record.name not in self._labelled | {OTHER}]
        waiting.sort(key=_activity, reverse=True)
        for memory in waiting[: self._max_labels - len(self._labelled)]:
            self._labelled.add(memory.record.name)
            self._totals[memory.record.name] = _Totals()

    def _merge_into_other(self, totals: _Totals) -> None:
        for name, value in totals.figures.items():
            self._totals[OTHER].figures[name] += value
        for order, count in totals.lookups_by_order.items():
            self._totals[OTHER].lookups_by_order[order] += count

    def _count(self, memory: NamespaceMemory) -> None:
        """Add what a namespace counted since the last scrape to its label."""
        stats = memory.stats()
        now = _Seen(
            {figure.attribute: getattr(stats, figure.attribute) for figure in COUNTERS},
            list(memory.lookups_by_order),
        )
        before = self._seen.get(memory.record.incarnation, _Seen({}, [0] * len(now.lookups_by_order)))
        totals = self._totals[self._label_of(memory)]
        for name, value in now.figures.items():
            totals.figures[name] += max(0, value - before.figures.get(name, 0))
        for order, count in enumerate(now.lookups_by_order):
            totals.lookups_by_order[order] += count - before.lookups_by_order[order]
        self._seen[memory.record.incarnation] = now

    def _counters(self) -> Iterator[Metric]:
        for figure in COUNTERS:
            family = CounterMetricFamily(f"{PREFIX}{figure.metric}", figure.text, labels=["namespace"])
            for label, totals in self._totals.items():
                family.add_metric([label], totals.figures[figure.attribute])
            yield family

    def _match_orders(self) -> Metric:
        family = HistogramMetricFamily(
            f"{PREFIX}match_order", "Longest suffix that matched, 0 for none", labels=["namespace"]
        )
        for label, totals in self._totals.items():
            counts = [totals.lookups_by_order[order] for order in range(self._index.max_match_order + 1)]
            buckets = [(str(float(order)), float(sum(counts[: order + 1]))) for order in range(len(counts))]
            total = sum(order * count for order, count in enumerate(counts))
            family.add_metric([label], [*buckets, ("+Inf", float(sum(counts)))], float(total))
        return family

    def _gauges(self, memories: list[NamespaceMemory]) -> Iterator[Metric]:
        stats = [(self._label_of(memory), memory.stats()) for memory in memories]
        for figures, join in ((SUMMED_GAUGES, sum), (HIGHEST_GAUGES, max)):
            for figure in figures:
                values: dict[str, list[float]] = defaultdict(list)
                for label, one in stats:
                    if (value := getattr(one, figure.attribute)) is not None:
                        values[label].append(value)
                family = GaugeMetricFamily(f"{PREFIX}{figure.metric}", figure.text, labels=["namespace"])
                for label, found in values.items():
                    family.add_metric([label], join(found))
                yield family


class Metrics:
    """The metrics of one replica."""

    def __init__(self, index: DraftIndex, max_labels: int) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(NamespaceCollector(index, max_labels))
        self._draft_seconds = Histogram(
            f"{PREFIX}draft_seconds",
            "Time to answer a draft message, all of its queries",
            registry=self._registry,
            buckets=DRAFT_SECONDS_BUCKETS,
        )

    def timing_draft(self) -> AbstractContextManager[object]:
        """Takes note of how long a draft message took."""
        return self._draft_seconds.time()

    @contextmanager
    def served(self, listen: str) -> Iterator[None]:
        """Serve them on HOST:PORT meanwhile, unless that is empty; raise ConfigError for a taken port."""
        if not listen:
            yield
            return
        host, _, port = listen.rpartition(":")
        try:
            server, thread = start_http_server(int(port), host, self._registry)
        except OSError as error:
            raise ConfigError(
                f"--metrics-listen (DRAFTWELL_TRIE_METRICS_LISTEN): cannot bind {listen}: {error.strerror}"
            ) from error
        log.info("serving metrics", address=f"{host}:{server.server_port}")
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _activity(memory: NamespaceMemory) -> int:
    stats = memory.stats()
    return stats.num_lookups + stats.num_tokens


def _state_metric(state: ServingState) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}state", "1 for the state that the replica is in", labels=["state"])
    for one in ServingState:
        family.add_metric([one.value], float(one is state))
    return family
