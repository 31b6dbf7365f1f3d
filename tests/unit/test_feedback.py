from __future__ import annotations

from collections.abc import Iterator

import grpc
import numpy as np
import pytest
from fake_trie import RunningTrie

from decoder_service.feedback import Feedback
from decoder_service.index_channel import open_index_channel
from decoder_service.standing import Standing, Standings

TEXT = np.arange(30, dtype=np.int32)


@pytest.fixture
def trie() -> Iterator[RunningTrie]:
    running = RunningTrie()
    yield running
    running.kill()


@pytest.fixture
def feedback(trie: RunningTrie) -> Iterator[Feedback]:
    channel = open_index_channel(trie.target)
    feedback = Feedback(channel, "f00d", vocab_size=100, capacity=4)
    yield feedback
    feedback.stop(flush_s=0.0)
    channel.close()


def test_an_output_is_learned_after_sixteen_tokens_of_its_prompt(
    trie: RunningTrie, feedback: Feedback
) -> None:
    feedback.learn("tenant", TEXT, num_output=5)
    assert feedback.wait_until_empty(20)
    (request,) = trie.service.learned
    assert list(request.tokens) == list(range(9, 30))
    assert request.context_len == 16
    assert request.sequence_id
    assert (request.namespace.name, request.namespace.fingerprint) == ("tenant", "f00d")
    assert (feedback.num_learned, feedback.num_dropped) == (1, 0)


def test_a_short_prompt_is_sent_whole_and_no_output_not_at_all(trie: RunningTrie, feedback: Feedback) -> None:
    feedback.learn("tenant", TEXT, num_output=0)
    feedback.learn("tenant", TEXT, num_output=27)
    assert feedback.wait_until_empty(20)
    assert [(request.context_len, len(request.tokens)) for request in trie.service.learned] == [(3, 30)]


def test_a_namespace_is_created_once_before_its_first_output(trie: RunningTrie, feedback: Feedback) -> None:
    for namespace in ("a", "b", "a"):
        feedback.learn(namespace, TEXT, num_output=5)
        assert feedback.wait_until_empty(20)
    assert [request.namespace.name for request in trie.service.created] == ["a", "b"]
    assert trie.service.created[0].vocab_size == 100
    assert [request.namespace.name for request in trie.service.learned] == ["a", "b", "a"]


def test_outputs_wait_for_a_service_that_is_away(trie: RunningTrie, feedback: Feedback) -> None:
    trie.kill()
    feedback.learn("tenant", TEXT, num_output=5)
    assert not feedback.wait_until_empty(0.3)
    assert "UNAVAILABLE" in feedback.warning("tenant")
    trie.start()
    assert feedback.wait_until_empty(20)
    assert len(trie.service.learned) == 1
    assert feedback.warning("tenant") == ""


def test_a_namespace_that_fails_holds_up_no_other(trie: RunningTrie, feedback: Feedback) -> None:
    trie.service.out_of_reach = {"far"}
    feedback.learn("far", TEXT, num_output=5)
    feedback.learn("near", TEXT, num_output=6)
    feedback.learn("far", TEXT, num_output=7)
    assert trie.service.wait_until_learned("near", 20)
    assert not feedback.wait_until_empty(0.0)
    assert "UNAVAILABLE" in feedback.warning("far")
    trie.service.out_of_reach = set()
    assert feedback.wait_until_empty(20)
    lengths = [len(request.tokens) for request in trie.service.learned if request.namespace.name == "far"]
    assert lengths == [21, 23]


def test_a_namespace_that_has_gone_is_created_again(trie: RunningTrie, feedback: Feedback) -> None:
    trie.service.learn_failures = [grpc.StatusCode.NOT_FOUND]
    feedback.learn("tenant", TEXT, num_output=5)
    assert feedback.wait_until_empty(20)
    assert len(trie.service.created) == 2
    assert len(trie.service.learned) == 1


