"""Metrics of a replica, scraped as Prometheus does."""

from __future__ import annotations

import json
import re
import subprocess
from urllib.request import urlopen

from draftwell.trie.v1 import trie_pb2 as pb
from prometheus_client.parser import text_string_to_metric_families
from trie_processes import DEADLINE_S, Replica, command, until


def address_of(replica: Replica) -> str:
    """Where the replica says that it serves metrics."""
    until(lambda: "serving metrics" in replica.log)
    events = [json.loads(line) for line in replica.log.splitlines()]
    return next(event["address"] for event in events if event["event"] == "serving metrics")


def scraped(address: str) -> dict[str, float]:
    """Samples without those of histograms' buckets, by name and labels."""
    with urlopen(f"http://{address}/metrics", timeout=DEADLINE_S) as response:
        text = response.read().decode()
    return {
        " ".join([sample.name.removeprefix("draftwell_trie_"), *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }


def test_metrics_are_served_where_asked() -> None:
    with Replica("--log-format", "json", "--metrics-listen", "127.0.0.1:0") as replica:
        address = address_of(replica)
        replica.learn("chat", [1, 2, 3, 4])
        until(lambda: replica.suggest("chat", 1) == [2, 3, 4])
        replica.stub.WriteSnapshot(pb.WriteSnapshotRequest(name="chat"), timeout=DEADLINE_S)
        until(lambda: "snapshot_age_seconds chat" in scraped(address))
        before = scraped(address)
        assert before["learned_tokens_total chat"] == 4
        assert before["namespaces"] == 1
        assert before["state serving"] == 1
        assert before["bytes chat"] > 0
        assert before["snapshot_bytes chat"] > 0
        assert 0 <= before["snapshot_age_seconds chat"] < DEADLINE_S
        assert 0 <= before["replication_lag_seconds chat"] < DEADLINE_S
        replica.suggest("chat", 2)
        replica.suggest("chat", 9)
        after = scraped(address)
        grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        assert grown.pop("draft_seconds_sum") > 0
        assert {
            name: value for name, value in grown.items() if not re.match("snapshot_age|replication", name)
        } == {
            "draft_seconds_count": 2,
            "lookups_total chat": 2,
            "hits_total chat": 1,
            "draft_nodes_total chat": 2,
            "match_order_count chat": 2,
            "match_order_sum chat": 1,
        }
        assert replica.stop() == 0


def test_metrics_are_off_unless_asked_for_and_a_taken_port_is_named() -> None:
    with Replica() as replica:
        assert "serving metrics" not in replica.log
        run = subprocess.run(
            command("--listen", "127.0.0.1:0", "--metrics-listen", replica.address),
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )
    assert run.returncode == 2
    assert "--metrics-listen (DRAFTWELL_TRIE_METRICS_LISTEN): cannot bind" in run.stderr
    assert "Traceback" not in run.stderr
