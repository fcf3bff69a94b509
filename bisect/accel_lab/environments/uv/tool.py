"""Wraps the uv program: makes a venv, resolves within an era, installs a lock; each failure is one line."""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.machine.environment import EnvironmentUnavailable, Index
from accel_lab.environments.commands import CommandResult, Commands, plain_environment
from accel_lab.environments.explain import explain
from accel_lab.environments.index.pip_settings import NO_INDEX

#: uv's variables that are kept because they only configure the network; others would change the result.
_KEPT = (
    "UV_HTTP_TIMEOUT",
    "UV_HTTP_RETRIES",
    "UV_OFFLINE",
    "UV_SYSTEM_CERTS",
    "UV_NATIVE_TLS",
    "UV_INSECURE_HOST",
)
_KEPT_PREFIXES = ("UV_CONCURRENT_", "UV_KEYRING_PROVIDER", "UV_PYTHON_INSTALL_DIR")


@dataclass(frozen=True, kw_only=True)
class Locked:
    """One line of a resolution: ``text`` is the requirement to install, ``source`` its index."""

    name: str
    text: str
    source: str = ""

    @property
    def version(self) -> str:
        return self.text.partition("==")[2]


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The contents of an environment.

    ``dated`` is false if the index has no dates, so the era was ignored.
    """

    lines: tuple[Locked, ...]
    dated: bool

    @property
    def text(self) -> str:
        return "".join(f"{line.text}\n" for line in self.lines)


#: uv finds itself through sysconfig, whose setup is not thread-safe (it may return None meanwhile).
_FINDING = threading.Lock()


def find_uv() -> str:
    """Returns the uv of the lab's dependency, else of ``PATH``; raises EnvironmentUnavailable without one."""
    with _FINDING:
        found = _uv_of_the_package() or shutil.which("uv")
    if found is None:
        raise EnvironmentUnavailable("uv is not installed: pip install uv")
    return found


def _uv_of_the_package() -> str | None:
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return None


class UvTool:
    """uv with a cache on the store's disk, so that environments share files through hard links."""

    def __init__(self, commands: Commands, index: Index, cache: Path, *, nightly: bool = False) -> None:
        self._commands = commands
        self._index = index
        self._cache = cache
        self._nightly = nightly

    def make_venv(self, folder: Path, python: str) -> str:
        """Makes a relocatable virtual environment; returns its interpreter."""
        command = ["venv", "--python", python, "--relocatable", "--no-project", str(folder)]
        said = self._call(command)
        interpreter = folder / "bin" / "python"
        if not said.ok or not interpreter.exists():
            raise EnvironmentUnavailable(f"no virtual environment of {python}: {self._why(said, '', python)}")
        return str(interpreter)

    def resolve(
        self,
        requirements: Sequence[str],
        *,
        python: str,
        torch: str,
        version: str,
        era: str = "",
        held: Mapping[str, str],
        undated: Sequence[str] = (),
        work: Path,
    ) -> Resolution:
        """Resolves ``requirements`` to packages not newer than ``era``, except the ``undated`` ones.

        ``held`` versions override what other packages ask for. If the index gives no upload times, the era is
        ignored, and the resolution says so. Raises EnvironmentUnavailable if nothing fits.
        """
        wanted, overrides = work / "requirements.in", work / "overrides.txt"
        wanted.write_text("".join(f"{line}\n" for line in requirements), encoding="utf-8")
        overrides.write_text("".join(f"{n}=={v}\n" for n, v in held.items()), encoding="utf-8")
        command = ["pip", "compile", "--python", python, *self._index_options()]
        command += ["--no-header", "--no-annotate", "--emit-index-annotation"]
        command += ["--overrides", str(overrides), str(wanted)]
        dates = ["--exclude-newer", era] if era else []
        for name in dict.fromkeys((*undated, *held)) if era else ():
            dates += ["--exclude-newer-package", f"{name}=false"]
        said = self._call([*command, *dates])
        dated = bool(era)
        if not said.ok and "missing an upload date" in said.stderr:
            again = self._call(command)
            if again.ok:
                said, dated = again, False
        if not said.ok:
            raise EnvironmentUnavailable(f"torch {torch}: {self._why(said, torch, version)}")
        return Resolution(lines=read_lock(said.stdout), dated=dated)

    def install(self, lock: Path, interpreter: str, *, torch: str, version: str) -> None:
        """Installs exactly the packages of a lock, hard-linked from the cache, with byte code."""
        command = ["pip", "install", "--python", interpreter, *self._index_options(), "--no-deps"]
        command += ["--link-mode", "hardlink", "--compile-bytecode", "--requirements", str(lock)]
        said = self._call(command)
        if not said.ok:
            raise EnvironmentUnavailable(f"torch {torch}: {self._why(said, torch, version)}")

    def _index_options(self) -> list[str]:
        index = self._index
        options = []
        if index.url == NO_INDEX:
            options.append("--no-index")
        elif index.url:
            options += ["--default-index", index.url]
        nightly = [index.nightly_url] if self._nightly and index.nightly_url else []
        for url in (*index.extra_urls, *nightly):
            options += ["--index", url]
        for place in index.find_links:
            remote = place.startswith(("http:", "https:", "file:"))
            options += ["--find-links", place if remote else os.path.abspath(os.path.expanduser(place))]
        # As pip does: the best version of all indexes, not only of the first index with the package.
        return [*options, "--index-strategy", "unsafe-best-match"]

    def _call(self, arguments: Sequence[str]) -> CommandResult:
        env = {
            name: value
            for name, value in plain_environment().items()
            if not name.startswith("UV_") or name in _KEPT or name.startswith(_KEPT_PREFIXES)
        }
        env.setdefault("UV_HTTP_TIMEOUT", "180")
        if self._index.ca_bundle:
            env["SSL_CERT_FILE"] = self._index.ca_bundle
        common = ["--no-config", "--no-progress", "--color", "never", "--no-python-downloads"]
        return self._commands([find_uv(), *arguments, *common, "--cache-dir", str(self._cache)], env)

    def _why(self, said: CommandResult, torch: str, python: str) -> str:
        return said.why or explain(said.stderr, torch=torch, python=python)


def read_lock(text: str) -> tuple[Locked, ...]:
    """Parses the lines of a resolution with their index."""
    found: list[Locked] = []
    for line in text.splitlines():
        source = re.fullmatch(r"\s+# from (\S+)", line)
        if source and found:
            found[-1] = Locked(name=found[-1].name, text=found[-1].text, source=source[1])
        elif line.strip() and not line.lstrip().startswith("#"):
            name = re.match(r"[A-Za-z0-9._-]+", line)
            if name:
                found.append(Locked(name=name[0].lower(), text=line.strip()))
    return tuple(found)
