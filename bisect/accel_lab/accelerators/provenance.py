"""What a run on an accelerator depended on: the variables that its adapter names, its package and commit.

A bundle sets the variables again, and says which package must be installed.
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
    """The surroundings of one accelerator.

    ``variables`` has each variable that the adapter names, None where it was not set. ``package`` and
    ``version`` are those of the distribution that brings the adapter; ``commit`` is the revision that it was
    installed from, empty where nothing says so. Without a distribution ``package`` is the adapter's module.
    """

    variables: Mapping[str, str | None]
    package: str = ""
    version: str = ""
    commit: str = ""

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {**vars(self), "variables": dict(self.variables)}


def environment_of(adapter: AcceleratorAdapter, entry: Any = None) -> AcceleratorEnvironment:
    """The surroundings of an adapter in this process; ``entry`` is the entry point that it came from."""
    variables = {str(name): os.environ.get(str(name)) for name in adapter.environment()}
    module = type(adapter).__module__.partition(".")[0]
    # The lab's own adapters are those of the copy that runs, whichever version of it may be installed.
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
    """The distribution that brings an adapter; before Python 3.10 an entry point does not say."""
    found = getattr(entry, "dist", None)
    if found is not None:
        return found
    try:
        return metadata.distribution(module)
    except metadata.PackageNotFoundError:
        return None


def _commit(distribution: Any) -> str:
    """The revision that was installed: ``direct_url.json`` (PEP 610), or the checkout that it points at."""
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
    """The commit that a checkout stands at; empty where it is none. No program is run for it."""
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
