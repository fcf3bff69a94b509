"""Reads the program that the user named, and derives from its text how it must be run."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from pathlib import Path

from accel_lab.core.errors import UsageError
from accel_lab.core.probe import Program
from accel_lab.core.text import command_line

from . import notebooks

#: The file that marks a folder as a capsule, and the script in it (``accel_lab.record``).
CAPSULE, CAPSULE_SCRIPT = "capsule.json", "repro.py"


def read_program(script: str | None, module: str | None, args: tuple[str, ...]) -> Program:
    """Reads the program that the user named; raises :class:`UsageError` if it is not a valid one."""
    if module is not None:
        return Program(module=module, args=args, sha256=_tree_digest(args))
    assert script is not None
    path = Path(script)
    if (path / CAPSULE).is_file():  # a capsule of `accel-lab record` stands for the script in it
        path = path / CAPSULE_SCRIPT
        if not path.exists():
            why = "its capsule.json says why"
            raise UsageError(f"{script} is a capsule without a script, so it cannot be run: {why}")
    try:
        if path.is_dir():
            raise UsageError(f"{script} is a folder: name a Python script, or a module with -m")
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{script} does not exist: name a Python script, or a module with -m") from None
    except OSError as error:
        raise UsageError(f"{script} cannot be read ({error.strerror}): check its permissions") from None
    if data[:4] == b"PK\x03\x04":
        again = command_line("accel-lab", "verify", script)
        raise UsageError(f"{script} is a zip file: a bundle is re-run with `{again}`")
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
    """Returns a digest of the files in a module's arguments (``pytest tests/x.py::case``)."""
    digest = hashlib.sha256()
    for arg in args:
        path = Path(arg.split("::", 1)[0])
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


#: Modules that a process with torch has imported and that a file next to the script can shadow. Modules that
#: are built in, or imported before Python looks there, cannot be shadowed.
_IMPORTED = (
    frozenset(sys.stdlib_module_names)
    - frozenset(sys.builtin_module_names)
    - frozenset(
        {"abc", "codecs", "encodings", "genericpath", "io", "ntpath", "os", "posixpath", "site", "stat"}
    )
    - frozenset(
        {
            *("antigravity", "cgi", "cgitb", "chunk", "compileall", "configparser", "crypt", "curses", "dbm"),
            *("distutils", "doctest", "ensurepip", "filecmp", "fileinput", "ftplib", "getopt", "graphlib"),
            *(
                "idlelib",
                "imaplib",
                "imghdr",
                "imp",
                "lib2to3",
                "mailbox",
                "mailcap",
                "mimetypes",
                "modulefinder",
            ),
            *(
                "netrc",
                "nntplib",
                "optparse",
                "pipes",
                "plistlib",
                "poplib",
                "pty",
                "pydoc",
                "sched",
                "shelve",
            ),
            *(
                "smtpd",
                "smtplib",
                "socketserver",
                "sqlite3",
                "sunau",
                "symtable",
                "syslog",
                "telnetlib",
                "this",
            ),
            *(
                "tkinter",
                "tomllib",
                "trace",
                "tty",
                "turtle",
                "turtledemo",
                "uu",
                "venv",
                "wave",
                "webbrowser",
            ),
            *("wsgiref", "xmlrpc", "zipapp", "zoneinfo"),
        }
    )
) | frozenset(
    {
        *("torch", "functorch", "torchgen", "triton", "numpy", "sympy", "mpmath", "networkx", "jinja2"),
        *(
            "markupsafe",
            "filelock",
            "fsspec",
            "typing_extensions",
            "packaging",
            "setuptools",
            "tqdm",
            "psutil",
        ),
    }
)


def shadowing(program: Program) -> list[str]:
    """Returns files and packages on the import path that shadow modules of Python or torch."""
    first = Path(program.path).parent if program.path is not None else Path.cwd()
    more = [Path(name) for name in os.environ.get("PYTHONPATH", "").split(os.pathsep) if name]
    found = set()
    for folder in (first, *more):
        try:
            entries = list(folder.iterdir())
        except OSError:
            continue
        for entry in entries:
            name = entry.name.partition(".")[0]
            if name in _IMPORTED and (
                entry.suffix in (".py", ".so", ".pyd") or (entry / "__init__.py").is_file()
            ):
                found.add(entry.name)
    return sorted(found)


def folder_of(program: Program) -> Path:
    """Returns the program's working directory: ours, or for a notebook the notebook's folder."""
    return Path(program.origin).parent if program.origin else Path.cwd()


def must_run_cold(program: Program) -> str:
    """Returns why the warm server cannot run the program, or an empty string.

    Either the script sets environment variables, which torch reads at import, or modules next to it have the
    names of modules that the server has imported.
    """
    if names := shadowing(program):
        return f"{', '.join(names)} next to the script shadows a module of the same name"
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


#: Entry points into the compiler that no rung reaches; a script that names one gets a warning.
_NOT_COVERED = re.compile(
    r"torch\.export\.export|aoti_compile_and_package|aoti_load_package|\baot_compile\b|torch\._inductor\.compile\b"
    r"|standalone_compile|torch\.jit\.(?:script|trace)\b"
)


def not_covered(program: Program) -> list[str]:
    """Returns a warning for each entry point in the script's text that the ladder does not cover."""
    if program.path is None:
        return []
    text = Path(program.path).read_text(encoding="utf-8", errors="replace")
    return [
        f"{name} is used: the ladder covers torch.compile regions only, not this"
        for name in sorted(set(_NOT_COVERED.findall(text)))
    ]
