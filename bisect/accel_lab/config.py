"""The lab's own settings: the ``[tool.accel-lab]`` table of pyproject.toml, or accel-lab.toml.

The file nearest to the working directory counts (its folder, then those above), and below it the user's own
in the configuration folder. What neither says is left to the options' defaults and to pip's configuration.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from accel_lab.core.environment import Index
from accel_lab.core.errors import UsageError
from accel_lab.core.toml_text import read_toml

FILE = "accel-lab.toml"
_TEXT = ("provider", "python-version", "index-url", "cert", "nightly-index-url", "store", "slim", "image")
_LISTS = ("extra-index-url", "find-links", "with", "with-requirements", "pythons")
_PATHS = ("cert", "store", "with-requirements", "find-links", "pythons")


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings by their names in the file; a list is a tuple. ``origin`` are the files that were read."""

    values: Mapping[str, Any]
    origin: tuple[Path, ...] = ()

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


def load(start: Path) -> Config:
    """The settings that count in a folder. Raises :class:`UsageError` in one line for a bad file."""
    values: dict[str, Any] = {}
    origin = []
    user = Path(platformdirs.user_config_dir("accel-lab")) / FILE
    for file in (user, _nearest(start)):
        table = _table(file) if file is not None else None
        if table is not None and file is not None:
            values.update(_checked(table, file))
            origin.append(file)
    return Config(values=values, origin=tuple(origin))


def _nearest(start: Path) -> Path | None:
    """The first file with settings on the way up; accel-lab.toml before pyproject.toml."""
    return next((file for file in _candidates(start) if _table(file) is not None), None)


def _candidates(start: Path) -> Iterator[Path]:
    start = start.resolve()
    for folder in (start, *start.parents):
        yield folder / FILE
        yield folder / "pyproject.toml"


def _table(file: Path) -> dict[str, Any] | None:
    """The lab's table of a file; None where the file has none, or is not there."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    if file.name != FILE and "accel-lab" not in text:
        return None  # so that a pyproject.toml of another project cannot be in the way
    data = read_toml(text, str(file))
    tool = data.get("tool", {})
    table = tool.get("accel-lab") if isinstance(tool, dict) else None
    if isinstance(table, dict):
        return table
    return data if file.name == FILE else None


def _checked(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """The settings of a table, paths as seen from its file. Tables in it are others' (``mock``)."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            continue
        key = name.replace("_", "-")
        if key in _TEXT and isinstance(value, str):
            found[key] = _anchored(key, value, file)
        elif key in _LISTS and (isinstance(value, str) or _is_list_of_text(value)):
            items = value.split() if isinstance(value, str) else value
            found[key] = tuple(_anchored(key, item, file) for item in items)
        elif key == "pre" and isinstance(value, bool):
            found[key] = value
        elif key in (*_TEXT, *_LISTS, "pre"):
            kind = "text" if key in _TEXT else "true or false" if key == "pre" else "a list of text"
            raise UsageError(f"{file}: {name} must be {kind}")
        else:
            near = difflib.get_close_matches(key, (*_TEXT, *_LISTS, "pre"), 1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise UsageError(f"{file}: there is no setting {name}{hint}")
    return found


def _is_list_of_text(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _anchored(key: str, value: str, file: Path) -> str:
    """A path in a file is meant as seen from that file; what is no path stays."""
    if key not in _PATHS or "://" in value or not value:
        return value
    if key == "pythons" and os.sep not in value:
        return value  # a name on PATH
    return str(file.parent / Path(value).expanduser())
