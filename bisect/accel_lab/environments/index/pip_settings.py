"""Reads pip's index settings from its configuration files and PIP_* variables, with pip's precedence."""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Index
from accel_lab.core.untrusted.settings_files import read_capped

_SECTIONS = ("global", "install")  # the later section overrides
_SYSTEM = Path("/etc/pip.conf")


def pip_index(environ: Mapping[str, str] | None = None, prefix: str = sys.prefix) -> Index:
    """Returns pip's index options on this machine; a field is empty where pip uses its default."""
    environ = os.environ if environ is None else environ
    found: dict[str, str] = {}
    for file in _files(environ, prefix):
        found.update(_read(file))
    for key in ("index-url", "extra-index-url", "find-links", "cert", "no-index"):
        name = "PIP_" + key.upper().replace("-", "_")
        if environ.get(name):
            found[key] = environ[name]
    url = "" if found.get("no-index", "").lower() in ("", "0", "false", "no", "off") else NO_INDEX
    return Index(
        url=url or found.get("index-url", "").strip(),
        extra_urls=() if url else tuple(found.get("extra-index-url", "").split()),
        find_links=tuple(found.get("find-links", "").split()),
        ca_bundle=found.get("cert", "").strip(),
    )


#: Value of ``Index.url`` for no index at all, only find-links.
NO_INDEX = "none"


def _files(environ: Mapping[str, str], prefix: str) -> list[Path]:
    """Returns pip's configuration files, lowest precedence first."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return []
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    wide = environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    files = [Path(folder, "pip", "pip.conf") for folder in wide.split(os.pathsep) if folder]
    files.append(_SYSTEM)
    if sys.platform == "darwin":
        files.append(Path("/Library/Application Support/pip/pip.conf"))
        files.append(home / "Library" / "Application Support" / "pip" / "pip.conf")
    files.append(home / ".pip" / "pip.conf")
    files.append(Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf")
    files.append(Path(prefix) / "pip.conf")
    if named:
        files.append(Path(named))
    return files


def _read(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(read_capped(file).decode("utf-8"))
    except (OSError, UsageError, UnicodeDecodeError, configparser.Error):
        return {}
    return {
        key.lower().replace("_", "-"): value or ""
        for section in _SECTIONS
        if parser.has_section(section)
        for key, value in parser.items(section)
    }
