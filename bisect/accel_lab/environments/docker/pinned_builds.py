"""Reads the table of pinned builds (``docker/builds.toml``): the wheels from which each image is made."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

import accel_lab
from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import Release
from accel_lab.core.untrusted.settings_files import parse_toml
from accel_lab.environments.index.releases import (
    Wheel,
    local_part,
    order,
    python_tag,
    read_wheel_name,
)

TABLE, RECIPE = "builds.toml", "Dockerfile"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class PinnedWheel:
    """One wheel of a build."""

    name: str
    sha256: str

    @property
    def project(self) -> str:
        return canonicalize_name(self.name.partition("-")[0])

    @property
    def version(self) -> str:
        return self.name.split("-")[1]

    @property
    def requirement(self) -> str:
        """The line of a requirements file that only this wheel satisfies."""
        return f"{self.project}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True, kw_only=True)
class Build:
    """One row of the table: a release of torch with its Python, base image and companions."""

    version: str
    python: str
    base: str
    uploaded: str
    wheels: tuple[PinnedWheel, ...]

    @property
    def torch(self) -> tuple[PinnedWheel, ...]:
        """The acceptable wheels of torch, the best first."""
        return tuple(wheel for wheel in self.wheels if wheel.project == "torch")

    @property
    def companions(self) -> tuple[PinnedWheel, ...]:
        return tuple(wheel for wheel in self.wheels if wheel.project != "torch")

    @property
    def recipe(self) -> str:
        """Twelve hex digits over the row's contents, which identify images made from an older row."""
        text = json.dumps([self.version, self.python, sorted((w.name, w.sha256) for w in self.wheels)])
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def release(self) -> Release:
        """Converts the row to a :class:`Release`."""
        return Release(
            version=self.version,
            uploaded=self.uploaded,
            pythons=(python_tag(self.python),),
            sha256=self.torch[0].sha256,
        )


def is_slim(wheel: PinnedWheel) -> bool:
    """Whether a wheel of torch needs accelerator libraries, which a pinned build does not contain."""
    return not local_part(wheel.version).startswith("cpu")


def find_folder(named: Path | None = None) -> Path | None:
    """Returns the folder of the table and Dockerfile: that of ``named``, the checkout's or the installed one.

    None if there is none. Raises :class:`UsageError` if ``named`` is not a file.
    """
    if named is not None:
        if not named.is_file():
            raise UsageError(f"no table of pinned builds at {named}")
        return named.parent
    package = Path(accel_lab.__file__).resolve().parent
    for folder in (package.parents[1] / "docker", Path(sys.prefix) / "share" / "accel-lab" / "docker"):
        if (folder / TABLE).is_file():
            return folder
    return None


def read_table(path: Path) -> list[Build]:
    """Reads the rows, oldest release first. Raises :class:`UsageError` for an invalid row."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    rows = parse_toml(text, str(path)).get("build", [])
    builds = [_build(row, f"{path}, row {number}") for number, row in enumerate(rows, 1)]
    doubled = {one.version for one in builds if sum(one.version == other.version for other in builds) > 1}
    if doubled:
        raise UsageError(f"{path}: more than one row of {', '.join(sorted(doubled))}")
    return sorted(builds, key=lambda build: order(build.version))


def _build(row: Any, where: str) -> Build:
    for key in ("version", "python", "base"):
        if not isinstance(row, dict) or not isinstance(row.get(key), str):
            raise UsageError(f"{where}: `{key}` is missing")
    build = Build(
        version=row["version"],
        python=row["python"],
        base=row["base"],
        uploaded=str(row.get("uploaded", "")),
        wheels=tuple(_wheels(row.get("wheels", []), where)),
    )
    if not build.torch:
        raise UsageError(f"{where}: no wheel of torch")
    wrong = [wheel.name for wheel in build.torch if wheel.version.partition("+")[0] != build.version]
    if wrong:
        raise UsageError(f"{where}: {wrong[0]} is not torch {build.version}")
    return build


def _wheels(rows: Any, where: str) -> Iterator[PinnedWheel]:
    for row in rows:
        name, digest = (str(row.get(key, "")) for key in ("name", "sha256"))
        parsed: Wheel | None = read_wheel_name(name, name.partition("-")[0])
        if parsed is None or "/" in name:
            raise UsageError(f"{where}: {name!r} is not the name of a wheel")
        if not _SHA256.fullmatch(digest):
            raise UsageError(f"{where}: the sha256 of {name} is missing or not 64 hex digits")
        yield PinnedWheel(name=name, sha256=digest)
