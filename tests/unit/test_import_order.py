"""Imports point one way: ARCHITECTURE's order holds, and there are no circles."""

from __future__ import annotations

import re
from collections.abc import Mapping

from import_graph import PACKAGES, PROJECT, ROOT, Project, is_under


def read_order() -> dict[str, int]:
    """ARCHITECTURE.md's modules and packages, each with its place in the list."""
    block = re.search(r"^```import-order\n(.*?)^```", (ROOT / "ARCHITECTURE.md").read_text(), re.S | re.M)
    assert block, "ARCHITECTURE.md has no import-order block"
    order: dict[str, int] = {}
    package = ""
    for line in block[1].splitlines():
        names = re.split(r"\s{2,}", line.strip())[0].split(", ")
        if line.startswith(" "):
            order.update({f"{package}.{name}": len(order) + place for place, name in enumerate(names)})
        else:
            (package,) = names
    return order


def entry_of(module: str, order: Mapping[str, int]) -> str | None:
    """The entry that covers a module: itself, or the nearest package around it."""
    covering = [entry for entry in order if is_under(module, [entry])]
    return max(covering, key=len, default=None)


def order_violations(project: Project, order: Mapping[str, int]) -> list[str]:
    """Imports that do not point to an earlier entry, and modules that no entry covers."""
    found = []
    for module in sorted(set(project.imports) - set(PACKAGES)):
        if module.endswith(".__main__") or project.is_bare_package(module):
            continue
        entry = entry_of(module, order)
        if entry is None:
            found.append(f"{module} is in no line of the order")
            continue
        for target in project.own_imports(module) - set(PACKAGES):
            target_entry = entry_of(target, order)
            if target_entry not in {None, entry} and order[target_entry] >= order[entry]:
                found.append(f"{module} imports {target}, which does not stand above it")
    return found


def find_cycle(project: Project) -> list[str] | None:
    """Modules that import each other in a circle, or None."""
    done: set[str] = set()

    def follow(module: str, path: list[str]) -> list[str] | None:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        done.add(module)
        cycles = (follow(target, [*path, module]) for target in sorted(project.own_imports(module)))
        return next((cycle for cycle in cycles if cycle), None)

    return next((cycle for module in sorted(project.imports) if (cycle := follow(module, []))), None)


def test_imports_follow_the_order_of_the_architecture_document() -> None:
    assert order_violations(PROJECT, read_order()) == []


def test_the_order_names_no_module_that_does_not_exist() -> None:
    assert read_order().keys() <= PROJECT.imports.keys()


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert find_cycle(PROJECT) is None


def test_an_import_that_points_up_is_caught() -> None:
    project = Project.of_sources({"a": "", "a.low": "from a.high import f", "a.high": "", "a.new": ""})
    order = {"a": 0, "a.low": 1, "a.high": 2}
    assert order_violations(project, order)
    assert order_violations(project, {"a.low": 1, "a.high": 2}) != []
    assert order_violations(project, {"a": 0, "a.high": 1, "a.low": 2, "a.new": 3}) == []


def test_a_circle_of_imports_is_caught() -> None:
    project = Project.of_sources({"a": "import b", "b": "def f():\n    import c", "c": "import a"})
    assert find_cycle(project) == ["a", "b", "c", "a"]
