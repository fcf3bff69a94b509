"""Reads the program that the user named, and what its text says of how it must be run."""

from __future__ import annotations

import ast
import hashlib
import re
from pathlib import Path

from accel_lab.core.errors import UsageError
from accel_lab.core.probe import Program

from . import notebooks


def read_program(script: str | None, module: str | None, args: tuple[str, ...]) -> Program:
    """The program that the user named; raises :class:`UsageError` in one line if it cannot be one."""
    if module is not None:
        return Program(module=module, args=args, sha256=_tree_digest(args))
    assert script is not None
    path = Path(script)
    try:
        if path.is_dir():
            raise UsageError(f"{script} is a folder: name a Python script, or a module with -m")
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{script} does not exist: name a Python script, or a module with -m") from None
    except OSError as error:
        raise UsageError(f"{script} cannot be read ({error.strerror}): check its permissions") from None
    if data[:4] == b"PK\x03\x04":
        raise UsageError(f"{script} is a zip file: a bundle is re-run with `accel-lab verify {script}`")
    if path.suffix == notebooks.SUFFIX:
        notebooks.script_of(data, path)
        return Program(path=str(path.resolve()), args=args, sha256=hashlib.sha256(data).hexdigest())
    if not data.strip():
        raise UsageError(f"{script} is empty: there is nothing to run")
    if b"\x00" in data:
        raise UsageError(f"{script} is not Python source: it contains NUL bytes")
    try:
        ast.parse(data, filename=str(path))
    except (SyntaxError, ValueError) as error:
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(f"{script} is not valid Python{line}: {getattr(error, 'msg', error)}") from None
    return Program(path=str(path.resolve()), args=args, sha256=hashlib.sha256(data).hexdigest())


def _tree_digest(args: tuple[str, ...]) -> str:
    """A digest of the files that a module's arguments name (``pytest tests/x.py::case``)."""
    digest = hashlib.sha256()
    for arg in args:
        path = Path(arg.split("::", 1)[0])
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def folder_of(program: Program) -> Path:
    """The working directory that the program is run in, as the user would: a notebook's is its own folder."""
    return Path(program.origin).parent if program.origin else Path.cwd()


def must_run_cold(program: Program) -> str:
    """Why the warm server would not do: the script sets environment variables; torch reads them at import."""
    if program.path is None:
        return ""
    tree = ast.parse(Path(program.path).read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Delete)):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            if any(isinstance(t, ast.Subscript) and _is_environ(t.value) for t in targets):
                return "the script sets environment variables"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("setdefault", "update", "pop") and _is_environ(node.func.value):
                return "the script sets environment variables"
            if node.func.attr in ("putenv", "unsetenv"):
                return "the script sets environment variables"
    return ""


def _is_environ(node: ast.expr) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name == "environ"


#: Ways into the compiler that no rung reaches; said in one line when the script's text names one.
_NOT_COVERED = re.compile(
    r"torch\.export\.export|aoti_compile_and_package|aoti_load_package|\baot_compile\b|torch\._inductor\.compile\b"
    r"|standalone_compile|torch\.jit\.(?:script|trace)\b"
)


def not_covered(program: Program) -> list[str]:
    """One line for each way into the compiler that the script's text names and the ladder cannot reach."""
    if program.path is None:
        return []
    text = Path(program.path).read_text(encoding="utf-8", errors="replace")
    return [
        f"{name} is used: the ladder covers torch.compile regions only, not this"
        for name in sorted(set(_NOT_COVERED.findall(text)))
    ]
