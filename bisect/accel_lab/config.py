"""Reads the lab's settings from ``[tool.accel-lab]`` of pyproject.toml or from accel-lab.toml.

The nearest file is used: the working directory is searched first, then its parents up to the repository root
or the home folder. The user's own file in the configuration folder supplies what that file leaves out. A file
is found this way only if nobody but the caller and root can write to it; ``--config FILE`` is read whoever
wrote it. A setting that no file gives keeps the option's default or pip's configuration.

The long name of every option is a key. In the lab's table it applies to every command that has the option, in
a table named after a command only to that command.
"""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Index
from accel_lab.core.untrusted.settings_files import (
    SettingsFile,
    folder_objection,
    home_folder,
    open_settings,
    parse_toml,
    trusted_folder,
)

FILE = "accel-lab.toml"
PROJECT = "pyproject.toml"
_TEXT = ("provider", "python-version", "index-url", "cert", "nightly-index-url", "store", "slim", "image")
_LISTS = ("extra-index-url", "find-links", "with", "with-requirements", "pythons")
_FLAGS = ("pre",)
_PATHS = ("cert", "store", "with-requirements", "find-links", "pythons")
_WORDS = {"slim": ("auto", "yes", "no")}
_MAX_TEXT, _MAX_ITEMS = 4096, 1000
#: tomllib takes time quadratic in the parts of a dotted name: this many dots take seconds at most.
_MAX_DOTS = 6000


#: Option names that settings may give, by command; called only if a file has such a key.
OptionNames = Callable[[], Mapping[str, Collection[str]]]


@dataclass(frozen=True, kw_only=True)
class GivenOption:
    """An option's value from a settings file; relative paths in it start at ``folder``, the file's folder."""

    value: Any
    folder: Path


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings by their names in the file; lists are tuples.

    ``mock`` is the table of the mock accelerator. ``options`` maps a command to its options; the key "" holds
    the options for every command that has them. ``origin`` lists the files that were read. ``notes`` says why
    other files were not read.
    """

    values: Mapping[str, Any]
    mock: Mapping[str, Any]
    options: Mapping[str, Mapping[str, GivenOption]] = field(default_factory=dict)
    origin: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        return str(self.values.get(name, ""))

    def list(self, name: str) -> tuple[str, ...]:
        return tuple(self.values.get(name, ()))

    @property
    def index(self) -> Index:
        return Index(
            url=self.text("index-url"),
            extra_urls=self.list("extra-index-url"),
            find_links=self.list("find-links"),
            ca_bundle=self.text("cert"),
            nightly_url=self.text("nightly-index-url"),
        )


def load(start: Path, named: Path | None = None, names: OptionNames = dict) -> Config:
    """Loads the settings that apply in folder ``start``. Raises :class:`UsageError` for a bad file.

    ``named`` replaces the search; the user's own file still supplies what it leaves out. ``names`` returns
    the option names of each command.
    """
    options: dict[str, dict[str, GivenOption]] = {}
    values: dict[str, Any] = {}
    mock: dict[str, Any] = {}
    origin: list[Path] = []
    notes: list[str] = []
    own = Path(platformdirs.user_config_dir("accel-lab")) / FILE
    for tables in (_tables([own], notes), _named(named) if named is not None else _found(start, notes)):
        of_lab, of_mock = False, False
        for file, table in tables:
            if not of_lab:  # only the nearest file with a table for the lab is used
                of_lab = True
                found = _checked(table, file, names)
                values.update(found.values)
                for command, given in found.options.items():
                    options.setdefault(command, {}).update(given)
                origin.append(file)
            if not of_mock and "mock" in table:
                of_mock = True
                mock = _checked_mock(_table_in(table, "mock", file, "[tool.accel-lab.mock]"), file)
    return Config(values=values, mock=mock, options=options, origin=tuple(origin), notes=tuple(notes))


def search_folders(start: Path) -> list[Path]:
    """Returns the folders that are searched for settings, nearest first.

    The list ends at the repository root or the home folder, whichever is nearer. If neither is above
    ``start``, only ``start`` is searched. If others may write to a folder on the way, only ``start`` and that
    folder are returned: the latter so that its unread settings file can be reported.
    """
    start = start.resolve()
    home = home_folder()
    folders: list[Path] = []
    for folder in (start, *start.parents):
        folders.append(folder)
        if not trusted_folder(folder):
            return list(dict.fromkeys((start, folder)))
        if folder == home or _is_repository(folder):
            return folders
    return folders[:1]


def _is_repository(folder: Path) -> bool:
    """Whether ``folder`` is the root of a working tree; in a worktree or a submodule ``.git`` is a file."""
    git = folder / ".git"
    try:
        return not git.is_symlink() and not folder_objection(git.stat(), git)
    except OSError:
        return False


def _named(file: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    found = open_settings(file)
    if found is None:
        raise UsageError(f"{file} is not there: --config names a settings file")
    table = _table(found, whole=file.name != PROJECT)
    if table is None:
        raise UsageError(f"{file} has no [tool.accel-lab]: --config names a settings file")
    yield file, table


def _found(start: Path, notes: list[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields the tables from ``start`` upwards; accel-lab.toml comes before pyproject.toml."""
    files = [folder / name for folder in search_folders(start) for name in (FILE, PROJECT)]
    return _tables(files, notes)


