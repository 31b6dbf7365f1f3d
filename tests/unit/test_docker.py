"""The scripts that run in the images."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
import yaml
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
Status = health_pb2.HealthCheckResponse


def run_script(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DOCKER / script), *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


@pytest.fixture
def server() -> Iterator[tuple[str, health.HealthServicer]]:
    """A gRPC server on loopback with the health service alone, and its address."""
    servicer = health.HealthServicer()
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", servicer
    server.stop(None).wait()


@pytest.mark.parametrize(("status", "code"), [(Status.SERVING, 0), (Status.NOT_SERVING, 1)])
def test_the_health_check_repeats_what_the_server_says(
    server: tuple[str, health.HealthServicer], status: int, code: int
) -> None:
    address, servicer = server
    servicer.set("", status)
    assert run_script("healthcheck.py", address).returncode == code


def test_the_health_check_fails_where_nothing_listens() -> None:
    assert run_script("healthcheck.py", "127.0.0.1:1").returncode == 1


@pytest.mark.parametrize("service", ["trie", "decoder"])
def test_a_service_writes_only_to_its_volumes_and_to_memory(service: str) -> None:
    composed = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"][service]
    assert composed["read_only"] is True
    assert composed["tmpfs"] == ["/tmp"]
