"""Notes the files that a program opens, imports, lists or passes to other programs, by Python's audit events.

The first event of each file appends a JSON line to ``opened.txt``: ``["read", path]``, or ``written``,
``listed`` (a folder) or ``handed`` (a word of another program's command line). ``spawned`` means that
``multiprocessing`` started another Python, which is not watched. Lines are written at once, so they survive a
crash. Native code that opens files causes no audit event; files that are still mapped are noted at the end.
"""

from __future__ import annotations

import json
import os
import shlex
import site
import sys
import sysconfig
import threading
from importlib import util
from typing import Any, Dict, List, Optional, Tuple

from .protocol import files

#: Limit on the number of noted files.
MOST = 20_000
#: System folders, which are left out unless the script or the current folder is inside one.
_SYSTEM = (
    *("/bin/", "/dev/", "/etc/", "/lib/", "/lib32/", "/lib64/"),
    *("/proc/", "/run/", "/sbin/", "/sys/", "/usr/"),
)
_MAPS = "/proc/self/maps"
#: Modules whose import means that an unwatched Python process is about to start.
_SPAWNS = ("multiprocessing.popen_spawn_posix", "multiprocessing.popen_forkserver")
_IMPORT_SYSTEM = "<frozen importlib"


class Opened:
    """The audit hook of one run of ``script`` (None: a module); ``folder`` is the probe's folder."""

    def __init__(self, folder: str, script: Optional[str]) -> None:
        self._log = os.path.join(folder, files.OPENED)
        self._seen: Dict[str, str] = {}
        self._busy = threading.local()
        self._folder = folder.rstrip("/") + "/"
        # Folders that show the user's files if these are not visible at their own paths.
        self._shown = (self._folder + "view/", self._folder + "cwd/")
        here = (os.getcwd() + "/", os.path.dirname(os.path.abspath(script or ".")) + "/")
        self._left_out = tuple(
            name for name in _library_folders() + _SYSTEM if not any(one.startswith(name) for one in here)
        )
        self._append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._events = {
            "open": self._open,
            "import": self._import,
            "os.listdir": self._list,
            "os.scandir": self._list,
            "subprocess.Popen": self._start,
            "os.posix_spawn": self._exec,
            "os.exec": self._exec,
            "os.system": self._system,
            "sqlite3.connect": self._named,
            "ctypes.dlopen": self._named,
        }

    def start(self) -> None:
        """Installs the audit hook, which cannot be removed again."""
        self._note("cwd", os.getcwd())
        for path in sys.path[1:]:  # PYTHONPATH and editable installs
            if os.path.isdir(path) and not self._is_ours(os.path.abspath(path) + "/"):
                self._note("pythonpath", path)
        sys.addaudithook(self.hear)

    def codes(self) -> List[Any]:
        """Returns the hook's code objects, which Dynamo must skip as they run inside the program."""
        return [value.__code__ for value in vars(Opened).values() if hasattr(value, "__code__")] + [
            _words.__code__
        ]

    def hear(self, event: str, args: Tuple[Any, ...]) -> None:
        """Handles one audit event; its own exceptions are suppressed."""
        handler = self._events.get(event)
        if handler is None or getattr(self._busy, "on", False):
            return
        self._busy.on = True
        try:
            handler(args)
        except Exception:
            return
        finally:
            self._busy.on = False

    def finish(self) -> None:
        """Notes files that are mapped into memory, such as libraries that native code opened."""
        self._busy.on = True
        try:
            with open(_MAPS) as stream:
                for line in stream:
                    path = line.rstrip("\n").split(None, 5)[5:]
                    if path and path[0].startswith("/"):
                        self._note("read", path[0])
        except OSError:
            pass
        finally:
            self._busy.on = False

    # -- the events -------------------------------------------------------------------------------

    def _open(self, args: Tuple[Any, ...]) -> None:
        flags = args[2] if isinstance(args[2], int) else 0
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        fresh = flags & os.O_WRONLY or flags & os.O_TRUNC
        self._note("written" if writes and fresh else "read", args[0])

    def _import(self, args: Tuple[Any, ...]) -> None:
        if args[0] in _SPAWNS:
            self._note("spawned", "<spawn>")
        if args[1]:
            self._note("read", args[1])

    def _named(self, args: Tuple[Any, ...]) -> None:
        self._handed(args[:1], None)

    def _list(self, args: Tuple[Any, ...]) -> None:
        frame = sys._getframe(2)
        if not frame.f_code.co_filename.startswith(_IMPORT_SYSTEM):
            path = args[0] if args[0] is not None else os.getcwd()
            if not isinstance(path, int) and os.path.isdir(path):
                self._note("listed", path)

    def _start(self, args: Tuple[Any, ...]) -> None:
        words = args[1] if isinstance(args[1], (list, tuple)) else _words(args[1])
        self._handed([args[0], *words], args[2])

    def _exec(self, args: Tuple[Any, ...]) -> None:
        self._handed([args[0], *args[1]], None)

    def _system(self, args: Tuple[Any, ...]) -> None:
        self._handed(_words(args[0]), None)

    def _handed(self, words: Any, cwd: Any) -> None:
        words = [os.fsdecode(word) for word in words if isinstance(word, (str, bytes, os.PathLike))]
        inner = [part for line in words if " " in line for part in _words(line)]
        for word in words + inner:
            path = os.path.join(os.fsdecode(cwd) if cwd else os.getcwd(), word)
            if word and os.path.isfile(path):
                self._note("handed", path)

    def _note(self, kind: str, path: Any) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)):
            return  # a file descriptor
        path = os.path.abspath(os.fsdecode(path))
        if os.path.basename(os.path.dirname(path)) == "__pycache__" and path.endswith(".pyc"):
            path = util.source_from_cache(path)
        if self._seen.get(path) is not None or len(self._seen) > MOST:
            return
        self._seen[path] = kind
        if kind not in ("cwd", "pythonpath", "spawned") and self._is_ours(path + "/"):
            return
        descriptor = os.open(self._log, self._append, 0o600)
        try:
            os.write(descriptor, json.dumps([kind, path]).encode() + b"\n")
        finally:
            os.close(descriptor)

    def _is_ours(self, path: str) -> bool:
        own = path.startswith(self._folder) and not path.startswith(self._shown)
        return own or path.startswith(self._left_out)


def _words(command: Any) -> List[str]:
    try:
        return shlex.split(os.fsdecode(command))
    except ValueError:
        return []


def _library_folders() -> Tuple[str, ...]:
    """Folders of the interpreter, of installed packages, and of the lab's copy of this package."""
    names = [sysconfig.get_paths().get(key) for key in ("stdlib", "platstdlib", "purelib", "platlib")]
    names += [*getattr(site, "getsitepackages", list)(), getattr(site, "USER_SITE", None)]
    names += [sys.prefix, sys.exec_prefix, sys.base_prefix]
    names.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    both = {form for name in names if name for form in (os.path.abspath(name), os.path.realpath(name))}
    return tuple(name.rstrip("/") + "/" for name in sorted(both))
