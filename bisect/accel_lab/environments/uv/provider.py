"""Provider ``uv``: one virtual environment for each release, with companions of the release's era."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from accel_lab.core.machine.environment import Environment, EnvironmentSpec, EnvironmentUnavailable, Release
from accel_lab.core.machine.locks import Lock
from accel_lab.environments.commands import Commands
from accel_lab.environments.index.choosing import Chooser, has_gpu
from accel_lab.environments.index.reader import without_secrets
from accel_lab.environments.index.releases import local_part, public
from accel_lab.environments.index.requirements import exact_version, gather, name_of
from accel_lab.environments.interpreters import find_interpreters
from accel_lab.environments.options import EnvironmentOptions, Run
from accel_lab.environments.store.folder import Store, changed_files, new_bytes
from accel_lab.environments.store.quick_check import ask_interpreter

from .eras import era_of
from .slim import add_stubs, is_left_out
from .tool import Resolution, UvTool

#: Packages besides torch that its compiler imports on some release.
COMPANIONS = ("numpy", "setuptools")
_WAIT_S = 7200.0  # seconds, for another lab that makes the same environment
# Disk space of a build, as a multiple of its wheel; the CUDA libraries are added to that.
_UNPACKED, _CUDA_BYTES, _SPARE_BYTES = 2.2, 5 << 30, 300 << 20


class UvProvider:
    """Makes, keeps and finds virtual environments in a store that several labs may share."""

    name = "uv"

    def __init__(self, options: EnvironmentOptions, run: Run, *, gpu: bool | None = None) -> None:
        self.notes: list[str] = []
        self._options = options
        self._commands = Commands(run, options.build_timeout_s)
        self._store = Store(options.folder)
        self._needs = gather(options.with_packages, options.with_requirements, options.script)
        self.notes += self._needs.notes
        gpu = has_gpu() if gpu is None else gpu
        self._chooser = Chooser(options, self._store.memory, find_interpreters(), self.notes, gpu=gpu)
        self._lock = threading.Lock()
        self._held: list[Lock] = []
        self._made: dict[str, Environment] = {}
        self._failed: dict[str, str] = {}

    # -- releases ------------------------------------------------------------------------------

    def releases(self, *, pre: bool = False) -> list[Release]:
        """Returns the releases that a Python of this machine can run, oldest first."""
        return self._chooser.releases(pre=pre or self._options.pre)

    def spec(self, version: str, *, pins: Sequence[tuple[str, str]] = ()) -> EnvironmentSpec:
        """Returns the specification of a release's environment: its wheel, Python and era."""
        chosen = self._chooser.choose(version)
        return EnvironmentSpec(
            provider=self.name,
            torch=chosen.wheel.version,
            python=chosen.python,
            packages=self._needs.lines,
            pins=tuple(sorted(pins)),
            exclude_newer=era_of(chosen.release),
            slim=self._chooser.wants_slim(chosen.wheel.version),
            index=without_secrets(self._options.index),
        )

    # -- making --------------------------------------------------------------------------------

    def make(self, spec: EnvironmentSpec) -> Environment:
        """Returns the environment from the store if it is intact, else makes it; held until :meth:`close`.

        Raises :class:`EnvironmentUnavailable` if it cannot be made.
        """
        key = spec.key
        with self._lock:
            if key in self._made:
                return replace(self._made[key], cached=True, seconds=0.0)
            if key in self._failed:
                raise EnvironmentUnavailable(self._failed[key])
        lock = self._store.lock(key)
        try:
            environment = self._find_or_make(spec, lock)
        except EnvironmentUnavailable as error:
            lock.release()
            if str(error) != "interrupted":
                self._failed[key] = str(error)
            raise
        except OSError as error:
            lock.release()
            where = f" ({error.filename})" if error.filename else ""
            raise EnvironmentUnavailable(f"{error.strerror or error}{where}: see --store") from None
        except BaseException:
            lock.release()
            raise
        with self._lock:
            self._held.append(lock)
            self._made[key] = environment
        return environment

    def close(self) -> None:
        """Releases the environments that were used here."""
        with self._lock:
            held, self._held = self._held, []
            self._made.clear()
        for lock in held:
            lock.release()

    def __enter__(self) -> UvProvider:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _find_or_make(self, spec: EnvironmentSpec, lock: Lock) -> Environment:
        built: Environment | None = None
        while True:
            if not lock.take(shared=True, wait_s=_WAIT_S):
                raise EnvironmentUnavailable(f"another lab has been making {spec.label} for too long")
            found = self._found(spec)
            if found is not None:
                self._store.touch(spec.key)
                return built or found
            lock.release()
            if not lock.take(wait_s=_WAIT_S):
                raise EnvironmentUnavailable(f"{spec.label} is damaged and in use by another lab")
            # Between the two locks another lab may have made it. Between the exclusive and the shared lock it
            # may be removed again, so it is looked up once more.
            if self._found(spec) is None:
                if built is not None:
                    raise EnvironmentUnavailable(f"{spec.label} was made and cannot be used: see --store")
                built = self._build(spec)

    def _found(self, spec: EnvironmentSpec) -> Environment | None:
        """Returns the store's environment if it exists and is unchanged, else None."""
        manifest = self._store.manifest(spec.key)
        if manifest is None:
            return None
        folder = self._store.place(spec.key)
        python = str(folder / "venv" / "bin" / "python")
        if changed_files(folder):
            return None
        try:
            facts = ask_interpreter(self._commands, python)
        except EnvironmentUnavailable as error:
            if str(error) == "interrupted":
                raise
            return None
        if facts["torch"] != manifest["provenance"]["torch"]:
            return None
        return Environment(
            spec=spec,
            python=python,
            folder=str(folder),
            provenance=manifest["provenance"],
            size_bytes=int(manifest["size_bytes"]),
            cached=True,
        )

    def _build(self, spec: EnvironmentSpec) -> Environment:
        """Builds the environment in a separate folder and moves it into place once it works."""
        began = time.monotonic()
        program = self._chooser.interpreters.get(spec.python)
        if program is None:
            raise EnvironmentUnavailable(f"there is no Python {spec.python} on this machine: install it")
        self._store.sweep()
        self._store.remove(spec.key)
        building = self._store.start(spec.key)
        try:
            self._check_room(spec)
            provenance = self._install(spec, program, building)
            seconds, size = time.monotonic() - began, new_bytes(building)
            manifest = {
                "spec": spec.to_json(),
                "provenance": provenance,
                "size_bytes": size,
                "seconds": round(seconds, 3),
            }
            folder = self._store.finish(building, spec.key, manifest)
        finally:
            shutil.rmtree(building, ignore_errors=True)
        return Environment(
            spec=spec,
            python=str(folder / "venv" / "bin" / "python"),
            folder=str(folder),
            provenance=provenance,
            size_bytes=size,
            seconds=seconds,
        )

    def _install(self, spec: EnvironmentSpec, program: str, building: Path) -> dict[str, Any]:
        tool = UvTool(
            self._commands,
            self._options.index,
            self._store.cache / "uv",
            nightly=bool(spec.torch.count("dev")),
        )
        notes: list[str] = list(self._needs.notes)
        interpreter = tool.make_venv(building / "venv", program)
        resolution = self._resolve(tool, spec, program, building)
        if spec.exclude_newer and not resolution.dated:
            notes.append("companions are not of the release's era: the index gives no upload times")
        asked = {name_of(line) for line in spec.packages} | {name for name, _ in spec.pins}
        lines = [
            line
            for line in resolution.lines
            if not (spec.slim and is_left_out(line.name) and line.name not in asked)
        ]
        left_out = [line.text for line in resolution.lines if line not in lines]
        lock = building / "lock.txt"
        lock.write_text("".join(f"{line.text}\n" for line in lines), encoding="utf-8")
        with self._store.downloads_lock() as downloads:
            downloads.take(shared=True, wait_s=_WAIT_S)
            tool.install(lock, interpreter, torch=spec.torch, version=spec.python)
        slim: dict[str, Any] | None = None
        if spec.slim and left_out:
            stubs = add_stubs(_site_packages(building / "venv"), self._commands)
            slim = {"left_out": left_out, "stubs": list(stubs.libraries), "symbols": stubs.symbols}
        facts = ask_interpreter(self._commands, interpreter, full=True)
        if public(facts["torch"]) != public(spec.torch):
            raise EnvironmentUnavailable(f"torch {facts['torch']} was installed instead of {spec.torch}")
        return {
            "torch": facts["torch"],
            "python": facts["python"],
            "packages": facts.get("packages", {}),
            "wheels": wheels_of(_site_packages(building / "venv"), resolution),
            "era": spec.exclude_newer if resolution.dated else "",
            "lock": [line.text for line in lines],
            "notes": notes,
            **({"slim": slim} if slim else {}),
        }

    def _resolve(self, tool: UvTool, spec: EnvironmentSpec, program: str, building: Path) -> Resolution:
        held = dict(spec.pins)
        named = {name_of(line) for line in spec.packages}
        companions = [name for name in COMPANIONS if name not in named]
        names = [f"torch=={spec.torch}", *companions, *(n for n in held if n not in companions)]
        exact = [name_of(line) for line in spec.packages if exact_version(line)]
        return tool.resolve(
            [*names, *spec.packages],
            python=program,
            torch=spec.torch,
            version=spec.python,
            era=spec.exclude_newer,
            held=held,
            undated=["torch", *exact],
            work=building,
        )

    def _check_room(self, spec: EnvironmentSpec) -> None:
        """Raises EnvironmentUnavailable before a download that the disk cannot hold."""
        need = _SPARE_BYTES + int(_UNPACKED * self._chooser.size_of(spec.torch, spec.python))
        if not spec.slim and not local_part(spec.torch).startswith("cpu"):
            need += _CUDA_BYTES if sys.platform.startswith("linux") and os.uname().machine == "x86_64" else 0
        free = shutil.disk_usage(self._store.folder).free
        if free < need:
            raise EnvironmentUnavailable(
                f"no room for torch {spec.torch}: it takes about {need / 1e9:.1f} GB and {free / 1e9:.1f} "
                f"are free in {self._store.folder}: `accel-lab env prune`, or another --store"
            )


def _site_packages(venv: Path) -> Path:
    return next(iter(sorted((venv / "lib").glob("python3*/site-packages"))))


def wheels_of(site_packages: Path, resolution: Resolution) -> list[dict[str, str]]:
    """Returns name, version, tag and index of the installed wheels, read from their metadata."""
    sources = {line.name: line.source for line in resolution.lines}
    found = []
    for folder in sorted(site_packages.glob("*.dist-info")):
        name, _, version = folder.name.removesuffix(".dist-info").partition("-")
        tags = [
            line.partition(":")[2].strip()
            for line in (folder / "WHEEL").read_text("utf-8", "replace").splitlines()
            if line.startswith("Tag:")
        ]
        source = sources.get(name.lower().replace("_", "-"), "")
        found.append({"name": name, "version": version, "tag": tags[0] if tags else "", "source": source})
    return found
