"""Reads settings files and checks that only the caller and root can have written them.

A settings file that the lab finds by itself names programs to run. It is used only if it and its folder
belong to the caller or root and nobody else may write to either. A file that the caller names is always used.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accel_lab.core.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The size limit of a settings file, far above any real one; it bounds the parser's time.
MAX_BYTES = 256 * 1024
_ACCESS_LIST = "system.posix_acl_access"


@dataclass(frozen=True, kw_only=True)
class SettingsFile:
    """The bytes of a settings file, and the reason not to trust it (empty if there is none)."""

    path: Path
    data: bytes
    objection: str = ""


def open_settings(path: Path) -> SettingsFile | None:
    """Reads a file and checks who may have written it; None if it does not exist.

    Links are followed; the target is checked in its own folder. The file cannot be exchanged between check
    and read. Raises :class:`UsageError` if it is no regular file, too large or unreadable.
    """
    try:
        folder = _open(os.path.realpath(path.parent), os.O_DIRECTORY | getattr(os, "O_PATH", 0))
    except OSError:
        return None
    try:
        try:
            state = os.stat(path.name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        objection = folder_objection(os.fstat(folder), path.parent)
        if stat.S_ISLNK(state.st_mode):
            return _behind_link(path, objection)
        data, state = _read(path, path.name, folder)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    finally:
        os.close(folder)
    return SettingsFile(path=path, data=data, objection=objection or _objection(state, path, "it"))


def folder_objection(state: os.stat_result, folder: Path) -> str:
    """Returns the reason not to trust files in a folder; empty if there is none."""
    return _objection(state, folder, f"its folder {folder}")


def trusted_folder(folder: Path) -> bool:
    """Whether only the caller and root may write to a folder."""
    try:
        return not folder_objection(os.stat(folder), folder)
    except OSError:
        return False


def home_folder() -> Path | None:
    """Returns the caller's home folder, with links resolved; None if there is none."""
    home = os.path.expanduser("~")
    return None if home.startswith("~") else Path(os.path.realpath(home))


def read_capped(path: Path) -> bytes:
    """Reads a regular file of up to ``MAX_BYTES``. Raises OSError, or UsageError for another kind of file."""
    return _read(path, str(path), None)[0]


def parse_toml(text: str, what: str) -> dict[str, Any]:
    """Parses TOML. Raises :class:`UsageError`, one line with the error; ``what`` names the text."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise UsageError(f"{what} is not valid TOML: it is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"{what} is not valid TOML: {str(error)[:200]}") from None


def _open(path: str, flags: int, folder: int | None = None) -> int:
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=folder)


def _behind_link(path: Path, objection: str) -> SettingsFile:
    target = Path(os.path.realpath(path))
    if target.is_symlink() or not target.exists():  # a link loop or a dangling link
        raise UsageError(f"{path} is a link that leads to no file")
    try:
        found = open_settings(target)
    except UsageError as error:
        raise UsageError(f"{path} is a link: {error}") from None
    if found is None:
        raise UsageError(f"{path} is a link that leads to no file")
    return SettingsFile(path=path, data=found.data, objection=objection or found.objection)


def _read(path: Path, name: str, folder: int | None) -> tuple[bytes, os.stat_result]:
    """The file's bytes and stat result; does not block on a pipe."""
    file = _open(name, os.O_NONBLOCK | os.O_NOCTTY | (os.O_NOFOLLOW if folder is not None else 0), folder)
    try:
        state = os.fstat(file)
        if not stat.S_ISREG(state.st_mode):
            raise UsageError(f"{path} is not a regular file: a settings file must be one")
        with open(file, "rb", closefd=False) as stream:
            data = stream.read(MAX_BYTES + 1)
    finally:
        os.close(file)
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} has more than {MAX_BYTES:,} bytes: that is too much for a settings file")
    return data, state


def _objection(state: os.stat_result, path: Path, what: str) -> str:
    if state.st_uid not in (os.geteuid(), 0):
        return f"{what} belongs to {_user(state.st_uid)}, not to you"
    if state.st_mode & stat.S_IWOTH:
        return f"everybody may write to {what}"
    if state.st_mode & stat.S_IWGRP and (_has_access_list(path) or not _is_own_group(state)):
        return f"others may write to {what} (group {_group(state.st_gid)})"
    return ""


def _is_own_group(state: os.stat_result) -> bool:
    """Whether the group is the private group of the owner or the caller: same name, no other members."""
    for uid in {state.st_uid, os.geteuid()}:
        with suppress(KeyError):
            user, group = pwd.getpwuid(uid), grp.getgrgid(state.st_gid)
            if user.pw_gid == group.gr_gid and group.gr_name == user.pw_name:
                return set(group.gr_mem) <= {user.pw_name}
    return False


def _has_access_list(path: Path) -> bool:
    """Whether the file has a POSIX ACL; its mask is then what the group bits show."""
    try:
        return _ACCESS_LIST in os.listxattr(path)
    except (OSError, AttributeError):  # a file system or an OS without ACLs
        return False


def _user(uid: int) -> str:
    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
