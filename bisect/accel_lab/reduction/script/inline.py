"""Merges a script and the local modules that it imports into one standalone script.

If no names clash, the modules' definitions are put in front of the script, which reads best. Otherwise each
module's source is embedded and run as a module of its name, which always has the same meaning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .names import bindings, bound_by
from .passes import plain_name
from .tree import IMPORTS, Edit, apply, drop, parse, render, replace_by

_IMPORTS = """
import importlib.abc
import importlib.util
import linecache
import sys
"""
_LOADER = """
class LocalModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return importlib.util.spec_from_loader(name, self, is_package=SOURCES[name][0])
        return None

    def exec_module(self, module):
        file, source = f"<{module.__name__}>", SOURCES[module.__name__][1]
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
        exec(compile(source, file, "exec"), module.__dict__)


sys.meta_path.insert(0, LocalModules())
"""


@dataclass(frozen=True)
class _Module:
    name: str
    package: bool
    source: str
    tree: ast.Module

    @property
    def parent(self) -> str:
        """The package at which relative imports start."""
        return self.name if self.package else self.name.rpartition(".")[0]


class _Clash(Exception):
    """The definitions cannot be merged into one file."""


def inline_local_imports(source: str, folder: Path, package_dir: Path | None) -> str | None:
    """Returns the script with its imports from ``folder`` or ``package_dir`` merged in; None if there are
    none.

    ``package_dir`` is a package, or a folder of modules and packages.
    """
    tree = parse(source)
    roots = [folder]
    if package_dir is not None:
        roots.append(package_dir.parent if (package_dir / "__init__.py").exists() else package_dir)
    modules: dict[str, _Module] = {}
    _collect(tree, "", roots, modules, set())
    if not modules:
        return None
    try:
        return _as_definitions(tree, modules)
    except _Clash:
        return _as_modules(tree, modules)


def _collect(
    tree: ast.Module, parent: str, roots: Sequence[Path], modules: dict[str, _Module], busy: set[str]
) -> None:
    """Fills ``modules`` with the local modules that a tree imports, dependencies first."""
    for name in _imported(tree, parent):
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            dotted = ".".join(parts[:count])
            found = None if dotted in busy else _find(dotted, roots)
            if found is None:
                continue
            busy.add(dotted)
            _collect(found.tree, found.parent, roots, modules, busy)
            modules[dotted] = found


def _find(name: str, roots: Sequence[Path]) -> _Module | None:
    for root in roots:
        base = root.joinpath(*name.split("."))
        for path, package in ((base / "__init__.py", True), (base.with_suffix(".py"), False)):
            if path.is_file():
                try:
                    source = path.read_text(encoding="utf-8")
                    return _Module(name, package, source, parse(source))
                except (OSError, ValueError, SyntaxError):
                    return None
    return None


def _imported(tree: ast.Module, parent: str) -> Iterator[str]:
    """Yields the dotted names that a tree may import: ``from a import b`` may mean ``a.b``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, parent)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def _absolute(node: ast.ImportFrom, parent: str) -> str:
    if not node.level:
        return node.module or ""
    parts = parent.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, *([node.module] if node.module else [])])


# -- merged definitions -----------------------------------------------------------------------


def _as_definitions(tree: ast.Module, modules: dict[str, _Module]) -> str:
    taken: dict[str, str] = {}
    imports: dict[str, ast.stmt] = {}
    body: list[ast.stmt] = []
    for module in [*modules.values(), _Module("", False, "", tree)]:
        local = _without_local_imports(module, modules)
        for node in local.body:
            if module.name and _is_docstring(node):
                continue
            if isinstance(node, IMPORTS):
                _take(node, taken, ast.unparse(node))
                imports.setdefault(ast.unparse(node), node)
            elif not (module.name and _is_guard(node)):
                _take(node, taken, module.name or "the script")
                body.append(node)
    docstring = [node for node in body[:1] if _is_docstring(node)]
    text = render(ast.Module(body=[*docstring, *imports.values(), *body[len(docstring) :]], type_ignores=[]))
    if text is None:
        raise _Clash
    return text


def _take(node: ast.stmt, taken: dict[str, str], owner: str) -> None:
    """Records the owner of the names that a statement binds; raises _Clash for a second owner."""
    for name in bound_by(node):
        if taken.setdefault(name, owner) != owner:
            raise _Clash(name)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _without_local_imports(module: _Module, modules: dict[str, _Module]) -> ast.Module:
    """Returns the module's tree without imports of local modules; their names are used unqualified."""
    edits: list[Edit] = []
    aliases: dict[str, str] = {}
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            local = [alias for alias in node.names if alias.name in modules]
            if any(alias.asname is None and "." in alias.name for alias in local):
                raise _Clash  # it is used as a.b.c
            aliases.update({alias.asname or alias.name: alias.name for alias in local})
            edits += [drop(node)] if len(local) == len(node.names) else [drop(alias) for alias in local]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, module.parent)
            inner = {alias.asname or alias.name: f"{base}.{alias.name}" for alias in node.names}
            submodules = {name: full for name, full in inner.items() if full in modules}
            if base not in modules and not submodules:
                continue
            if len(submodules) not in (0, len(inner)):
                raise _Clash
            if not submodules and any(alias.asname not in (None, alias.name) for alias in node.names):
                raise _Clash
            aliases.update(submodules)
            edits.append(drop(node))
        elif module.name and isinstance(node, ast.Name) and node.id in ("__file__", "globals", "__package__"):
            raise _Clash
    tree = apply(module.tree, [*edits, *_unqualified(module.tree, aliases, modules)])
    if any(isinstance(node, ast.Name) and node.id in aliases for node in ast.walk(tree)):
        raise _Clash  # the module object itself is used
    return tree


def _unqualified(tree: ast.Module, aliases: dict[str, str], modules: dict[str, _Module]) -> Iterator[Edit]:
    """Yields edits that turn ``m.f`` into ``f`` for a local module ``m``."""
    bound = bindings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            names = {name for part in modules[aliases[node.value.id]].tree.body for name in bound_by(part)}
            if not isinstance(node.ctx, ast.Load) or node.attr not in names or bound[node.attr]:
                raise _Clash
            yield replace_by(node, ast.Name(id=plain_name(node), ctx=ast.Load()))


# -- embedded modules -------------------------------------------------------------------------


def _as_modules(tree: ast.Module, modules: dict[str, _Module]) -> str:
    head = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    rest = [node for node in tree.body if node not in head]
    docstring = [node for node in rest[:1] if _is_docstring(node)]
    entries = "".join(
        f"    {module.name!r}: ({module.package}, {_quoted(module.source)}),\n" for module in modules.values()
    )
    imports = parse(_IMPORTS).body
    top = render(ast.Module(body=[*docstring, *head, *imports], type_ignores=[]))
    main = render(ast.Module(body=rest[len(docstring) :], type_ignores=[]))
    # Built as text, because a rendered tree would put each literal on one long line.
    return f"{top or ''}\nSOURCES = {{\n{entries}}}\n\n{_LOADER}\n{main or ''}"


def _quoted(source: str) -> str:
    """Returns the text as a multi-line literal, if possible."""
    if '"""' in source or "\\" in source or source.endswith('"'):
        return repr(source)
    return f'"""\\\n{source}"""'
