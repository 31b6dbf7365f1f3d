"""The commands that show what an index holds: namespaces, stats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from draftwell.trie.v1 import trie_pb2 as pb
from draftwell.trie.v1.trie_pb2_grpc import TrieServiceStub
from rich.console import Console

from trie_service.admin.connection import CALL_TIMEOUT_S
from trie_service.admin.drawing import namespace_json, namespace_table, print_json
from trie_service.admin.options import AsJson
from trie_service.admin.session import trie_service


def namespaces(context: typer.Context, as_json: AsJson = False) -> None:
    """List the namespaces with their statistics."""
    with trie_service(context) as trie:
        found = _namespaces(trie, None)
    _show_namespaces(found, as_json=as_json)


def stats(
    context: typer.Context,
    namespace: Annotated[str | None, typer.Argument(help="One namespace; all without it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the replica holds and how it fares."""
    with trie_service(context) as trie:
        info = trie.GetServerInfo(pb.GetServerInfoRequest(), timeout=CALL_TIMEOUT_S)
        found = _namespaces(trie, namespace)
    state = pb.ServingState.Name(info.state).removeprefix("SERVING_STATE_").lower()
    server = {"version": info.version, "state": state, "store": info.store, "uptime_s": info.uptime_seconds}
    if as_json:
        print_json({"server": server, "namespaces": [namespace_json(one) for one in found]})
        return
    print(f"trie-service {info.version}, {state}, store {info.store}, up {info.uptime_seconds:.0f} s")
    _show_namespaces(found, as_json=False)


def _namespaces(trie: TrieServiceStub, name: str | None) -> list[pb.Namespace]:
    if name is None:
        return list(trie.ListNamespaces(pb.ListNamespacesRequest(), timeout=CALL_TIMEOUT_S).namespaces)
    return [trie.GetNamespace(pb.GetNamespaceRequest(name=name), timeout=CALL_TIMEOUT_S).namespace]


def _show_namespaces(found: Sequence[pb.Namespace], *, as_json: bool) -> None:
    if as_json:
        print_json([namespace_json(namespace) for namespace in found])
    elif found:
        Console().print(namespace_table(found))
    else:
        print("no namespaces yet")
