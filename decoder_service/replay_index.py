"""The draft index as a replay uses it: a namespace of its own, learned answer by answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from decoder_service.drafts.index import IndexConfig, IndexSource
from decoder_service.errors import DecoderError
from decoder_service.feedback import Feedback
from decoder_service.index_channel import open_index_channel
from decoder_service.traces import VOCAB_LIMIT, Answer

FINGERPRINT: Final = "replay"
PATIENCE_S: Final = 10.0  # a replay waits for every draft, and gives up where a decoder would go on


class IndexFailed(DecoderError):
    """The index gave no drafts or did not learn."""


class ReplayIndex:
    """Drafts from and learns into one namespace of a trie service."""

    def __init__(self, source: IndexSource, feedback: Feedback, namespace: str) -> None:
        self.source = source
        self._feedback = feedback
        self.namespace = namespace

    def learn(self, answer: Answer, num_applied: Callable[[], int], num_expected: int) -> None:
        """Learn an answer and wait until drafts are made from it: ``num_expected`` sequences are applied.

        Raises IndexFailed if the service refuses, or failed to draft since the last answer.
        """
        if warning := self.source.warning(self.namespace):
            raise IndexFailed(warning)
        self._feedback.learn(self.namespace, answer.text, answer.num_output)
        if not self._feedback.wait_until_empty(PATIENCE_S) or self._feedback.num_dropped:
            raise IndexFailed(self._feedback.warning(self.namespace) or "the index does not learn")
        while num_applied() < num_expected:
            pass  # every look is a call to the service


@contextmanager
def replay_index(address: str, namespace: str) -> Iterator[ReplayIndex]:
    """Connect to the trie service at ``address``; raise IndexFailed if it cannot be reached."""
    with open_index_channel(address) as channel:
        config = IndexConfig(FINGERPRINT, VOCAB_LIMIT, deadline_s=PATIENCE_S)
        source = IndexSource(channel, config)
        feedback = Feedback(channel, FINGERPRINT, VOCAB_LIMIT)
        try:
            if not source.wait_until_ready(PATIENCE_S):
                raise IndexFailed(source.status)
            yield ReplayIndex(source, feedback, namespace)
        finally:
            source.stop()
            feedback.stop(0.0)
