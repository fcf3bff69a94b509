"""Chooses a release's wheel, its Python, and whether to leave out the CUDA libraries."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accel_lab.core.machine.environment import EnvironmentUnavailable, Release
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.environments.uv.slim import find_compiler

from .reader import Listing, list_wheels
from .releases import Wheel, choose_wheel, compiles_on, local_part, order, public, python_tag, releases_of


def has_gpu() -> bool:
    """Whether an NVIDIA driver is loaded; asks the system, because the lab itself has no torch."""
    return any(Path(name).exists() for name in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg"))


_ENOUGH = 0.75  # share of the releases that the best Python supports


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A release with the wheel and Python that are used on this machine."""

    release: Release
    wheel: Wheel
    python: str


class Chooser:
    """Reads the indexes' wheels once and chooses among them. Thread-safe."""

    def __init__(
        self,
        options: EnvironmentOptions,
        memory: Path,
        interpreters: Mapping[str, str],
        notes: list[str],
        *,
        gpu: bool,
    ) -> None:
        """``notes`` is appended to: lines for the user."""
        self.interpreters = interpreters
        self._options = options
        self._memory = memory
        self._notes = notes
        self._gpu = gpu
        self._listing: Listing | None = None
        self._lock = threading.Lock()

    def releases(self, *, pre: bool) -> list[Release]:
        """Returns the releases that a Python of this machine can run, oldest first."""
        pythons = [self._options.python] if self._options.python else list(self.interpreters)
        tags = {"py3", *(python_tag(version) for version in pythons)}
        found = releases_of(self._wheels(), self.line_python(), gpu=self._gpu)
        return [r for r in found if (pre or not r.prerelease) and tags.intersection(r.pythons)]

    def choose(self, version: str) -> Chosen:
        """Chooses the wheel and Python of a release. Raises :class:`EnvironmentUnavailable` if none fits."""
        wheels = [w for w in self._wheels() if order(public(w.version)) == order(public(version))]
        if local_part(version):
            wheels = [w for w in wheels if local_part(w.version) == local_part(version)]
        wheels = [w for w in wheels if w.fits_machine]
        if not wheels:
            notes = self._listing.notes if self._listing else []
            why = f" ({notes[0]})" if notes else ""
            raise EnvironmentUnavailable(f"the index has no torch {version} for this machine{why}")
        python = self._python_for(version, {tag for wheel in wheels for tag in wheel.pythons})
        wheel = choose_wheel(wheels, python, gpu=self._gpu)
        (release,) = releases_of(wheels, python, gpu=self._gpu) or (None,)
        if wheel is None or release is None:
            raise EnvironmentUnavailable(f"torch {version} has no wheel for Python {python} on this machine")
        return Chosen(release=release, wheel=wheel, python=python)

    def wants_slim(self, version: str) -> bool:
        """Whether to leave out the CUDA libraries: as the user asked, else without a GPU and a CPU build."""
        if self._options.slim != "auto":
            return self._options.slim == "yes"
        if local_part(version).startswith("cpu") or self._gpu or not sys.platform.startswith("linux"):
            return False
        if find_compiler() is None:
            note = "no C compiler (gcc) is here, so the CUDA libraries are installed too: gigabytes a release"
            self._notes += [note] if note not in self._notes else []
            return False
        return True

    def line_python(self) -> str:
        """Returns the line's Python: the lab's own, unless another supports many more releases."""
        if self._options.python:
            return self._options.python
        found = releases_of(self._wheels())
        counts = {
            python: sum(python_tag(python) in r.pythons and compiles_on(r.version, python) for r in found)
            for python in self.interpreters
        }
        own, best = next(iter(counts)), max(counts.values())
        if counts[own] >= _ENOUGH * best:
            return own
        return next(python for python, count in counts.items() if count == best)

    def size_of(self, version: str, python: str) -> int:
        """Returns the bytes of the wheel of an exact version, or 0 if the index does not say."""
        wheels = [wheel for wheel in self._wheels() if wheel.version == version]
        wheel = choose_wheel(wheels, python, gpu=self._gpu)
        return wheel.size_bytes if wheel else 0

    def _wheels(self) -> list[Wheel]:
        with self._lock:
            if self._listing is None:
                index, nightly = self._options.index, self._options.pre
                self._listing = list_wheels(index, "torch", nightly=nightly, memory=self._memory)
                self._notes += self._listing.notes
            listing = self._listing
        if not listing.wheels:
            why = listing.notes[0] if listing.notes else "no index that was queried has it"
            raise EnvironmentUnavailable(f"no release of torch is known: {why}")
        return listing.wheels

    def _python_for(self, version: str, tags: set[str]) -> str:
        """Returns the line's Python, or another local one if the release cannot run on that."""
        usual = self.line_python()
        others = [] if self._options.python else sorted(self.interpreters, key=order, reverse=True)
        able = [python for python in (usual, *others) if tags.intersection((python_tag(python), "py3"))]
        for python in [python for python in able if compiles_on(version, python)] or able:
            return python
        minors = sorted(int(tag[3:]) for tag in tags if tag.startswith("cp3") and tag[3:].isdigit())
        has = ", ".join(f"3.{minor}" for minor in minors) or "none"
        raise EnvironmentUnavailable(f"torch {version} has no wheel for Python {usual} (only for {has})")
