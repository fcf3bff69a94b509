"""Provider ``local``: a line of interpreters that the user names, each with its own torch."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Environment, EnvironmentSpec, EnvironmentUnavailable, Release

from .commands import Commands
from .index.releases import order, parse_version, public, python_tag
from .options import EnvironmentOptions, Run
from .store.quick_check import ask_interpreter


class LocalProvider:
    """Provides existing interpreters; it makes nothing and cannot pin companions."""

    name = "local"

    def __init__(self, options: EnvironmentOptions, run: Run) -> None:
        self.notes: list[str] = []
        self._pythons = [_program(name) for name in options.pythons or (sys.executable,)]
        self._commands = Commands(run, options.build_timeout_s)
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, dict[str, Any]]] | None = None

    def releases(self, *, pre: bool = False) -> list[Release]:
        """Returns the interpreters' releases; pre-releases always count, since the user named them."""
        found = []
        for version, (_, facts) in self._line().items():
            parsed = parse_version(version)
            found.append(
                Release(
                    version=version,
                    pythons=(python_tag(facts["python"]),),
                    prerelease=parsed is not None and parsed.is_prerelease,
                )
            )
        return sorted(found, key=lambda release: order(release.version))

    def spec(self, version: str, *, pins: Sequence[tuple[str, str]] = ()) -> EnvironmentSpec:
        """Returns the interpreter with this release. Raises :class:`EnvironmentUnavailable` for pins."""
        if pins:
            raise EnvironmentUnavailable("the local provider leaves packages as they are: it holds none")
        line = self._line()
        known = line.get(version) or line.get(public(version))
        if known is None:
            raise EnvironmentUnavailable(f"none of the interpreters that were named has torch {version}")
        python, facts = known
        return EnvironmentSpec(provider=self.name, torch=facts["torch"], python=python)

    def make(self, spec: EnvironmentSpec) -> Environment:
        """Checks the interpreter again, because its torch may have been replaced."""
        facts = ask_interpreter(self._commands, spec.python, isolated=False)
        if facts["torch"] != spec.torch:
            raise EnvironmentUnavailable(f"{spec.python} has torch {facts['torch']} now, not {spec.torch}")
        provenance: dict[str, Any] = {
            key: facts[key] for key in ("python", "torch", "packages") if key in facts
        }
        return Environment(
            spec=spec, python=spec.python, folder=facts["prefix"], provenance=provenance, cached=True
        )

    def close(self) -> None:
        """Does nothing: no resource is held."""

    def __enter__(self) -> LocalProvider:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _line(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Maps versions to interpreters and their facts; an unusable interpreter adds a note."""
        with self._lock:
            if self._known is None:
                asked = []
                for python in self._pythons:
                    try:
                        facts = ask_interpreter(self._commands, python, isolated=False)
                        asked.append((python, facts))
                    except EnvironmentUnavailable as error:
                        self.notes.append(str(error))
                if not asked:
                    raise EnvironmentUnavailable(self.notes[0])
                times = Counter(public(facts["torch"]) for _, facts in asked)
                self._known = {}
                for python, facts in asked:
                    short = public(facts["torch"])
                    name = short if times[short] == 1 else facts["torch"]
                    if name in self._known:
                        self.notes.append(f"{python} has torch {name} too: it is left out")
                    else:
                        self._known[name] = (python, facts)
            return self._known


def _program(name: str) -> str:
    """Resolves a path or a name on PATH, keeping links, since a venv is recognized by its path."""
    found = shutil.which(os.path.expanduser(name))
    if found is None:
        raise UsageError(f"{name} is not an interpreter: --pythons takes paths, separated by colons")
    return os.path.abspath(found)