def _tables(files: list[Path], notes: list[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    for file in files:
        try:
            found = open_settings(file)
        except UsageError as error:
            if file.name == FILE:
                raise
            notes.append(f"{error}; it is left unread")
            continue
        if found is None or (file.name == PROJECT and b"accel-lab" not in found.data):
            continue  # an unreadable or unrelated pyproject.toml must not stop the lab
        if found.objection:
            notes.append(
                f"{file} is not read: {found.objection}. If you trust it, name it with "
                f"--config {shlex.quote(str(file))}, or make it (and its folder) yours alone: chmod go-w"
            )
            continue
        table = _table(found, whole=file.name == FILE)
        if table is not None:
            yield file, table


def _table(found: SettingsFile, *, whole: bool) -> dict[str, Any] | None:
    """Returns the lab's table of a file, or None. With ``whole`` a file without one is the table itself."""
    try:
        text = found.data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{found.path} is not UTF-8 text") from None
    if text.count(".") > _MAX_DOTS:
        raise UsageError(
            f"{found.path} has more than {_MAX_DOTS:,} dots: its names would take for ever to read"
        )
    data = parse_toml(text, str(found.path))
    tool = data.get("tool", {})
    if isinstance(tool, dict) and "accel-lab" in tool:
        return _table_in(tool, "accel-lab", found.path, "[tool.accel-lab]")
    return data if whole else None


def _table_in(data: Mapping[str, Any], name: str, file: Path, what: str) -> dict[str, Any]:
    value = data[name]
    if not isinstance(value, dict):
        raise UsageError(f"{file}: {what} is a table, not {str(value)[:80]}")
    return value


@dataclass(frozen=True, kw_only=True)
class _Checked:
    values: Mapping[str, Any]
    options: Mapping[str, Mapping[str, GivenOption]]


def _checked(table: Mapping[str, Any], file: Path, names: OptionNames) -> _Checked:
    """Validates a table and makes its paths absolute, relative to the file. Skips the table ``mock``."""
    found: dict[str, Any] = {}
    options: dict[str, dict[str, GivenOption]] = {}
    for name, value in table.items():
        key = name.replace("_", "-")
        if key == "mock":
            continue
        if key in _TEXT and isinstance(value, str):
            found[key] = _anchored(key, _plain(value, name, file), file)
        elif key in _LISTS and (isinstance(value, str) or _is_list_of_text(value)):
            items = value.split() if isinstance(value, str) else value
            if len(items) > _MAX_ITEMS:
                raise UsageError(f"{file}: {name} has more than {_MAX_ITEMS} entries")
            found[key] = tuple(_anchored(key, _plain(item, name, file), file) for item in items)
        elif key in _FLAGS and isinstance(value, bool):
            found[key] = value
        elif key in (*_TEXT, *_LISTS, *_FLAGS):
            kind = "text" if key in _TEXT else "true or false" if key in _FLAGS else "a list of text"
            raise UsageError(f"{file}: {name} must be {kind}")
        elif isinstance(value, dict):
            options[key] = _of_command(key, value, file, names())
        else:
            known = {option for one in names().values() for option in one}
            options.setdefault("", {})[key] = _option(key, value, file, known | {*_TEXT, *_LISTS, *_FLAGS})
    return _Checked(values=found, options=options)


def _of_command(
    command: str, table: Mapping[str, Any], file: Path, names: Mapping[str, Collection[str]]
) -> dict[str, GivenOption]:
    if command not in names:
        raise UsageError(f"{file}: there is no table {command[:80]}{near(command, (*names, 'mock'))}")
    return {
        key: _option(key, value, file, names[command], command)
        for key, value in ((name.replace("_", "-"), value) for name, value in table.items())
    }


def _option(key: str, value: Any, file: Path, known: Collection[str], command: str = "") -> GivenOption:
    """Validates a value for an option; click checks its type later."""
    name = f"{command}.{key[:80]}" if command else key[:80]
    if key not in known:
        raise UsageError(f"{file}: there is no setting {name}{near(key, known)}")
    items = value if isinstance(value, list) else [value]
    if len(items) > _MAX_ITEMS:
        raise UsageError(f"{file}: {name} has more than {_MAX_ITEMS} entries")
    for item in items:
        if isinstance(item, str):
            _plain(item, name, file)
        elif not isinstance(item, (bool, int, float)) or item != item or abs(item) >= 1 << 63:
            raise UsageError(f"{file}: {name} must be a number, true or false, text or a list of these")
    return GivenOption(value=value, folder=file.parent)


def near(key: str, known: Collection[str]) -> str:
    """Returns ``: did you mean X?`` if one of the known words is close, else an empty string.

    ``accelerators.settings`` has a copy of its own, because the probed interpreter cannot import this module.
    """
    found = difflib.get_close_matches(key[:80], sorted(known), 1)
    return f": did you mean {found[0]}?" if found else ""


def _checked_mock(table: dict[str, Any], file: Path) -> dict[str, Any]:
    """Validates that the mock's table holds plain values only; the mock itself checks the names."""
    for name, value in table.items():
        if isinstance(value, (str, list)):
            texts = [value] if isinstance(value, str) else value
            if not _is_list_of_text(texts) or len(texts) > _MAX_ITEMS:
                raise UsageError(f"{file}: mock.{name[:80]} must be a list of at most {_MAX_ITEMS} texts")
            for text in texts:
                _plain(text, f"mock.{name[:80]}", file)
        elif not isinstance(value, (bool, int, float)) or value != value or abs(value) >= 1 << 63:
            raise UsageError(
                f"{file}: mock.{name[:80]} must be a number, true or false, text or a list of texts"
            )
    return table


def _plain(value: str, name: str, file: Path) -> str:
    """Validates a text setting: its length, no control characters, and one of the allowed words."""
    if len(value) > _MAX_TEXT:
        raise UsageError(f"{file}: {name} has more than {_MAX_TEXT:,} characters")
    if not value.isprintable():
        raise UsageError(f"{file}: {name} has a control character in it")
    allowed = _WORDS.get(name)
    if allowed is not None and value not in allowed:
        raise UsageError(f"{file}: {name} is one of {', '.join(allowed)}, not {value[:80]!r}")
    return value


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _anchored(key: str, value: str, file: Path) -> str:
    """Makes a path setting absolute, relative to the file's folder; other settings are returned unchanged."""
    if key not in _PATHS or "://" in value or not value:
        return value
    if key == "pythons" and os.sep not in value:
        return value  # a name that is looked up on PATH
    try:
        return str(file.parent / Path(value).expanduser())
    except RuntimeError:  # there is no such user
        raise UsageError(f"{file}: {key}: there is no such home folder: {value[:80]}") from None
