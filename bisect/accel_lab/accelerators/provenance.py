"""Records what a run on an accelerator depends on: variables, package, version and commit of its adapter.

A bundle sets the variables again and names the package that must be installed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from .adapter import AcceleratorAdapter
from .discovery import BUILT_IN


@dataclass(frozen=True, kw_only=True)
class AcceleratorEnvironment:
    """The environment of one accelerator.

    ``variables`` has each variable that the adapter names, None if it was not set. ``package`` and
    ``version`` are those of the adapter's distribution; without one, ``package`` is the adapter's top-level
    module. ``commit`` is the installed revision, empty if unknown.
    """

    variables: Mapping[str, str | None]
    package: str = ""
    version: str = ""
    commit: str = ""

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {**vars(self), "variables": dict(self.variables)}


def environment_of(adapter: AcceleratorAdapter, entry: Any = None) -> AcceleratorEnvironment:
    """Returns an adapter's environment in this process; ``entry`` is its entry point, if any."""
    variables = {str(name): os.environ.get(str(name)) for name in adapter.environment()}
    module = type(adapter).__module__.partition(".")[0]
    # The lab's own adapters come from the running copy, whichever version of it is installed.
    found = _distribution(entry, module) if adapter.name not in BUILT_IN else None
    if found is None:
        version = str(getattr(sys.modules.get(module), "__version__", ""))
        return AcceleratorEnvironment(variables=variables, package=module, version=version)
    return AcceleratorEnvironment(
        variables=variables,
        package=str(found.metadata["Name"] or ""),
        version=str(found.version or ""),
        commit=_commit(found),
    )


def _distribution(entry: Any, module: str) -> Any:
    """The adapter's distribution, found by module name before Python 3.10 (no ``EntryPoint.dist``)."""
    found = getattr(entry, "dist", None)
    if found is not None:
        return found
    try:
        return metadata.distribution(module)
    except metadata.PackageNotFoundError:
        return None


def _commit(distribution: Any) -> str:
    """The installed revision, from ``direct_url.json`` (PEP 610) or the local checkout that it names."""
    try:
        url_file = json.loads(distribution.read_text("direct_url.json") or "{}")
        revision = url_file.get("vcs_info", {}).get("commit_id", "")
        url = urlsplit(str(url_file.get("url", "")))
        if not revision and url.scheme == "file":
            revision = _head_of(Path(unquote(url.path)))
    except (ValueError, AttributeError, OSError):
        return ""
    return str(revision)


def _head_of(checkout: Path) -> str:
    """The commit checked out in a folder, read without running git; empty if it is no checkout."""
    folder = checkout / ".git"
    if not (folder / "HEAD").is_file():
        return ""
    head = (folder / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref: "):
        return head
    name = head[len("ref: ") :]
    if (folder / name).is_file():
        return (folder / name).read_text(encoding="utf-8").strip()
    packed = folder / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), "")
