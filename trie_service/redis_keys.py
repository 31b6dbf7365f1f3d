"""Every key that the store in Redis or Valkey keeps, and what is in it.

- ``dw:{dw}:store`` (string): random identity of the data set, made by the first replica. Replicas that
  meet another one know that the store was emptied, which is not the same as namespaces being deleted.
- ``dw:{dw}:namespaces`` (set): names of the namespaces.
- ``dw:{dw}:changes`` (stream): field ``name``; an entry for each namespace created, changed or deleted, so that
  waiting readers wake. Only a hint, the truth is in the set and the meta keys; trimmed to about 1000 entries.
- ``dw:{NAME}:meta`` (hash), the namespace exists as long as this key does:
  ``format`` (of everything under the namespace), ``fingerprint``, ``vocab_size``, ``incarnation`` (hex, new
  at each creation), ``created`` (Unix seconds), ``lineage`` (hex, new where a snapshot holds text that no log
  has held); ``max_bytes``, ``max_tokens_per_second``, ``text_ttl_s`` (limits); ``appended`` (entries ever
  appended), ``log_bytes`` (bytes of tokens in the log); ``token`` (lease grants so far); ``snap_bytes``,
  ``snap_number``, ``snap_position``, ``snap_ms`` (the snapshot's size, the newest entry that it holds, and when
  it was written), or ``snap_rejected`` where it was found damaged and no other was written yet.
- ``dw:{NAME}:log:INCARNATION`` (stream): an entry for each learned sequence: ``n`` (its number, from 1),
  ``i`` (sequence id), ``c`` (context length), ``t`` (tokens, little-endian int32); or for one that is taken
  back: ``n`` and ``f`` (its sequence id).
- ``dw:{NAME}:ids:INCARNATION`` (sorted set): the newest sequence ids of the log by number; not learned again.
- ``dw:{NAME}:lease:INCARNATION`` (string): the replica that writes snapshots; expires.
- ``dw:{NAME}:snap:INCARNATION`` (hash): the snapshot: ``header``, and ``0``, ``1``, ... its chunks.
- ``dw:{NAME}:snap:INCARNATION:HEX`` (hash): one that is being written; expires unless it gets done.
- ``dw:{NAME}:snap:INCARNATION:rejected`` (hash): one that was found damaged, kept for a day.
- ``dw:{NAME}:deleted:INCARNATION`` (string): that incarnation was deleted; expires after a month. One that is
  gone without it was lost with the store's newest writes: replicas that hold it in memory restore it.

The braces make Redis Cluster keep the keys of a namespace on one slot, so that scripts are atomic there too. The
registry, the first three, is on a slot of its own: either all of it can be reached or nothing.
"""

from __future__ import annotations

from uuid import uuid4

from trie_service.namespace import NamespaceRecord

STORE_KEY = "dw:{dw}:store"
NAMESPACES_KEY = "dw:{dw}:namespaces"
CHANGES_KEY = "dw:{dw}:changes"


def meta_key(name: str) -> str:
    """Key of a namespace's hash."""
    return f"dw:{{{name}}}:meta"


def log_key(record: NamespaceRecord) -> str:
    """Key of a namespace's log."""
    return _key(record, "log")


def ids_key(record: NamespaceRecord) -> str:
    """Key of the ids that are not learned again."""
    return _key(record, "ids")


def lease_key(record: NamespaceRecord) -> str:
    """Key of the lease to write snapshots."""
    return _key(record, "lease")


def snapshot_key(record: NamespaceRecord) -> str:
    """Key of the snapshot."""
    return _key(record, "snap")


def staging_key(record: NamespaceRecord) -> str:
    """A new key for a snapshot that is being written."""
    return f"{snapshot_key(record)}:{uuid4().hex}"


def rejected_key(record: NamespaceRecord) -> str:
    """Key of a snapshot that was found damaged."""
    return f"{snapshot_key(record)}:rejected"


def deleted_key(record: NamespaceRecord) -> str:
    """Key that tells a deleted namespace from a lost one."""
    return _key(record, "deleted")


def _key(record: NamespaceRecord, kind: str) -> str:
    return f"dw:{{{record.name}}}:{kind}:{record.incarnation}"
