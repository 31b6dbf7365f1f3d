"""Generates the code under protos/ and checks that it is fresh and breaks no client.

The baseline of the contract is the newest tag, else the main branch as far as this clone knows it.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
BIN = Path(sys.executable).parent
GENERATED = ("*_pb2.py", "*_pb2.pyi", "*_pb2_grpc.py", "*_pb2_grpc.pyi")
MAIN_REFS = ("origin/main", "main", "HEAD")


class ProtosError(Exception):
    """The generated code is stale, or the contract breaks its clients."""


def generate(out: Path) -> None:
    """Write the code generated from every .proto file into ``out``; raise ProtosError."""
    plugins = {"python": "", "pyi": "", "grpc_python": "", "mypy_grpc": "quiet:"}
    sources = [str(path.relative_to(PROTOS)) for path in sorted(PROTOS.glob("draftwell/*/v1/*.proto"))]
    typed_stubs = f"--plugin=protoc-gen-mypy_grpc={BIN / 'protoc-gen-mypy_grpc'}"
    outputs = [f"--{plugin}_out={options}{out}" for plugin, options in plugins.items()]
    if protoc.main(["protoc", f"-I{PROTOS}", typed_stubs, *outputs, *sources]) != 0:
        raise ProtosError("protoc failed")


def generated_files(folder: Path) -> dict[Path, bytes]:
    """Generated files under ``folder``: relative path to content."""
    paths = {path for pattern in GENERATED for path in folder.rglob(pattern)}
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def check_fresh() -> None:
    """Raise ProtosError if the committed code is not what the .proto files generate."""
    with tempfile.TemporaryDirectory() as scratch:
        generate(Path(scratch))
        wanted = generated_files(Path(scratch))
    present = generated_files(PROTOS)
    stale = {path for path in wanted.keys() | present.keys() if wanted.get(path) != present.get(path)}
    if stale:
        names = ", ".join(sorted(map(str, stale)))
        raise ProtosError(f"stale generated code, run `make protos`: {names}")


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run git in the repository, whatever the outcome."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)


def baseline_ref() -> str | None:
    """The git ref that clients were built against, or None where there is no commit."""
    newest_tag = git("describe", "--tags", "--abbrev=0").stdout.decode().split()
    for ref in (*newest_tag, *MAIN_REFS):
        if git("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}").returncode == 0:
            return ref
    return None


def check_compatible(ref: str) -> None:
    """Raise ProtosError if the contract breaks clients built at ``ref``."""
    archive = git("archive", "--format=zip", ref, "buf.yaml", "protos")
    if archive.returncode != 0:
        raise ProtosError(f"no contract at {ref}: {archive.stderr.decode().strip()}")
    with tempfile.TemporaryDirectory() as baseline:
        with zipfile.ZipFile(io.BytesIO(archive.stdout)) as contract:
            contract.extractall(baseline)
        breaking = subprocess.run([BIN / "buf", "breaking", "--against", baseline], cwd=ROOT, check=False)
    if breaking.returncode != 0:
        raise ProtosError(f"the contract breaks clients built at {ref}")


def check() -> None:
    """Check freshness and compatibility; raise ProtosError."""
    check_fresh()
    ref = baseline_ref()
    if ref is None:
        print("protos: fresh; no commit to compare the contract with")
        return
    check_compatible(ref)
    print(f"protos: fresh, and compatible with {ref}")


def main() -> int:
    """Run the command that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["generate", "check"])
    command = parser.parse_args().command
    try:
        generate(PROTOS) if command == "generate" else check()
    except ProtosError as error:
        print(f"protos: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
