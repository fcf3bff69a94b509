"""What a run sees of the user's folders: views of them that are written to like the folders themselves.

The script's own folder and the working directory are shown, each run has them to itself. Where the kernel
allows it they are overlays at their own paths (``child.view``); elsewhere private copies, whose paths are
turned into the user's in all that a run leaves.
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

#: How folders are shown: overlays, copies, or the working directory alone as links (for a container, which
#: sees the script's folder without being able to write to it).
MOUNT, COPY, LINKS = "mount", "copy", "links"

#: Parts of a system, never shown whole: devices and other processes live there.
_SYSTEM = frozenset(
    {
        *("/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/media", "/mnt"),
        *("/opt", "/proc", "/run", "/sbin", "/srv", "/sys", "/usr", "/var", "/Users"),
    }
)
_TRIAL_S = 20.0
#: So many entries of a folder are looked at for their owner.
_LOOK_AT = 5_000
_REWRITTEN = ("*.txt", "*.json", "artifacts/*")
_REWRITE_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True)
class View:
    """What one run sees: where it starts, and for copies which folder of the user each stands for.

    ``plan`` is what ``child.view`` enters; None where there is nothing to enter.
    """

    cwd: Path
    plan: dict[str, Any] | None = None
    copies: tuple[tuple[Path, Path], ...] = ()

    def inside(self, value: Any) -> Any:
        """The user's paths in a value as the run must see them."""
        for folder, shown in self.copies:
            pattern = re.compile(rf"(?<![\w./~-]){re.escape(str(folder))}(?![^/:])")
            value = _mapped(value, pattern, str(shown))
        return value

    def takes(self, edited: tuple[str, str]) -> bool:
        """Whether the run sees a changed file: an overlay shows it, into a private copy it is put here."""
        path, text = edited
        if self.plan is not None:
            return True
        inside = Path(self.inside(path))
        if str(inside) == path or not inside.is_file():
            return False
        inside.unlink()  # a link in the copy leads to the user's own file
        shutil.copyfile(text, inside)
        return True

    def tell_outside(self, folder: Path) -> None:
        """Turn the copies' paths into the user's in the text files that the run left."""
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
class Surroundings:
    """Makes the views of all runs of one workspace. ``library`` is the copied child package.

    ``kind`` is found out at the first run unless it is given. ``notes`` are for the user, one line each.
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
        """The view of one run, whose own files lie in ``folder``."""
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

    def mend(self) -> str:
        """Put back what runs changed in the user's folders past their views; one line of what that was."""
        with self._lock:
            return self._changes.mend() if self._changes is not None else ""

    # -- which folders ---------------------------------------------------------------------------

    def _folders(self, probe: Probe) -> tuple[Path, ...]:
        """The folders to show, none inside another: candidates of a reduction still link to the script's."""
        path = probe.program.path
        if path is not None:
            folder = Path(path).resolve().parent
            if self.root.resolve() not in (folder, *folder.parents):
                self._scripts[folder] = None
        found = [one for one in (self.user_cwd, *self._scripts) if one.is_dir()]
        found = [one for one in found if str(one) not in _SYSTEM]
        return tuple(sorted({one for one in found if not any(other in one.parents for other in found)}))

    def _own(self, probe: Probe) -> tuple[Path, ...]:
        """The folder of a script that lies in the run's own: a reduced one leaves nothing there either."""
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
        # What is written may not lie in what is shown.
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
        if cwd == self.user_cwd:  # a part of the system, shown as links
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
    """The command that enters the views of a plan and becomes another one."""
    return [sys.executable, "-I", "-S", str(library / "view.py"), str(plan), *command]


def _is_ours(folder: Path) -> bool:
    """Whether an unprivileged overlay can stand for the folder: it cannot take over what others own."""
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
    """The kernel leaves a folder that nobody may enter."""
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
