"""Gives each run its own writable view of the user's folders, so that the folders stay unchanged.

The script's folder and the working directory are shown. If the kernel allows it, they are overlays at their
own paths (``child.view``). Otherwise they are private copies, and the copies' paths are replaced by the
user's in everything that a run leaves.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from accel_lab.core.probe import Limits, Probe
from accel_lab.execution.processes import process

from .changes import Changes
from .copies import Copy

#: Kinds of view: overlays, copies, or only the working directory as links (for a container, which sees the
#: script's folder read-only).
MOUNT, COPY, LINKS = "mount", "copy", "links"

#: System folders, never shown as a whole: they hold devices and other processes.
_SYSTEM = frozenset(
    {
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt"),
        *("/opt", "/proc", "/run", "/sbin", "/srv", "/sys", "/usr", "/var", "/Users"),
    }
)
_TRIAL_S = 20.0
#: Most entries of a folder whose owner is checked.
_LOOK_AT = 5_000
_REWRITTEN = ("*.txt", "*.json", "artifacts/*")
_REWRITE_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class View:
    """What one run sees: its working directory, and the user's folder that each copy stands for.

    ``plan`` is the input of ``child.view``, or None if there is nothing to enter.
    """

    cwd: Path
    plan: dict[str, Any] | None = None
    copies: tuple[tuple[Path, Path], ...] = ()

    def inside(self, value: Any) -> Any:
        """Replaces the user's paths in a value by those that the run must see."""
        for folder, shown in self.copies:
            pattern = re.compile(rf"(?<![\w./~-]){re.escape(str(folder))}(?![^/:])")
            value = _mapped(value, pattern, str(shown))
        return value

    def shows_edit(self, edited: tuple[str, str]) -> bool:
        """Whether the run sees an edited file; an overlay shows it, a private copy gets it here."""
        path, text = edited
        if self.plan is not None:
            return True
        inside = Path(self.inside(path))
        if str(inside) == path or not inside.is_file():
            return False
        inside.unlink()  # if it is a link, it leads to the user's own file
        shutil.copyfile(text, inside)
        return True

    def rewrite_paths(self, folder: Path) -> None:
        """Replaces the copies' paths by the user's in the text files that the run left."""
        if not self.copies:
            return
        names = []
        for own, shown in self.copies:
            names.append((os.fsencode(shown), os.fsencode(own)))
            names.append((json.dumps(str(shown))[1:-1].encode(), json.dumps(str(own))[1:-1].encode()))
        for pattern in _REWRITTEN:
            for path in folder.glob(pattern):
                _rewrite(path, dict(names))


