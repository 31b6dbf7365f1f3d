"""Which module of the two services imports what, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("trie_service", "decoder_service")


@dataclass(frozen=True, slots=True)
class Import:
    """One name that a module imports."""

    target: str  # dotted; `from a import b` counts as a and as a.b
    line: int
    deferred: bool  # inside a function, or for type checkers only: not run when the module is imported


def is_under(name: str, roots: Iterable[str]) -> bool:
    return any(name == root or name.startswith(f"{root}.") for root in roots)


def is_for_type_checkers(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def direct_targets(node: ast.AST, package: str) -> Iterator[str]:
    """Dotted names that one statement or call imports; ``package`` resolves relative imports."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=module, names=names, level=level):
            parents = package.split(".")[: len(package.split(".")) - level + 1] if level else []
            base = ".".join([*parents, *([module] if module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in names)
        case ast.Call(func=func, args=[ast.Constant(value=str(name)), *_]):
            if ast.unparse(func).rpartition(".")[2] in {"import_module", "__import__"}:
                yield name


def imports_of(source: str, package: str) -> list[Import]:
    """Every import of a module in ``package``, wherever it stands in the source."""
    found: list[Import] = []

    def visit(node: ast.AST, *, deferred: bool) -> None:
        line = getattr(node, "lineno", 0)
        found.extend(Import(target, line, deferred) for target in direct_targets(node, package))
        is_late = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, deferred=deferred or is_late or is_for_type_checkers(node))

    visit(ast.parse(source), deferred=False)
    return found


@dataclass(frozen=True, slots=True)
class Project:
    """Modules by dotted name, with what each imports."""

    imports: Mapping[str, list[Import]]

    @classmethod
    def of_sources(cls, sources: Mapping[str, str]) -> Project:
        """Parse sources; a name with modules under it is a package."""
        packages = {name.rpartition(".")[0] for name in sources}
        return cls(
            {
                name: imports_of(source, name if name in packages else name.rpartition(".")[0])
                for name, source in sources.items()
            }
        )

    def run_by(self, name: str) -> Iterator[str]:
        """Our own modules that run when ``name`` is imported: itself and the packages around it."""
        parts = name.split(".")
        prefixes = (".".join(parts[:length]) for length in range(1, len(parts) + 1))
        return (prefix for prefix in prefixes if prefix in self.imports)

    def closure(self, root: str) -> dict[str, str]:
        """Names that importing ``root`` imports, each with the chain of modules that leads to it."""
        reached: dict[str, str] = {}
        frontier = [(name, name) for name in self.run_by(root)]
        visited = {name for name, _ in frontier}
        while frontier:
            module, chain = frontier.pop()
            for target in (entry.target for entry in self.imports[module] if not entry.deferred):
                reached.setdefault(target, chain)
                new = [name for name in self.run_by(target) if name not in visited]
                visited.update(new)
                frontier.extend((name, f"{chain} -> {name}") for name in new)
        return reached

    def is_bare_package(self, module: str) -> bool:
        """Whether a module is a package that imports nothing itself."""
        return not self.imports[module] and any(name.startswith(f"{module}.") for name in self.imports)

    def own_imports(self, module: str) -> set[str]:
        """Our own modules that a module names in its imports, now or later."""
        return {entry.target for entry in self.imports[module] if entry.target in self.imports} - {module}


def read_sources() -> dict[str, str]:
    """The two services' modules: dotted name to source."""
    paths = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths
    ]
    return {name: path.read_text() for name, path in zip(names, paths, strict=True)}


SOURCES = read_sources()
PROJECT = Project.of_sources(SOURCES)
