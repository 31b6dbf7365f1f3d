"""The error tree of the trie service. ``status.py`` gives each its gRPC status."""

from __future__ import annotations

from typing import ClassVar


class TrieServiceError(Exception):
    """Root of the tree. The text is for the caller and names the offending value."""

    reason: ClassVar[str] = "INTERNAL"


class InvalidArgumentError(TrieServiceError):
    """The call itself makes no sense."""

    reason = "INVALID_ARGUMENT"


class NamespaceNotFoundError(TrieServiceError):
    """There is no such namespace."""

    reason = "NAMESPACE_NOT_FOUND"


class SequenceNotFoundError(TrieServiceError):
    """The namespace holds no sequence of that name."""

    reason = "SEQUENCE_NOT_FOUND"


class AlreadyExistsError(TrieServiceError):
    """There is a namespace of that name."""

    reason = "NAMESPACE_EXISTS"


class ResourceExhaustedError(TrieServiceError):
    """A bound is reached; learning may go on after ``retry_after_s`` seconds, where that is not None."""

    reason = "LIMIT_REACHED"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ExportFileError(InvalidArgumentError):
    """What is to be imported is no export of a namespace, or a damaged one."""

    reason = "BAD_EXPORT_FILE"


class FingerprintMismatchError(TrieServiceError):
    """The namespace belongs to another tokenizer or vocabulary."""

    reason = "FINGERPRINT_MISMATCH"


class UnsupportedFormatError(TrieServiceError):
    """The store keeps the namespace in a format that this version does not know."""

    reason = "UNSUPPORTED_FORMAT"


class StoreUnavailableError(TrieServiceError):
    """The system of record is out of reach or refuses to write."""

    reason = "STORE_UNAVAILABLE"


class NodeUnavailableError(StoreUnavailableError):
    """A node of the system of record is out of reach; others may answer."""


class StoreFullError(StoreUnavailableError):
    """The system of record has no room for more."""

    reason = "STORE_FULL"


class LeaseLostError(TrieServiceError):
    """Another replica writes the namespace's snapshots now."""

    reason = "LEASE_LOST"


class SnapshotCorruptError(TrieServiceError):
    """A snapshot is damaged."""

    reason = "SNAPSHOT_CORRUPT"


class NotReadyError(TrieServiceError):
    """The replica is still rebuilding its memory."""

    reason = "LOADING"


class ConfigError(TrieServiceError):
    """A setting is wrong; the text names it."""

    reason = "CONFIG"


class EmbeddedServerError(TrieServiceError):
    """The private valkey-server does not start."""

    reason = "EMBEDDED_SERVER"
