"""Reuses torch's checks of the C++ compiler from one cold run to the next.

A cold run starts with empty caches, so that no earlier run can affect it. Two kinds of cache entries do not
depend on the script and take most of a small script's time: the test programs for the vector units
(``torch/_inductor/cpu_vec_isa.py``; their names are a hash of the compiler, its options and the release), and
the precompiled headers (``_HEADER_DIR`` of ``torch/_inductor/codecache.py``, which torch itself keeps apart
from its caches and shares among all processes of a user). On 2.14.1 they take 20 of the 28 CPU seconds of a
script with one small kernel.

Runs that measure time get neither, because the first run would pay for the others.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from accel_lab.core.machine.files import remove
from accel_lab.core.machine.places import cache_folder

#: One release and one compiler leave some 40 files; more come from releases that were removed.
MOST_FILES = 400
_HEADERS = "precompiled_headers"


class CompilerChecks:
    """The test programs that one interpreter's torch built, in the lab's cache folder.

    Only the warm server builds them, before it runs user code, so no script can place one there. torch looks
    each up by a hash of its dependencies, so an outdated one is never found.
    """

    def __init__(self, python: str) -> None:
        name = hashlib.sha256(os.path.abspath(python).encode()).hexdigest()[:16]
        self.folder = cache_folder() / "compiler-checks" / name

    @property
    def kept(self) -> bool:
        return bool(_files(self.folder))

    def lend(self, cache: Path) -> None:
        """Copies them into a run's empty cache; if there are none, or no room, the run builds its own."""
        try:
            shutil.copytree(self.folder, cache, dirs_exist_ok=True)
        except (OSError, shutil.Error):
            return

    def keep(self, cache: Path) -> None:
        """Adds the new ones in ``cache``, a server's cache folder, to the kept ones."""
        kept, made = _files(self.folder), _files(cache)
        if made <= kept:
            return
        fresh = self.folder.with_name(f"{self.folder.name}-{uuid.uuid4().hex}")
        try:
            if len(kept | made) <= MOST_FILES and kept:
                shutil.copytree(self.folder, fresh)
            shutil.copytree(cache, fresh, dirs_exist_ok=True)
            remove(self.folder)
            fresh.rename(self.folder)
        except (OSError, shutil.Error):
            remove(fresh)  # the disk is full, or another run was first


def share_headers(temporary: Path, environment: Mapping[str, str]) -> None:
    """Links torch's usual folder of precompiled headers into a private ``TMPDIR``.

    Nothing is shared if others can write to that folder, because a header is code.
    """
    name = re.sub(r'[\\/:*?"<>|]', "_", _user())
    usual = Path(environment.get("TMPDIR") or tempfile.gettempdir()) / f"torchinductor_{name}" / _HEADERS
    try:
        for folder in (usual.parent, usual):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not (_is_ours(usual.parent) and _is_ours(usual)):
            return
        place = temporary / usual.parent.name
        place.mkdir()
        (place / _HEADERS).symlink_to(usual)
    except OSError:
        return


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):
        return f"uid_{os.getuid()}"


def _is_ours(folder: Path) -> bool:
    """Whether this is a folder that only this user can write to."""
    state = folder.lstat()
    return state.st_uid == os.geteuid() and not state.st_mode & 0o022 and not folder.is_symlink()


def _files(folder: Path) -> set[str]:
    found = ((root, name) for root, _, names in os.walk(folder) for name in names)
    return {os.path.relpath(os.path.join(root, name), folder) for root, name in found}
