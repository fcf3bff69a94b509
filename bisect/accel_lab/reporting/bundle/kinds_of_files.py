"""Classifies a path: a secret, a broad folder, an environment, another run's, a project's own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

#: Files and folders that mark the root of a project.
_MARKERS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
#: Names of files and folders that hold only secrets.
_SECRET = frozenset(
    {
        *(".netrc", "_netrc", ".env", ".pypirc", ".npmrc", ".git-credentials", "credentials", ".pgpass"),
        *(
            "id_rsa",
            "id_dsa",
            "id_ecdsa",
            "id_ed25519",
            ".ssh",
            ".gnupg",
            ".aws",
            ".azure",
            ".kube",
            ".docker",
        ),
    }
)
_SECRET_SUFFIXES = (".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks")


def is_secret(path: Path) -> bool:
    """Whether a file holds secrets, by its own name or its folders' names."""
    return bool(_SECRET & set(path.parts)) or path.suffix.lower() in _SECRET_SUFFIXES


def is_broad(folder: Path) -> bool:
    """Whether a folder belongs to no project: a home, a system folder, the folder for temporary files."""
    return folder in (Path.home(), *Path.home().parents, Path(tempfile.gettempdir())) or len(folder.parts) < 3


def is_environment(folder: Path) -> bool:
    """Whether a folder is a Python environment (virtual or conda)."""
    return (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").is_dir()


def bound_of(folder: Path) -> Path | None:
    """Returns the root of the project that contains a folder; None if no marker is found."""
    for one in (folder, *folder.parents):
        if is_broad(one):
            return None
        if any((one / marker).exists() for marker in _MARKERS):
            return one
    return None


def paths_in(arg: str) -> list[str]:
    """Returns what may be a path in an argument: ``x``, ``--option=x``, ``x::test``."""
    words = [arg, arg.partition("=")[2], arg.partition("::")[0]]
    return [word for word in dict.fromkeys(words) if word and not word.startswith("-")]


def is_temporary(path: Path, run_dir: Path) -> bool:
    """Whether a file is no input of the program: the lab's own, or a temporary file."""
    broad = Path(tempfile.gettempdir())
    return is_inside(path, run_dir) or path.parent == broad or "torchinductor" in str(path)


def is_run(folder: Path) -> bool:
    return (folder / "journal.jsonl").exists() and (folder / "request.json").exists()


def is_inside(path: Path, folder: Path) -> bool:
    return path == folder or folder in path.parents


def entries_of(folder: Path) -> Sequence[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return ()


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False
