"""Gives a process copy-on-write views of the user's folders, at their own paths, in a mount namespace.

``python view.py PLAN COMMAND...`` enters the views and executes the command; without a command it tests
whether views work. The plan has ``folders`` (shown as views), ``hidden`` (optional; shown as empty folders),
``real`` (folders that stay real, also inside a view), ``upper`` (an empty folder for what is written; a tmpfs
of ``most_mb`` if ``memory``), ``edited`` (optional; a file in the views and the file with its new text) and
``cwd``.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
from typing import Any, List

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_BIND, _REC, _PRIVATE = 0x1000, 0x4000, 0x40000
_CAPABILITY_VERSION = 0x20080522
#: Exit status if the views could not be entered.
FAILED = 70


def enter(plan: Any) -> None:
    """Mounts the views and changes to ``cwd``; raises OSError if the kernel does not allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    confined = _own_namespace(libc)
    _mount(libc, "none", "/", "", _REC | _PRIVATE)
    upper = plan["upper"]
    if plan["memory"]:
        size = ",size=%dm" % plan["most_mb"] if plan.get("most_mb") else ""
        _mount(libc, "tmpfs", upper, "tmpfs", 0, "mode=0700" + size)
    for number, folder in enumerate(plan["folders"]):
        _view(libc, folder, os.path.join(upper, str(number)), plan["real"], confined)
    for folder in plan.get("hidden", ()):
        _hide(libc, folder, plan["real"])
    if plan.get("edited"):
        _edit(*plan["edited"])
    os.chdir(plan["cwd"])
    if confined and os.geteuid() != 0:
        _drop_capabilities(libc)


def _own_namespace(libc: Any) -> Any:
    """Enters a new mount namespace; returns whether that needed a user namespace (with the same user)."""
    if libc.unshare(_NEWNS) == 0:
        return False
    user, group = os.geteuid(), os.getegid()
    _check(libc.unshare(_NEWUSER | _NEWNS), "unshare")
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", "%d %d 1" % (user, user)),
        ("gid_map", "%d %d 1" % (group, group)),
    ):
        with open("/proc/self/" + name, "w") as stream:
            stream.write(text)
    return True


def _view(libc: Any, folder: Any, place: Any, real: Any, confined: Any) -> None:
    below = _topmost(path for path in [*real, *_mount_points()] if path.startswith(folder + "/"))
    held = [(path, os.open(path, os.O_PATH)) for path in below]
    upper, work = os.path.join(place, "upper"), os.path.join(place, "work")
    os.makedirs(upper)
    os.makedirs(work)
    _look_like(folder, upper)
    layers = [os.open(path, os.O_PATH) for path in (folder, upper, work)]
    # By descriptor, because commas and colons in a path are separators in mount options.
    options = "lowerdir=/proc/self/fd/%d,upperdir=/proc/self/fd/%d,workdir=/proc/self/fd/%d" % tuple(layers)
    # redirect_dir allows folders to be renamed, but needs a privileged process.
    wanted = [",userxattr"] if confined else [",redirect_dir=on,index=off", ""]
    for last, more in enumerate(wanted, 1 - len(wanted)):
        try:
            _mount(libc, "overlay", folder, "overlay", 0, options + more)
            break
        except OSError:
            if last == 0:
                raise
    for path, descriptor in held:
        _mount(libc, "/proc/self/fd/%d" % descriptor, path, "", _BIND | _REC)
    for descriptor in layers + [descriptor for _, descriptor in held]:
        os.close(descriptor)


def _hide(libc: Any, folder: Any, real: Any) -> None:
    """Mounts an empty folder over ``folder``, except for the ``real`` paths inside it."""
    below = _topmost(path for path in real if path.startswith(folder + "/"))
    held = [(path, os.open(path, os.O_PATH)) for path in below]
    _mount(libc, "tmpfs", folder, "tmpfs", 0, "mode=0755")
    for path, descriptor in held:
        os.makedirs(path)
        _mount(libc, "/proc/self/fd/%d" % descriptor, path, "", _BIND | _REC)
        os.close(descriptor)


def _edit(path: Any, text: Any) -> None:
    """Replaces a file's text in its view; raises OSError if the file is in no view."""
    with open("/proc/self/mountinfo", "rb") as stream:
        mounts = [line.split(b" - ", 1) for line in stream]
    places = [(os.fsdecode(head.split(b" ")[4]), rest.split(b" ")[0]) for head, rest in mounts]
    over = max(
        (len(place), kind) for place, kind in places if (path + "/").startswith(place.rstrip("/") + "/")
    )
    if over[1] != b"overlay":
        raise OSError(errno.EROFS, "%s is in no view" % path)
    with open(text, "rb") as stream:
        data = stream.read()
    with open(path, "wb") as stream:
        stream.write(data)


def _topmost(paths: Any) -> List[str]:
    """The paths that are not inside another one."""
    kept: List[str] = []
    for path in sorted(set(paths)):
        if not any(path == other or path.startswith(other + "/") for other in kept):
            kept.append(path)
    return kept


def _mount_points() -> List[str]:
    """All mount points; those inside a view must be mounted again, as an overlay does not show them."""
    with open("/proc/self/mountinfo", "rb") as stream:
        fields = [line.split(b" ")[4] for line in stream]
    found = []
    for field in fields:
        for code, character in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
            field = field.replace(code, character)
        found.append(os.fsdecode(field))
    return found


def _look_like(folder: Any, upper: Any) -> None:
    """Copies mode, owner and times to the upper layer, which determines those of the view."""
    known = os.stat(folder)
    try:
        os.chown(upper, known.st_uid, known.st_gid)
    except OSError:
        pass
    os.chmod(upper, known.st_mode & 0o7777)
    os.utime(upper, ns=(known.st_atime_ns, known.st_mtime_ns))


def _drop_capabilities(libc: Any) -> None:
    """Drops the capabilities of the user namespace, such as writing to read-only files."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    _check(libc.capset(header, none), "capset")


def _mount(libc: Any, source: Any, target: Any, kind: Any, flags: Any, options: Any = "") -> None:
    result = libc.mount(
        os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    _check(result, "mount " + target)


def _check(result: Any, what: Any) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


def _try(plan: Any) -> None:
    """Writes a file in each view and reads it back; the caller checks that the real folder lacks it."""
    enter(plan)
    for folder in plan["folders"]:
        if not os.access(folder, os.W_OK):
            continue
        path = os.path.join(folder, plan["token"])
        with open(path, "w") as stream:
            stream.write("a")
        if os.path.getsize(path) != 1:
            raise OSError(errno.EIO, "what is written in the view of %s cannot be read" % folder)


def main() -> None:
    """Enters the views and executes the command; an error is written to the plan's ``crash`` file."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        plan = json.load(stream)
    command = sys.argv[2:]
    try:
        if not command:
            _try(plan)
            return
        enter(plan)
    except Exception as error:
        with open(plan["crash"], "w", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write("the view of the script's folder: %s" % error)
        sys.exit(FAILED)
    os.execvpe(command[0], command, os.environ)


if __name__ == "__main__":
    main()
