"""Finds the modules that a source imports from its own folder."""

from __future__ import annotations

import ast
from pathlib import Path

#: Maximum modules followed, and maximum files taken from one package.
MAX_MODULES = 400


def imported_names(text: str) -> list[str]:
    """Returns the top-level names that a source imports, in order."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.append(node.module.partition(".")[0])
    return [name for name in names if name.isidentifier()]


def module_files(folder: Path, name: str) -> list[Path]:
    """Returns the files of a module or package of that name in the folder, without symbolic links."""
    single, package = folder / f"{name}.py", folder / name
    if package.is_dir() and not package.is_symlink() and any(package.glob("*.py")):
        files = (path for path in package.rglob("*.py") if path.is_file() and not path.is_symlink())
        return sorted(files)[:MAX_MODULES]
    return [single] if single.is_file() and not single.is_symlink() else []
