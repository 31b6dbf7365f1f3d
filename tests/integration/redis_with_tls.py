"""Debian's redis-server with TLS and a user of its own, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trie_processes import free_port

IS_INSTALLED = all(shutil.which(program) for program in ("redis-server", "openssl"))
USER = "draftwell"
PASSWORD = "correct-horse"

# What a trie service needs: its own keys, no administration.
ACL = f"user {USER} on >{PASSWORD} ~dw:* -@all +@read +@write +@scripting +ping +time -@dangerous"


@contextmanager
def redis_with_tls(folder: Path) -> Iterator[str]:
    """Its URL, user and certificate included."""
    _make_certificates(folder)
    port = free_port()
    (folder / "redis.conf").write_text(_configuration(folder, port))
    process = subprocess.Popen(
        ["redis-server", str(folder / "redis.conf")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert any("Ready to accept connections" in line for line in process.stdout)
        yield f"rediss://{USER}:{PASSWORD}@localhost:{port}/0?ssl_ca_certs={folder / 'ca.crt'}"
    finally:
        process.kill()
        process.wait()


def _configuration(folder: Path, port: int) -> str:
    return "\n".join(
        (
            "port 0",
            f"tls-port {port}",
            "bind 127.0.0.1",
            f"dir {folder}",
            'save ""',
            f"tls-cert-file {folder / 'server.crt'}",
            f"tls-key-file {folder / 'server.key'}",
            f"tls-ca-cert-file {folder / 'ca.crt'}",
            "tls-auth-clients no",
            "user default off",
            ACL,
        )
    )


def _make_certificates(folder: Path) -> None:
    _openssl(folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out ca.crt")
    _openssl(folder, "req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr")
    (folder / "names.cnf").write_text("subjectAltName=DNS:localhost")
    _openssl(
        folder,
        "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile names.cnf -out server.crt",
    )


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
