"""Namespaces: how a caller names one, and what the store keeps of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from uuid import uuid4

from trie_service.errors import FingerprintMismatchError, InvalidArgumentError, UnsupportedFormatError

FORMAT_VERSION = 1
NO_FORMAT = -1  # of what is stored and makes no sense
MAX_VOCAB_SIZE = 1 << 24
MAX_FINGERPRINT_LEN = 256

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(frozen=True, slots=True)
class NamespaceRef:
    """A namespace as a caller names it. An empty fingerprint skips the check."""

    name: str
    fingerprint: str = ""

    def validate(self) -> None:
        """Raise InvalidArgumentError unless name and fingerprint are well formed."""
        if not _NAME.fullmatch(self.name):
            raise InvalidArgumentError(
                f"namespace name {self.name[:140]!r} is not 1 to 128 characters out of "
                "letters, digits, '.', '_' and '-'"
            )
        if len(self.fingerprint) > MAX_FINGERPRINT_LEN:
            raise InvalidArgumentError(
                f"fingerprint of {len(self.fingerprint)} characters exceeds {MAX_FINGERPRINT_LEN}"
            )


@dataclass(frozen=True, slots=True)
class NamespaceLimits:
    """Bounds of a namespace. 0: the service's default; for the time to live: none."""

    max_bytes: int = 0  # of memory, at each replica
    max_tokens_per_second: int = 0  # learned, at each replica
    text_ttl_s: int = 0  # learned text is forgotten after so many seconds


@dataclass(frozen=True, slots=True)
class NamespaceRecord:
    """What the store keeps of a namespace beside its log and its snapshot.

    A namespace that is deleted and created again has a new incarnation, and with it a new log. Limits and
    lineage change during its life: records are equal whatever these are.
    """

    name: str
    fingerprint: str
    vocab_size: int  # token ids are below this
    incarnation: str
    format_version: int = FORMAT_VERSION
    limits: NamespaceLimits = field(default=NamespaceLimits(), compare=False)
    lineage: str = field(default="", compare=False)  # new where a snapshot holds text that no log has held

    @classmethod
    def new(
        cls, ref: NamespaceRef, vocab_size: int, limits: NamespaceLimits = NamespaceLimits()
    ) -> NamespaceRecord:
        """The record of a namespace to create; raise InvalidArgumentError for one that cannot be."""
        ref.validate()
        if not ref.fingerprint:
            raise InvalidArgumentError(f"namespace {ref.name!r} cannot be created without a fingerprint")
        if not 1 <= vocab_size <= MAX_VOCAB_SIZE:
            raise InvalidArgumentError(f"vocab_size {vocab_size} is not in 1 to {MAX_VOCAB_SIZE}")
        return cls(ref.name, ref.fingerprint, vocab_size, uuid4().hex, limits=limits)

    @property
    def is_readable(self) -> bool:
        """Whether this version knows the format."""
        return self.format_version == FORMAT_VERSION

    def check_format(self) -> None:
        """Raise UnsupportedFormatError for a format that this version cannot read."""
        if self.format_version == NO_FORMAT:
            raise UnsupportedFormatError(
                f"namespace {self.name!r} is stored in a format that makes no sense: was the store written by hand?"
            )
        if not self.is_readable:
            raise UnsupportedFormatError(
                f"namespace {self.name!r} is stored in format {self.format_version} and this version "
                f"of trie-service reads format {FORMAT_VERSION}: run the version that wrote it"
            )

    def check_fingerprint(self, fingerprint: str) -> None:
        """Raise FingerprintMismatchError unless ``fingerprint`` is empty or the namespace's own."""
        if fingerprint and fingerprint != self.fingerprint:
            raise FingerprintMismatchError(
                f"namespace {self.name!r} has fingerprint {self.fingerprint!r}, not {fingerprint!r}: "
                "its tokens belong to another tokenizer"
            )
