"""The commands that make an index safe and prove it: snapshot, verify."""

from __future__ import annotations

from typing import Annotated

import typer
from draftwell.trie.v1 import trie_pb2 as pb

from trie_service.admin.connection import LONG_CALL_TIMEOUT_S
from trie_service.admin.drawing import print_json
from trie_service.admin.options import AsJson, NamespaceArgument
from trie_service.admin.session import failing, trie_service
from trie_service.admin.verifying import Finding, differences, verify_at


def snapshot(context: typer.Context, namespace: NamespaceArgument, as_json: AsJson = False) -> None:
    """Write a snapshot now and trim the log behind it.

    Examples:

        trie-admin snapshot support
    """
    with trie_service(context) as trie:
        request = pb.WriteSnapshotRequest(name=namespace)
        written = trie.WriteSnapshot(request, timeout=LONG_CALL_TIMEOUT_S)
    if as_json:
        figures = {
            "num_bytes": written.num_bytes,
            "num_tokens": written.num_tokens,
            "num_trimmed": written.num_trimmed,
        }
        print_json({"namespace": namespace} | figures)
    else:
        print(
            f"{namespace}: {written.num_tokens:,} tokens in {written.num_bytes:,} bytes, "
            f"{written.num_trimmed:,} log entries trimmed"
        )


def verify(
    context: typer.Context,
    namespace: NamespaceArgument,
    replicas: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ADDRESS]...", help="HOST:PORT of each replica. [the one of --trie]"),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0.0, help="Seconds that replicas have to apply the same log.")
    ] = 10.0,
    as_json: AsJson = False,
) -> None:
    """Check the memory of every replica that is named, what is stored, and that all hold the same.

    Exit status 1 where a replica reports a problem, does not answer, or differs from another.

    Examples:

        trie-admin verify support

        trie-admin verify support 10.0.0.7:50052 10.0.0.8:50052 --json
    """
    with failing():
        findings = verify_at(replicas or [context.obj.trie], namespace, wait)
    problems = [problem for finding in findings for problem in finding.problems] + differences(findings)
    if as_json:
        print_json(_json(namespace, findings, problems))
    else:
        _print(namespace, findings, problems)
    if problems:
        raise typer.Exit(1)


def _json(namespace: str, findings: list[Finding], problems: list[str]) -> dict[str, object]:
    replicas = [
        {
            "address": finding.address,
            "digest": finding.digest,
            "num_applied": finding.num_applied,
            "problems": list(finding.problems),
        }
        for finding in findings
    ]
    return {"namespace": namespace, "ok": not problems, "problems": problems, "replicas": replicas}


def _print(namespace: str, findings: list[Finding], problems: list[str]) -> None:
    for finding in findings:
        state = "well" if not finding.problems else f"{len(finding.problems)} problems"
        entries = f"{finding.num_applied:,} entries applied, digest {finding.digest or 'none'}"
        print(f"{finding.address}: {state}, {entries}")
    for problem in problems:
        typer.echo(f"trie-admin: {namespace}: {problem}", err=True)
