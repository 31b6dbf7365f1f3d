"""Exits 0 if the gRPC server at the given address reports that it is serving, 1 if not."""

from __future__ import annotations

import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

TIMEOUT_SECONDS = 2.5


def is_serving(address: str) -> bool:
    """Ask the standard health service about the whole server."""
    with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=TIMEOUT_SECONDS)
        except grpc.RpcError as error:
            print(f"{address}: {error}", file=sys.stderr)
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


if __name__ == "__main__":
    sys.exit(not is_serving(sys.argv[1]))
