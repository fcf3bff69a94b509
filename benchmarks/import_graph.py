"""Prints which sub-packages of accel_lab import which, how often, and the cycles among modules.

``python benchmarks/import_graph.py [ROOT]``: ROOT is a checkout, this one by default. Only imports at the top
level of a module count for cycles: those are what an import of the module runs.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = "accel_lab"


def modules(root: Path) -> dict[str, Path]:
    """Dotted name to file of every module."""
    base = root / "bisect"
    found = {}
    for file in sorted((base / PACKAGE).rglob("*.py")):
        parts = file.relative_to(base).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def imports(name: str, file: Path, known: Mapping[str, Path], *, nested: bool) -> Iterator[str]:
    """The modules of the package that a module imports; with ``nested`` also inside of functions."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree) if nested else tree.body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            for alias in node.names:
                found = next((one for one in (f"{module}.{alias.name}", module) if one in known), None)
                if found is not None:
                    yield found


def folder(module: str) -> str:
    """The sub-package that a module lies in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else PACKAGE


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for after in graph[node]:
            if after not in index:
                visit(after)
                low[node] = min(low[node], low[after])
            elif after in stack:
                low[node] = min(low[node], index[after])
        if low[node] == index[node]:
            place = stack.index(node)
            group = stack[place:]
            del stack[place:]
            if len(group) > 1:
                found.append(sorted(group))

    sys.setrecursionlimit(10_000)
    for node in graph:
        if node not in index:
            visit(node)
    return found


def main(root: Path) -> None:
    """Print the arrows between folders and the cycles."""
    known = modules(root)
    arrows: Counter[tuple[str, str]] = Counter()
    for name, file in known.items():
        arrows.update((folder(name), folder(other)) for other in imports(name, file, known, nested=True))
    for source in sorted({one for one, _ in arrows}):
        targets = [
            f"{other} {count}" for (one, other), count in sorted(arrows.items()) if one == source != other
        ]
        if targets:
            print(f"{source}: {', '.join(targets)}")
    graph = {
        name: {other for other in imports(name, file, known, nested=False) if other != name}
        for name, file in known.items()
    }
    print(f"{len(known)} modules; cycles: {cycles(graph) or 'none'}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1])