@dataclass(kw_only=True)
class FolderViews:
    """Makes the views of all runs of one workspace. ``library`` is the copied child package.

    ``kind`` is determined at the first run unless it is given. ``notes`` are lines for the user.
    """

    root: Path
    user_cwd: Path
    library: Path
    kind: str = ""
    notes: list[str] = field(default_factory=list)
    _scripts: dict[Path, None] = field(default_factory=dict)
    _memory: bool = False
    _decided: tuple[Path, ...] | None = None
    _changes: Changes | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def view(self, probe: Probe, folder: Path) -> View:
        """Makes the view of one run, whose own files are in ``folder``."""
        with self._lock:
            folders = self._folders(probe)
            kind = self._kind(folders)
        if kind == MOUNT:
            upper = folder / "view"
            upper.mkdir()
            cwd = Path(probe.cwd) if probe.cwd else self.user_cwd
            cwd = cwd if cwd.is_dir() else _empty(folder)
            plan = self._plan((*folders, *self._own(probe)), upper, folder, cwd)
            if probe.edited is not None:
                plan["edited"] = list(probe.edited)
            return View(cwd=cwd, plan={**plan, "most_mb": probe.limits.disk_mb})
        if probe.cwd and Path(probe.cwd).is_dir():
            shown = self._copied(folders, folder).copies if kind == COPY and folders else ()
            return View(cwd=Path(probe.cwd), copies=shown)
        if kind == LINKS or not folders:
            target = folder / "cwd"
            Copy(source=self.user_cwd, target=target, apart=self.root, deep=False).make()
            return View(cwd=target)
        return self._copied(folders, folder)

    def restore(self) -> str:
        """Reverts what runs changed in the user's folders outside their views; returns a line about it."""
        with self._lock:
            return self._changes.restore() if self._changes is not None else ""

    # -- which folders ---------------------------------------------------------------------------

    def _folders(self, probe: Probe) -> tuple[Path, ...]:
        """Returns the folders to show, none inside another.

        Folders of earlier scripts are included, because candidates of a reduction link to their files.
        """
        path = probe.program.path
        if path is not None:
            folder = Path(path).resolve().parent
            if self.root.resolve() not in (folder, *folder.parents):
                self._scripts[folder] = None
        found = [one for one in (self.user_cwd, *self._scripts) if one.is_dir()]
        found = [one for one in found if str(one) not in _SYSTEM]
        return tuple(sorted({one for one in found if not any(other in one.parents for other in found)}))

    def _own(self, probe: Probe) -> tuple[Path, ...]:
        """Returns the script's folder if it is inside the run's: reduced scripts must leave nothing there."""
        path = probe.program.path
        folder = Path(path).resolve().parent if path is not None else self.root
        root = self.root.resolve()
        return (folder,) if root in folder.parents and folder.is_dir() else ()

    # -- overlays --------------------------------------------------------------------------------

    def _kind(self, folders: tuple[Path, ...]) -> str:
        if self.kind == LINKS or (self.kind == COPY and self._decided is None):
            return self.kind
        if self._decided != folders:
            self._decided = folders
            whole = str(self.user_cwd) not in _SYSTEM
            self.kind = MOUNT if whole and self._can_mount(folders) else COPY
        return self.kind

    def _can_mount(self, folders: tuple[Path, ...]) -> bool:
        if not sys.platform.startswith("linux") or not all(_is_ours(folder) for folder in folders):
            return False
        # The upper folder of an overlay must not be inside a folder that is shown.
        apart = not any(folder in self.root.resolve().parents for folder in folders)
        for memory in (False, True) if apart else (True,):
            self._memory = memory
            if self._tried(folders):
                return True
        return False

    def _tried(self, folders: tuple[Path, ...]) -> bool:
        token = f".accel-lab-{uuid.uuid4().hex}"
        with tempfile.TemporaryDirectory(prefix="view-", dir=self.root) as name:
            trial = Path(name)
            (trial / "view").mkdir()
            plan = trial / "plan.json"
            plan.write_text(json.dumps({**self._plan(folders, trial / "view", trial, trial), "token": token}))
            ended = process.run(
                enter_command(self.library, plan, ()),
                cwd=trial,
                env=dict(os.environ),
                stdout=trial / "out.txt",
                stderr=trial / "err.txt",
                limits=Limits(timeout_s=_TRIAL_S),
                marker=f"view-{uuid.uuid4().hex}",
            )
            _open_work(trial / "view")
        missed = [folder / token for folder in folders if (folder / token).exists()]
        for path in missed:
            path.unlink()
        return ended.exit_code == 0 and not missed

    def _plan(self, folders: Sequence[Path], upper: Path, folder: Path, cwd: Path) -> dict[str, Any]:
        return {
            "folders": [str(one) for one in folders],
            "real": [str(self.root.resolve())],
            "upper": str(upper.resolve()),
            "memory": self._memory,
            "cwd": str(cwd),
            "crash": str(folder.resolve() / "crash.txt"),
        }

    # -- copies ----------------------------------------------------------------------------------

    def _copied(self, folders: tuple[Path, ...], place: Path) -> View:
        base, shown, cut = place.resolve() / "view", [], False
        for number, folder in enumerate(folders):
            made = self._copy(folder, base / str(number) / (folder.name or "root"))
            shown.append((made.source, made.target))
            cut |= made.cut
        with self._lock:
            if self._changes is None:
                self._note(folders, cut)
                self._changes = Changes(
                    copies=[
                        self._copy(folder, self.root / "before" / str(number) / folder.name)
                        for number, folder in enumerate(folders)
                    ],
                    kept=self.root / "displaced",
                )
        view = View(cwd=self.user_cwd, copies=tuple(shown))
        cwd = Path(view.inside(str(self.user_cwd)))
        if cwd == self.user_cwd:  # a system folder, shown as links
            cwd = place / "cwd"
            Copy(source=self.user_cwd, target=cwd, apart=self.root, deep=False).make()
        return View(cwd=cwd, copies=view.copies)

    def _copy(self, folder: Path, target: Path) -> Copy:
        inside = tuple(one for one in (self.user_cwd, *self._scripts) if folder in one.parents)
        wide = folder in (Path.home(), *Path.home().parents, Path(tempfile.gettempdir()))
        return Copy(
            source=folder, target=target, real=inside, apart=self.root.resolve(), deep=not wide
        ).make()

    def _note(self, folders: Iterable[Path], cut: bool) -> None:
        if cut:
            self.notes.append(
                f"{', '.join(map(str, folders))}: too large to copy for each run, and here no "
                "overlay can be mounted: what it writes into its large files and further folders stays"
            )


def enter_command(library: Path, plan: Path, command: Sequence[str]) -> list[str]:
    """Returns the command that enters the views of a plan and then executes ``command``."""
    return [sys.executable, "-I", "-S", str(library / "view.py"), str(plan), *command]


def _is_ours(folder: Path) -> bool:
    """Whether an unprivileged overlay can show the folder: it cannot copy up files that others own."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        return True
    try:
        with os.scandir(folder) as entries:
            for place, entry in enumerate(entries):
                if place >= _LOOK_AT:
                    break
                known = entry.stat(follow_symlinks=False)
                if (known.st_uid, known.st_gid) != (user, group) and os.access(entry.path, os.W_OK):
                    return False
    except OSError:
        return False
    return True


def _open_work(upper: Path) -> None:
    """Makes the overlay's work folders accessible; the kernel leaves them without any rights."""
    for path in upper.glob("*/work/work"):
        try:
            path.chmod(0o700)
        except OSError:
            continue


def _empty(folder: Path) -> Path:
    cwd = folder / "cwd"
    cwd.mkdir()
    return cwd


def _mapped(value: Any, pattern: re.Pattern[str], shown: str) -> Any:
    if isinstance(value, str):
        return pattern.sub(lambda _: shown, value)
    if isinstance(value, dict):
        return {_mapped(key, pattern, shown): _mapped(one, pattern, shown) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(one, pattern, shown) for one in value)
    return value


def _rewrite(path: Path, names: dict[bytes, bytes]) -> None:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _REWRITE_BYTES:
            return
        data = text = path.read_bytes()
        for shown, own in names.items():
            text = text.replace(shown, own)
        if text != data:
            path.write_bytes(text)
    except OSError:
        return
