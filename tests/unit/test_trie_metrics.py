"""What Prometheus sees: figures that never fall, and few labels."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from index_replicas import draft, learn, replica

from trie_service.index import DraftIndex
from trie_service.memory_store import MemoryStore
from trie_service.metrics import NamespaceCollector
from trie_service.namespace import NamespaceRef
from trie_service.store import Stored


def scraped(collector: NamespaceCollector) -> dict[tuple[str, str], float]:
    """Value by sample name and label; of histograms the buckets too."""
    return {
        (sample.name.removeprefix("draftwell_trie_"), "/".join(sample.labels.values())): sample.value
        for metric in collector.collect()
        for sample in metric.samples
    }


def labels_of(found: Iterable[tuple[str, str]]) -> set[str]:
    return {label for name, label in found if name == "lookups_total"}


async def learned(index: DraftIndex, names: Iterable[str]) -> None:
    for name in names:
        await learn(index, [1, 2, 3], ref=NamespaceRef(name, "fp"))
        record = index.namespaces.memory_of(NamespaceRef(name)).record
        await index.reader.until_caught_up(record)


async def test_figures_of_a_namespace_have_its_label() -> None:
    async with replica(MemoryStore()) as index:
        collector = NamespaceCollector(index, max_labels=5)
        await learned(index, ["a"])
        draft(index, 1, 2, ref=NamespaceRef("a"))
        draft(index, 9, ref=NamespaceRef("a"))
        found = scraped(collector)
        assert found["lookups_total", "a"] == 2
        assert found["hits_total", "a"] == 1
        assert found["draft_nodes_total", "a"] == 1
        assert found["learned_tokens_total", "a"] == 3
        assert found["match_order_bucket", "a/0.0"] == 1
        assert found["match_order_bucket", "a/1.0"] == 1
        assert found["match_order_bucket", "a/2.0"] == 2
        assert found["match_order_count", "a"] == 2
        assert found["match_order_sum", "a"] == 2
        assert found["bytes", "a"] > 0
        assert found["nodes", "a"] == index.namespaces.memory_of(NamespaceRef("a")).stats().num_nodes
        assert found["pending_entries", "a"] == 0
        assert found["namespaces", ""] == 1
        assert found["namespaces_out_of_reach", ""] == 0
        index.namespaces.memory_of(NamespaceRef("a")).note_stored(Stored(is_out_of_reach=True))
        assert scraped(collector)["namespaces_out_of_reach", ""] == 1
        assert (found["state", "serving"], found["state", "loading"]) == (1, 0)
        assert ("snapshot_age_seconds", "a") not in found


async def test_the_most_active_have_labels_and_the_rest_is_other() -> None:
    async with replica(MemoryStore()) as index:
        collector = NamespaceCollector(index, max_labels=2)
        await learned(index, ["a", "b", "c", "d"])
        for name in "cd":
            draft(index, 1, ref=NamespaceRef(name))
        found = scraped(collector)
        assert labels_of(found) == {"c", "d", "other"}
        assert found["lookups_total", "other"] == 0
        assert found["learned_tokens_total", "other"] == 6
        for _ in range(10):
            draft(index, 1, ref=NamespaceRef("a"))
        again = scraped(collector)
        assert labels_of(again) == {"c", "d", "other"}  # a label stays where it is
        assert again["lookups_total", "other"] == 10


async def test_counters_never_fall_when_namespaces_come_and_go() -> None:
    async with replica(MemoryStore()) as index:
        collector = NamespaceCollector(index, max_labels=1)
        await learned(index, ["a", "b"])
        draft(index, 1, ref=NamespaceRef("a"))
        assert labels_of(scraped(collector)) == {"a", "other"}
        await index.namespaces.delete(NamespaceRef("a"))
        found = scraped(collector)
        assert labels_of(found) == {"b", "other"}
        assert found["lookups_total", "other"] == 1
        assert found["learned_tokens_total", "other"] == 6
        await learned(index, ["a"])
        again = scraped(collector)
        assert again["learned_tokens_total", "other"] == 9
        assert all(again[key] >= value for key, value in found.items() if key[0].endswith("_total"))


@pytest.mark.parametrize("max_labels", [0, 3])
async def test_there_are_never_more_labels_than_allowed(max_labels: int) -> None:
    async with replica(MemoryStore()) as index:
        collector = NamespaceCollector(index, max_labels)
        await learned(index, [f"n{number}" for number in range(10)])
        assert len(labels_of(scraped(collector))) == max_labels + 1


async def test_a_namespace_that_is_called_other_is_one_of_the_others() -> None:
    async with replica(MemoryStore()) as index:
        collector = NamespaceCollector(index, max_labels=2)
        await learned(index, ["other", "a"])
        found = scraped(collector)
        assert found["learned_tokens_total", "other"] == 3
        await index.namespaces.delete(NamespaceRef("other"))
        await learned(index, ["b"])
        again = scraped(collector)
        assert labels_of(again) == {"a", "b", "other"}
        assert again["learned_tokens_total", "other"] == 3
