"""Builds the images of pinned builds: ``docker/build.py 2.13.0``; ``make docker-build`` runs it."""

from __future__ import annotations

import argparse
import sys

from accel_lab.core.errors import LabError
from accel_lab.environments.docker.provider import DockerProvider
from accel_lab.environments.options import EnvironmentOptions
from accel_lab.execution.processes import process


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("torch", nargs="+", help="releases that are in docker/builds.toml, or `all`")
    parser.add_argument("--base", default="", help="an image to build on, instead of the table's")
    parser.add_argument("--again", action="store_true", help="also if the image is there")
    arguments = parser.parse_args()
    provider = DockerProvider(
        EnvironmentOptions(),
        process.run,
        build=True,
        base=arguments.base,
        again=arguments.again,
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    try:
        versions = arguments.torch
        if versions == ["all"]:
            versions = [release.version for release in provider.releases()]
        for version in versions:
            made = provider.make(provider.spec(version))
            how = "was there" if made.cached else f"made in {made.seconds:.0f} s"
            print(f"{made.spec.image}: {how}, {made.size_bytes / 1e6:.0f} MB")
    except LabError as error:
        print(f"docker/build.py: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
