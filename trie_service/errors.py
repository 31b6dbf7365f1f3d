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


class FingerprintMismatchError(TrieServiceError):
    """The namespace belongs to another tokenizer or vocabulary."""

    reason = "FINGERPRINT_MISMATCH"


class UnsupportedFormatError(TrieServiceError):
    """The store keeps the namespace in a format that this version does not know."""

    reason = "UNSUPPORTED_FORMAT"


class StoreUnavailableError(TrieServiceError):
    """The system of record is out of reach or refuses to write."""

    reason = "STORE_UNAVAILABLE"


class NotReadyError(TrieServiceError):
    """The replica is still rebuilding its memory."""

    reason = "LOADING"


class ConfigError(TrieServiceError):
    """A setting is wrong; the text names it."""

    reason = "CONFIG"


class EmbeddedServerError(TrieServiceError):
    """The private valkey-server does not start."""

    reason = "EMBEDDED_SERVER"