def test_a_refused_namespace_is_not_tried_again_at_once(trie: RunningTrie, feedback: Feedback) -> None:
    trie.service.create_failures = [grpc.StatusCode.FAILED_PRECONDITION]
    for _ in range(3):
        feedback.learn("tenant", TEXT, num_output=5)
        assert feedback.wait_until_empty(20)
    feedback.learn("other", TEXT, num_output=5)
    assert feedback.wait_until_empty(20)
    assert "FAILED_PRECONDITION" in feedback.warning("tenant")
    assert [request.namespace.name for request in trie.service.created] == ["tenant", "other"]
    assert (feedback.num_learned, feedback.num_dropped) == (1, 3)


def test_an_output_that_is_sent_again_keeps_its_id(trie: RunningTrie, feedback: Feedback) -> None:
    trie.service.learn_failures = [grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE]
    feedback.learn("tenant", TEXT, num_output=5)
    feedback.learn("tenant", TEXT, num_output=5)
    assert feedback.wait_until_empty(20)
    ids_of_calls = [[request.sequence_id for request in call] for call in trie.service.learn_calls]
    ids_of_the_first = {ids[0] for ids in ids_of_calls[:3]}
    assert len(ids_of_calls) >= 3
    assert len(ids_of_the_first) == 1
    assert len({request.sequence_id for request in trie.service.learned}) == 2


def test_the_same_output_of_a_restarted_decoder_has_another_id(trie: RunningTrie) -> None:
    for _ in range(2):
        with open_index_channel(trie.target) as channel:
            feedback = Feedback(channel, "f00d", vocab_size=100)
            feedback.learn("tenant", TEXT, num_output=5)
            feedback.stop(flush_s=20.0)
    first, second = trie.service.learned
    assert first.tokens == second.tokens
    assert first.sequence_id != second.sequence_id


def test_what_is_known_of_namespaces_is_bounded(
    trie: RunningTrie, feedback: Feedback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feedback, "_standings", Standings(capacity=2))
    trie.service.create_failures = [grpc.StatusCode.PERMISSION_DENIED]
    for namespace in ("refused", "a", "b", "a", "b"):
        feedback.learn(namespace, TEXT, num_output=5)
        assert feedback.wait_until_empty(20)
    assert [request.namespace.name for request in trie.service.created] == ["refused", "a", "b"]
    assert feedback.warning("refused") == ""
    assert feedback.warning("a") == ""


def test_the_namespace_noted_longest_ago_is_forgotten() -> None:
    standings = Standings(capacity=3)
    for number in range(1000):
        standings.note(f"tenant-{number}", Standing(is_created=True))
        standings.note("busy", Standing(warning=str(number)))
        assert len(standings) <= 3
    assert standings.of("tenant-999").is_created
    assert standings.of("busy").warning == "999"
    assert standings.of("tenant-0") == Standing()


def test_overflow_drops_the_oldest(trie: RunningTrie, feedback: Feedback) -> None:
    trie.kill()
    feedback.learn("tenant", TEXT[:1], num_output=1)
    assert not feedback.wait_until_empty(0.2)  # the first one was tried
    for num_tokens in range(2, 8):
        feedback.learn("tenant", TEXT[:num_tokens], num_output=num_tokens)
    trie.start()
    assert feedback.wait_until_empty(20)
    assert [len(request.tokens) for request in trie.service.learned] == [4, 5, 6, 7]
    assert feedback.num_dropped == 3


def test_stop_sends_what_is_queued(trie: RunningTrie) -> None:
    with open_index_channel(trie.target) as channel:
        feedback = Feedback(channel, "f00d", vocab_size=100)
        for _ in range(200):
            feedback.learn("tenant", TEXT, num_output=5)
        feedback.stop(flush_s=20.0)
    assert len(trie.service.learned) == feedback.num_learned == 200


def test_stop_gives_up_on_an_absent_service_at_its_deadline() -> None:
    with open_index_channel("127.0.0.1:1") as channel:
        feedback = Feedback(channel, "f00d", vocab_size=100)
        feedback.learn("tenant", TEXT, num_output=5)
        feedback.learn("other", TEXT, num_output=5)
        feedback.stop(flush_s=0.3)
    assert (feedback.num_learned, feedback.num_dropped) == (0, 2)
