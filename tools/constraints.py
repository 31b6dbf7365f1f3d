"""Prints the installed versions of the direct dependencies, as pip constraints.

torch is left out: which build fits is a matter of the machine, see TORCH in the Makefile.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

from packaging.requirements import Requirement

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
UNPINNED = {"draftwell", "torch"}


def direct_dependencies() -> set[str]:
    """Names of the distributions that pyproject.toml asks for, in any extra."""
    document = tomllib.loads(PYPROJECT.read_text())
    project = document["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    return {Requirement(requirement).name for group in groups for requirement in group} - UNPINNED


def main() -> None:
    """Print one constraint a line."""
    print("# The versions that the project is tested with. `make constraints` writes this file.")
    for name in sorted(direct_dependencies()):
        print(f"{name}=={version(name)}")


if __name__ == "__main__":
    main()
