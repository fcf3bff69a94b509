"""Lists an installed torch's source files with digests, and copies them; does not import torch."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import sys
from typing import Any, Dict, List, Sequence

MAX_FILE_BYTES = 4 << 20


def main(target: str, prefixes: Sequence[str]) -> None:
    """Prints one JSON object with ``files`` and ``native``, and copies the files to ``target``.

    ``files`` maps each source file whose name (``torch/...``) starts with one of ``prefixes`` to its SHA-256.
    ``native`` maps each compiled library to the digest in the package's metadata, or to its size in bytes.
    """
    spec = importlib.util.find_spec("torch")
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        sys.stdout.write(json.dumps({"error": "no package named torch"}) + "\n")
        return
    root = places[0]
    files: Dict[str, str] = {}
    for path in [*_sources(root), *_headers(root, prefixes)]:
        name = "torch/" + os.path.relpath(path, root).replace(os.sep, "/")
        if not name.startswith(tuple(prefixes)):
            continue
        try:
            if os.path.getsize(path) > MAX_FILE_BYTES:
                continue
            with open(path, "rb") as stream:
                files[name] = hashlib.sha256(stream.read()).hexdigest()
            copy = os.path.join(target, *name.split("/"))
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copyfile(path, copy)
        except OSError:
            continue
    sys.stdout.write(json.dumps({"files": files, "native": _native(root)}) + "\n")


def _sources(root: str) -> List[str]:
    found = []
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in ("__pycache__", "test", "include", "share"))
        found += [
            os.path.join(folder, name) for name in sorted(files) if name.endswith((".py", ".h", ".jinja"))
        ]
    return found


def _headers(root: str, prefixes: Sequence[str]) -> List[str]:
    """Returns the headers below those folders of ``include`` that ``prefixes`` name."""
    found = []
    for prefix in prefixes:
        if prefix.startswith("torch/include/"):
            for folder, _, files in os.walk(os.path.join(root, *prefix.split("/")[1:])):
                found += [os.path.join(folder, name) for name in sorted(files) if name.endswith(".h")]
    return found


def _native(root: str) -> Dict[str, Any]:
    """Digests or sizes of the libraries in ``torch/lib``; they are too large to hash."""
    folder = os.path.join(root, "lib")
    try:
        names = sorted(name for name in os.listdir(folder) if ".so" in name)
    except OSError:
        return {}
    written = _written_down()
    return {name: written.get(name) or os.path.getsize(os.path.join(folder, name)) for name in names}


def _written_down() -> Dict[str, str]:
    try:
        from importlib import metadata

        listed = metadata.files("torch") or []
    except Exception:
        return {}
    return {
        file.name: file.hash.value
        for file in listed
        if file.hash is not None and str(file).startswith("torch/lib/")
    }
