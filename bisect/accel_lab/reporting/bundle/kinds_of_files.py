"""What kind of file or folder a path is: secret, nobody's, an environment, another run's, a project's own."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

#: What marks the folder of a whole project.
_MARKERS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")
#: Names of files and folders that hold nothing but secrets.
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
    """Whether a file is one that holds secrets, by its name or its folders'."""
    return bool(_SECRET & set(path.parts)) or path.suffix.lower() in _SECRET_SUFFIXES


def is_broad(folder: Path) -> bool:
    """Whether a folder is nobody's project: a home, a folder of the system, the one for temporary files."""
    return folder in (Path.home(), *Path.home().parents, Path(tempfile.gettempdir())) or len(folder.parts) < 3


def is_environment(folder: Path) -> bool:
    """Whether an interpreter and its packages live in a folder."""
    return (folder / "pyvenv.cfg").exists() or (folder / "conda-meta").is_dir()


def bound_of(folder: Path) -> Path | None:
    """The folder of the whole project that a folder lies in; None where nothing marks one."""
    for one in (folder, *folder.parents):
        if is_broad(one):
            return None
        if any((one / marker).exists() for marker in _MARKERS):
            return one
    return None


def paths_in(arg: str) -> list[str]:
    """What may be a path in an argument: ``x``, ``--option=x``, ``x::test``."""
    words = [arg, arg.partition("=")[2], arg.partition("::")[0]]
    return [word for word in dict.fromkeys(words) if word and not word.startswith("-")]


def is_passing(path: Path, run_dir: Path) -> bool:
    """Whether a file is nobody's input: the lab's own, or one in a folder for temporary files."""
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
