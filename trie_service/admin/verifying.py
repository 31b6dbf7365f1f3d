"""Asks replicas whether what they hold is sound, and compares their answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from draftwell.trie.v1 import trie_pb2 as pb

from trie_service.admin.connection import LONG_CALL_TIMEOUT_S, trie_at
from trie_service.admin.errors import AdminError

ASK_AGAIN_AFTER_S = 0.2


@dataclass(frozen=True, slots=True)
class Finding:
    """What one replica found."""

    address: str
    problems: tuple[str, ...]  # empty: it is well
    digest: str
    num_applied: int
    answered: bool = True


def verify_at(addresses: Sequence[str], namespace: str, wait_s: float) -> list[Finding]:
    """Ask every replica; again, for ``wait_s`` at most, while some have applied more of the log than others."""
    give_up_at = time.monotonic() + wait_s
    with ThreadPoolExecutor(len(addresses)) as threads:
        while True:
            findings = list(threads.map(lambda address: _verify(address, namespace), addresses))
            if _is_settled(findings) or time.monotonic() >= give_up_at:
                return findings
            time.sleep(ASK_AGAIN_AFTER_S)


def differences(findings: Sequence[Finding]) -> list[str]:
    """How the replicas that answered differ from the first of them; empty where they do not."""
    answered = [finding for finding in findings if finding.answered]
    found = []
    for other in answered[1:]:
        first = answered[0]
        if other.num_applied != first.num_applied:
            found.append(
                f"{other.address} has applied {other.num_applied:,} log entries, "
                f"{first.address} {first.num_applied:,}"
            )
        elif other.digest != first.digest:
            found.append(f"{other.address} and {first.address} hold different statistics")
    return found


def _is_settled(findings: Sequence[Finding]) -> bool:
    """Whether asking again would tell nothing new."""
    applied = {finding.num_applied for finding in findings if finding.answered}
    digests = {finding.digest for finding in findings if finding.answered}
    return len(applied) <= 1 and len(digests) <= 1


def _verify(address: str, namespace: str) -> Finding:
    try:
        with trie_at(address) as trie:
            request = pb.VerifyNamespaceRequest(name=namespace)
            found = trie.VerifyNamespace(request, timeout=LONG_CALL_TIMEOUT_S)
    except AdminError as error:
        return Finding(address, (str(error),), "", 0, answered=False)
    problems = tuple(f"{address}: {problem}" for problem in found.problems)
    return Finding(address, problems, found.digest, found.num_applied)
