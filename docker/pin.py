"""Prints rows for docker/builds.toml: ``docker/pin.py 2.12.1``, resolved in the release's own week."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from packaging.utils import canonicalize_name

from accel_lab.core.errors import LabError
from accel_lab.core.machine.environment import EnvironmentUnavailable, Index
from accel_lab.core.machine.places import environments_folder
from accel_lab.environments.commands import Commands
from accel_lab.environments.docker.pinned_builds import TABLE, read_table
from accel_lab.environments.docker.wheels import digest
from accel_lab.environments.index.pip_settings import pip_index
from accel_lab.environments.index.reader import list_wheels
from accel_lab.environments.index.releases import (
    Wheel,
    choose_wheel,
    local_part,
    public,
    releases_of,
)
from accel_lab.environments.uv.eras import era_of
from accel_lab.environments.uv.provider import COMPANIONS
from accel_lab.environments.uv.slim import is_left_out
from accel_lab.environments.uv.tool import UvTool
from accel_lab.execution.processes import process


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("torch", nargs="+", help="releases of torch")
    parser.add_argument("--python", default="3.11", help="the Python of the base image (default: 3.11)")
    arguments = parser.parse_args()
    base = read_table(Path(__file__).with_name(TABLE))[-1].base
    try:
        for version in arguments.torch:
            print(row(version, arguments.python, base, pip_index()))
    except LabError as error:
        print(f"docker/pin.py: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def row(version: str, python: str, base: str, index: Index) -> str:
    """The row of one release: torch's wheels, the best first, and one of each companion."""
    builds = [wheel for wheel in list_wheels(index, "torch").wheels if public(wheel.version) == version]
    if not builds:
        raise EnvironmentUnavailable(f"the index has no torch {version}")
    release = releases_of(builds, python)[0]
    cpu = [wheel for wheel in builds if local_part(wheel.version) == "cpu"]
    plain = [wheel for wheel in builds if not local_part(wheel.version)]
    chosen = [wheel for group in (cpu, plain) if (wheel := choose_wheel(group, python, gpu=False))]
    tool = UvTool(Commands(process.run, 600.0), index, environments_folder() / "cache")
    with tempfile.TemporaryDirectory() as name:
        found = tool.resolve(
            [f"torch=={version}", *COMPANIONS],
            python=python,
            torch=version,
            version=python,
            era=era_of(release),
            undated=["torch"],
            held={},
            work=Path(name),
        )
    for line in found.lines:
        if canonicalize_name(line.name) != "torch" and not is_left_out(line.name):
            chosen.append(wheel_of(line.name, line.version, python, index))
    lines = [f'    {{ name = "{wheel.filename}", sha256 = "{sha256(wheel)}" }},' for wheel in chosen]
    head = {"version": version, "uploaded": release.uploaded, "python": python, "base": base}
    return "\n".join(
        ["[[build]]", *(f'{key} = "{value}"' for key, value in head.items()), "wheels = [", *lines, "]\n"]
    )


def sha256(wheel: Wheel) -> str:
    """The one that the index gives; a folder of wheels gives none."""
    return wheel.sha256 or digest(Path(wheel.source) / wheel.filename)


def wheel_of(project: str, version: str, python: str, index: Index) -> Wheel:
    """The wheel of a companion for this machine."""
    wheels = [wheel for wheel in list_wheels(index, project).wheels if wheel.version == version]
    chosen = choose_wheel(wheels, python, gpu=False)
    if chosen is None:
        raise EnvironmentUnavailable(f"{project} {version} has no wheel for Python {python} on this machine")
    return chosen


if __name__ == "__main__":
    sys.exit(main())
