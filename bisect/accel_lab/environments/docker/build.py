"""Builds the image of a row of the table from verified wheels; labels record the contents."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker.errors

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.machine.locks import Lock
from accel_lab.environments.commands import Commands

from .client import LABEL, Connect, daemon_errors, one_line
from .pinned_builds import RECIPE, Build, PinnedWheel
from .uses import forget_use, use_lock
from .wheels import Extra, WheelShelf, make_stubs

IMAGE = "accel-lab-torch:{version}"
# Made by `make docker-base` and preferred if it exists, because the table's base may be unreachable.
OWN_BASE = "accel-lab-base:bookworm"
PYTHON = "/opt/torch/bin/python"
COMPANIONS = "Dockerfile.companions"
TORCH, RECIPE_KEY, PYTHON_AT = f"{LABEL}.torch", f"{LABEL}.recipe", f"{LABEL}.python"
WHEELS, BASE, SLIM, MADE = f"{LABEL}.wheels", f"{LABEL}.base-id", f"{LABEL}.slim", f"{LABEL}.seconds"
STAGE = f"{LABEL}.stage=build"
BUILD_TIMEOUT_S = 1800
Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class ImageBuilder:
    """Builds images from the table in ``folder``; ``shelf`` keeps the wheels, ``store`` the locks.

    ``base`` replaces the base of every row. ``connect`` must return a client with a long timeout.
    """

    connect: Connect
    folder: Path
    shelf: WheelShelf
    commands: Commands
    store: Path
    base: str = ""
    say: Say = lambda line: None

    def build(self, build: Build, image: str) -> str:
        """Builds the image of a row, replacing one of that name; returns its id."""
        began = time.monotonic()
        with self._alone(image), closing(self.connect()) as client, _context() as context:
            base = self._base(client, build)
            for name in ("wheels", "stubs"):
                (context / name).mkdir()
            self.say(f"{image}: the wheels")
            wheels = self.shelf.gather(build, context / "wheels")
            stubs = make_stubs(context / "wheels" / wheels[0].name, context / "stubs", self.commands)
            _write_requirements(context, wheels)
            shutil.copyfile(self.folder / RECIPE, context / RECIPE)
            self.say(f"{image}: the image, on {base}")
            return self._run(
                client,
                context,
                image,
                {"BASE": base},
                {
                    TORCH: build.version,
                    RECIPE_KEY: build.recipe,
                    PYTHON_AT: PYTHON,
                    WHEELS: json.dumps({wheel.name: wheel.sha256 for wheel in wheels}),
                    BASE: self._id_of(client, base),
                    SLIM: "yes" if stubs else "no",
                    MADE: f"{time.monotonic() - began:.1f}",
                },
            )

    def extend(self, build: Build, onto: str, extra: Extra, image: str) -> str:
        """Builds an image upon ``onto`` with other companions or with a script's packages; returns its id."""
        began = time.monotonic()
        with self._alone(image), closing(self.connect()) as client, _context() as context:
            (context / "wheels").mkdir()
            with daemon_errors(f"cannot look at {onto}"):
                labels = dict(client.images.get(onto).labels)
            has = [PinnedWheel(name=name, sha256="") for name in json.loads(labels.get(WHEELS, "{}"))]
            torch = next((wheel.version for wheel in has if wheel.project == "torch"), build.version)
            self.say(f"{image}: {extra.text}")
            wheels = self.shelf.resolve(extra, build, torch, context / "wheels")
            shutil.copyfile(self.folder / COMPANIONS, context / RECIPE)
            added = {wheel.name: wheel.sha256 for wheel in wheels}
            labels[WHEELS] = json.dumps({**_others(labels.get(WHEELS, "{}"), wheels), **added})
            labels[MADE] = f"{time.monotonic() - began:.1f}"
            return self._run(client, context, image, {"BUILD": onto}, labels)

    def _base(self, client: Any, build: Build) -> str:
        """Returns the base that was asked for, else the local one if there is one, else the table's."""
        if self.base:
            return self.base
        try:
            client.images.get(OWN_BASE)
            return OWN_BASE
        except docker.errors.ImageNotFound:
            return build.base

    @staticmethod
    def _id_of(client: Any, image: str) -> str:
        try:
            return str(client.images.get(image).id)
        except docker.errors.ImageNotFound:
            return image  # the build pulls it; its name contains the digest

    def _run(
        self, client: Any, context: Path, image: str, arguments: dict[str, str], labels: dict[str, str]
    ) -> str:
        with daemon_errors(f"cannot build {image}"):
            before = self._id_of(client, image)
            try:
                built, _ = client.images.build(
                    path=str(context), tag=image, buildargs=arguments, labels=labels, rm=True, forcerm=True
                )
            except docker.errors.BuildError as error:
                raise EnvironmentUnavailable(f"cannot build {image}: {_failure(error)}") from error
            # Each row leaves a stage with the wheels, which is larger than the image.
            client.images.prune(filters={"dangling": True, "label": STAGE})
            if before not in (image, built.id):
                self._remove_nameless(client, before)
        return str(built.id)

    def _remove_nameless(self, client: Any, key: str) -> None:
        """Removes an image that lost its name to a new build, unless it is in use or has another name."""
        with use_lock(self.store, key) as lock:
            try:
                if lock.take() and not client.images.get(key).tags:
                    client.images.remove(key)
                    forget_use(self.store, key)
            except (docker.errors.APIError, OSError):
                return  # a container or another image uses it

    @contextmanager
    def _alone(self, image: str) -> Iterator[None]:
        """Holds the lock for builds of this name; raises EnvironmentUnavailable if that takes too long."""
        name = "".join(letter if letter.isalnum() else "-" for letter in image)
        with Lock(self.store / "locks" / f"image-{name}.lock") as lock:
            if not lock.take(wait_s=BUILD_TIMEOUT_S):
                raise EnvironmentUnavailable(f"another lab is building {image} and does not come to an end")
            yield


@contextmanager
def _context() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="accel-lab-build-") as name:
        yield Path(name)


def _write_requirements(context: Path, wheels: Sequence[PinnedWheel]) -> None:
    text = "".join(f"{wheel.requirement}\n" for wheel in wheels)
    (context / "requirements.txt").write_text(text, encoding="utf-8")


def _others(known: str, wheels: Sequence[PinnedWheel]) -> dict[str, str]:
    """Returns the image's wheels without those of projects that are replaced."""
    replaced = {wheel.project for wheel in wheels}
    pinned = [PinnedWheel(name=name, sha256=sha256) for name, sha256 in json.loads(known).items()]
    return {wheel.name: wheel.sha256 for wheel in pinned if wheel.project not in replaced}


def _failure(error: docker.errors.BuildError) -> str:
    """Returns the reason of a failed build: the last output of the failing step, then the error."""
    lines = [str(part.get("stream", "")).strip() for part in error.build_log]
    said = [line for line in lines if line and not line.startswith(("Step ", "--->", "Removing"))]
    return (said[-1][:200] + "; " if said else "") + one_line(error)
