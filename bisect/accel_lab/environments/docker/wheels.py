"""Collects the wheels of a pinned build: pip downloads each once, its sha256 is checked, and it is kept."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import canonicalize_name

from accel_lab.core.machine.environment import EnvironmentUnavailable, Index
from accel_lab.environments.commands import Commands, plain_environment
from accel_lab.environments.explain import explain
from accel_lab.environments.index.pip_settings import NO_INDEX
from accel_lab.environments.index.releases import python_tag
from accel_lab.environments.uv.eras import era_of
from accel_lab.environments.uv.slim import add_stubs, is_left_out
from accel_lab.environments.uv.tool import UvTool

from .pinned_builds import Build, PinnedWheel, is_slim

_CHUNK = 1 << 20
# Platform tags for this machine, whatever machine and Python pip itself runs on.
_PLATFORMS = (
    "manylinux_2_28",
    "manylinux_2_27",
    "manylinux_2_24",
    "manylinux_2_17",
    "manylinux2014",
    "linux",
)


@dataclass(frozen=True, kw_only=True)
class Extra:
    """An image's additions to its row: companions at another version, and a script's packages."""

    pins: tuple[tuple[str, str], ...] = ()
    packages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.pins or self.packages)

    @property
    def text(self) -> str:
        return ", ".join([*(f"{name}=={version}" for name, version in self.pins), *self.packages])


class WheelShelf:
    """A folder of wheels by sha256; pip fills it from ``index`` or from its configured index."""

    def __init__(self, folder: Path, index: Index, commands: Commands) -> None:
        self._folder = folder
        self._index = index
        self._commands = commands

    def gather(self, build: Build, target: Path) -> list[PinnedWheel]:
        """Puts the wheels of a build (the first available torch) into ``target`` and returns them."""
        reasons = []
        for torch in build.torch:
            try:
                self.put(torch, build.python, target)
                break
            except EnvironmentUnavailable as error:
                reasons.append(str(error))
        else:
            raise EnvironmentUnavailable(f"torch {build.version} is not available: {'; '.join(reasons)}")
        for wheel in build.companions:
            self.put(wheel, build.python, target)
        return [torch, *build.companions]

    def put(self, wheel: PinnedWheel, python: str, target: Path) -> None:
        """Puts one wheel into ``target``; downloads it if it is not kept yet, and checks its sha256."""
        kept = self._folder / wheel.sha256 / wheel.name
        if not kept.is_file():
            with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
                wanted = Path(name, "wanted.txt")
                wanted.write_text(wheel.requirement + "\n", encoding="utf-8")
                options = ["--require-hashes", "--no-deps", "--requirement", str(wanted)]
                found = self._download(options, python, Path(name, "wheels"), wheel.name)
                if [path.name for path in found] != [wheel.name] or digest(found[0]) != wheel.sha256:
                    raise EnvironmentUnavailable(
                        f"{wheel.name}: pip downloaded {[p.name for p in found]} instead"
                    )
                kept.parent.mkdir(parents=True, exist_ok=True)
                part = kept.with_name(f".{os.getpid()}-{wheel.name}")
                shutil.move(found[0], part)
                os.replace(part, kept)  # atomically
        elif digest(kept) != wheel.sha256:
            shutil.rmtree(kept.parent)
            raise EnvironmentUnavailable(f"{wheel.name} had changed on the disk: removed, try again")
        place(kept, target / wheel.name)

    def resolve(self, extra: Extra, build: Build, torch: str, target: Path) -> list[PinnedWheel]:
        """Puts into ``target`` the wheels of ``extra`` that the build lacks or has at another version."""
        held = {wheel.project: wheel.version for wheel in build.companions}
        held.update((canonicalize_name(name), version) for name, version in extra.pins)
        tool = UvTool(self._commands, self._index, self._folder.parent / "cache")
        with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
            found = tool.resolve(
                [f"torch=={torch}", *extra.packages, *(project for project, _ in extra.pins)],
                python=build.python,
                torch=build.version,
                version=build.python,
                era=era_of(build.release()),
                undated=["torch"],
                held={**held, "torch": torch},
                work=Path(name),
            )
        has = {wheel.project: wheel.version for wheel in build.companions} | {"torch": torch}
        wheels = []
        for line in found.lines:
            project = canonicalize_name(line.name)
            if has.get(project) == line.version or is_left_out(project):
                continue
            with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
                options = ["--no-deps", f"{project}=={line.version}"]
                (path,) = self._download(options, build.python, Path(name, "wheels"), line.text)
                wheels.append(PinnedWheel(name=path.name, sha256=digest(path)))
                shutil.move(path, target / path.name)
        return wheels

    def _download(self, options: Sequence[str], python: str, folder: Path, what: str) -> list[Path]:
        machine = os.uname().machine
        tag = python_tag(python)
        command = [
            *(
                sys.executable,
                "-m",
                "pip",
                "download",
                "--disable-pip-version-check",
                "--no-input",
                "--quiet",
            ),
            *("--dest", str(folder), "--only-binary", ":all:", "--implementation", "cp"),
            *("--python-version", python, "--abi", tag, "--abi", "abi3", "--abi", "none"),
            *(word for platform in _PLATFORMS for word in ("--platform", f"{platform}_{machine}")),
            *index_options(self._index),
            *options,
        ]
        # The build pins every file itself, so a constraint from the machine's configuration does not apply.
        env = {**plain_environment(), "PIP_CONSTRAINT": ""}
        said = self._commands(command, env)
        if not said.ok:
            if "No module named pip" in said.stderr:
                raise EnvironmentUnavailable(f"{sys.executable} has no pip, which fetches the wheels")
            why = said.why or explain(_last_error(said.stderr), torch="", python=python)
            raise EnvironmentUnavailable(f"{what}: {why}")
        found = sorted(folder.glob("*.whl"))
        if not found:
            raise EnvironmentUnavailable(f"{what}: pip downloaded no wheel")
        return found


def index_options(index: Index) -> list[str]:
    """Returns the index as options of pip; empty if pip's own configuration applies."""
    options = ["--no-index"] if index.url == NO_INDEX else ["--index-url", index.url] if index.url else []
    for url in index.extra_urls:
        options += ["--extra-index-url", url]
    for place_ in index.find_links:
        options += ["--find-links", place_]
    return options + (["--cert", index.ca_bundle] if index.ca_bundle else [])


def _last_error(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.startswith("ERROR:")]
    return lines[-1].removeprefix("ERROR:").strip() if lines else stderr


def digest(path: Path) -> str:
    """Returns the sha256 of a file."""
    found = hashlib.sha256()
    with open(path, "rb") as stream:
        while chunk := stream.read(_CHUNK):
            found.update(chunk)
    return found.hexdigest()


def place(source: Path, target: Path) -> None:
    """Hard-links a file, or copies it to another disk."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def make_stubs(torch: Path, target: Path, commands: Commands) -> tuple[str, ...]:
    """Writes stubs for a torch wheel's CUDA libraries into ``target``; returns their names."""
    if not is_slim(PinnedWheel(name=torch.name, sha256="")):
        return ()
    with tempfile.TemporaryDirectory(prefix="accel-lab-") as name:
        site = Path(name)
        (site / "torch" / "lib").mkdir(parents=True)
        with zipfile.ZipFile(torch) as archive:
            for member in archive.namelist():
                if ".so" in member.rpartition("/")[2] and not member.startswith(("/", "..")):
                    archive.extract(member, site)
        made = add_stubs(site, commands)
        for library in made.libraries:
            shutil.copyfile(site / "torch" / "lib" / library, target / library)
    return made.libraries
