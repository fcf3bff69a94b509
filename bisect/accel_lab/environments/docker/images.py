"""Lists, sizes, verifies and removes the images of pinned builds that the daemon keeps.

Only images with the lab's labels and only the lab's name count. The base, the lab's own image and all others
are read for shared layers and never changed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import docker.errors
from packaging.utils import canonicalize_name

from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.environments.commands import Commands
from accel_lab.environments.index.releases import public
from accel_lab.environments.options import Run
from accel_lab.environments.store.quick_check import ask_interpreter

from .build import BASE, IMAGE, MADE, PYTHON_AT, RECIPE_KEY, SLIM, TORCH, WHEELS
from .client import Connect, connector, daemon_errors, one_line
from .leftovers import is_leftover, remove_leftovers
from .pinned_builds import PinnedWheel
from .runner import DockerRunner
from .uses import forget_use, is_held, last_use, use_lock

#: Seconds: short for listing, so that a hanging daemon does not block it; longer for the rest.
QUICK_S, PATIENT_S = 3.0, 120.0
VERIFY_TIMEOUT_S = 600.0
_OURS = IMAGE.partition(":")[0] + ":"

#: A layer with all layers below it.
Layers = tuple[tuple[Any, ...], ...]


@dataclass(frozen=True, kw_only=True)
class KeptImage:
    """One image. ``used`` is when a lab with this store last ran in it, or None if unknown."""

    key: str
    names: tuple[str, ...]
    id: str
    size: int
    made: float
    used: float | None
    in_use: bool
    labels: Mapping[str, str]
    layers: Layers

    @property
    def slim(self) -> bool:
        return self.labels.get(SLIM) == "yes"

    @property
    def label(self) -> str:
        return f"torch {self.labels[TORCH]}{' slim' if self.slim else ''} image"

    @property
    def moment(self) -> float:
        """Time of the last known use; at least the time it was made."""
        return max(self.made, self.used or 0.0)

    @property
    def wheels(self) -> list[PinnedWheel]:
        """The wheels that it was made from."""
        found = json.loads(self.labels.get(WHEELS) or "{}")
        return [PinnedWheel(name=name, sha256=sha256) for name, sha256 in found.items()]

    @property
    def python(self) -> str:
        """Version of its Python, derived from the wheels' tags."""
        tags = [wheel.name.split("-")[-3] for wheel in self.wheels if wheel.project == "torch"]
        return f"{tags[0][2]}.{tags[0][3:]}" if tags and tags[0].startswith("cp3") else ""

    @property
    def provenance(self) -> dict[str, Any]:
        """The contents that its labels record."""
        torch = [wheel.version for wheel in self.wheels if wheel.project == "torch"]
        return {
            "torch": torch[0] if torch else self.labels[TORCH],
            "python": self.python,
            "id": self.id,
            "names": list(self.names),
            "base": self.labels.get(BASE, ""),
            "recipe": self.labels.get(RECIPE_KEY, ""),
            "wheels": {wheel.name: wheel.sha256 for wheel in self.wheels},
        }

    @property
    def seconds(self) -> float:
        try:
            return float(self.labels.get(MADE, ""))
        except ValueError:
            return 0.0


class ImageShelf:
    """The lab's images of one daemon; the folder ``store`` records their use.

    Raises :class:`EnvironmentUnavailable` if no daemon answers.
    """

    def __init__(self, store: Path, *, connect: Connect | None = None) -> None:
        self._store = store
        quick = connect or connector(timeout_s=QUICK_S)
        quick().close()  # fails fast without a daemon
        self._connect = connect or connector(timeout_s=PATIENT_S)
        self._entries, self._others = self._look()

    def entries(self) -> list[KeptImage]:
        """Returns the images, most recently used first."""
        return sorted(self._entries, key=lambda entry: -entry.moment)

    @property
    def own(self) -> dict[str, int]:
        """Bytes that no other image of the lab shares, by key."""
        return {
            entry.key: self._bytes([entry], [e for e in self._entries if e is not entry])
            for entry in self._entries
        }

    def takes(self, keys: Collection[str]) -> int:
        """Returns the bytes of these images together, without layers shared with images of others."""
        return self._bytes([entry for entry in self._entries if entry.key in keys], [])

    def _bytes(self, images: Collection[KeptImage], beside: Collection[KeptImage]) -> int:
        known = {place for layers in self._others for place in _places(layers)}
        known |= {place for entry in beside for place in _places(entry.layers)}
        mine = {place for entry in images for place in _places(entry.layers)}
        return sum(int(place[-1][-1]) for place in mine - known)

    # -- listing -------------------------------------------------------------------------------

    def _look(self) -> tuple[list[KeptImage], list[Layers]]:
        """Returns the lab's images, and the layers of all other images."""
        mine, others = [], []
        with closing(self._connect()) as client, daemon_errors("cannot list the images"):
            busy = _busy(client)
            for row in client.api.images():
                layers = _layers(client.api.history(row["Id"]))
                if not is_ours(row):
                    others.append(layers)
                    continue
                mine.append(self._entry(row, layers, busy))
        return mine, others

    def _entry(self, row: Mapping[str, Any], layers: Layers, busy: Collection[str]) -> KeptImage:
        names = tuple(sorted(row["RepoTags"]))
        used = last_use(self._store, row["Id"])
        return KeptImage(
            key=names[0],
            names=names,
            id=str(row["Id"]),
            size=int(row.get("Size") or 0),
            made=_moment(row.get("Created")),
            used=used,
            in_use=row["Id"] in busy or (used is not None and is_held(use_lock(self._store, row["Id"]))),
            labels=dict(row["Labels"]),
            layers=layers,
        )

    # -- removing ------------------------------------------------------------------------------

    def try_remove(self, key: str, *, dry_run: bool = False) -> bool:
        """Removes an image unless it is in use; returns whether it was (or would be) removed."""
        entry = next(entry for entry in self._entries if entry.key == key)
        with use_lock(self._store, entry.id) as lock:
            try:
                if not lock.take():
                    return False
            except OSError:
                pass  # a read-only store holds no locks
            with closing(self._connect()) as client, daemon_errors(f"cannot remove {key}"):
                if entry.id in _busy(client) or not self._is_still(client, entry):
                    return False
                if dry_run:
                    return True
                remove_leftovers(client)
                removed = _remove(client, entry.names)
            if removed:
                forget_use(self._store, entry.id)
            return removed

    def _is_still(self, client: Any, entry: KeptImage) -> bool:
        """Whether the image still has exactly these names; it may have been rebuilt."""
        now = {row["Id"]: row for row in client.api.images()}.get(entry.id)
        return now is not None and is_ours(now) and set(now["RepoTags"]) == set(entry.names)

    # -- verifying -----------------------------------------------------------------------------

    def verify(self, key: str) -> list[str]:
        """Runs the image's torch and compares its packages; returns what is wrong, one line each."""
        entry = next(entry for entry in self._entries if entry.key == key)
        python = entry.labels.get(PYTHON_AT) or "python3"
        try:
            runner = DockerRunner(
                connect=self._connect, image=entry.id, python=python, keep=self._store / "docker"
            )
            facts = ask_interpreter(Commands(cast(Run, runner), VERIFY_TIMEOUT_S), python, full=True)
        except EnvironmentUnavailable as error:
            return [str(error)]
        faults = []
        if public(facts["torch"]) != public(entry.labels[TORCH]):
            faults.append(f"it holds torch {facts['torch']}, not {entry.labels[TORCH]}")
        packages: dict[str, str] = facts.get("packages") or {}
        has: dict[str, str] = {canonicalize_name(name): version for name, version in packages.items()}
        for wheel in entry.wheels:
            if has.get(wheel.project) != wheel.version:
                faults.append(
                    f"it holds {wheel.project} {has.get(wheel.project, '(none)')}, not {wheel.version}"
                )
        return faults


def is_ours(row: Mapping[str, Any]) -> bool:
    """Whether an image, as the daemon lists it, is a pinned build of the lab.

    Images that a user builds upon one inherit its labels, and an image that the user named too is theirs;
    neither counts.
    """
    names = [name for name in row.get("RepoTags") or () if name != "<none>:<none>"]
    return TORCH in (row.get("Labels") or {}) and bool(names) and all(n.startswith(_OURS) for n in names)


def _busy(client: Any) -> set[str]:
    """Returns the images of all containers, running or not, except those that a killed lab left."""
    rows = client.api.containers(all=True)
    return {str(row.get("ImageID")) for row in rows if not is_leftover(row.get("Labels") or {})}


def _remove(client: Any, names: Collection[str]) -> bool:
    for name in names:
        try:
            client.images.remove(name)
        except docker.errors.ImageNotFound:
            continue
        except docker.errors.APIError as error:
            if error.status_code == 409:  # a container of it was made meanwhile
                return False
            raise EnvironmentUnavailable(f"cannot remove {name}: docker says: {one_line(error)}") from error
    return True


def _layers(history: Collection[Mapping[str, Any]]) -> Layers:
    """Returns the build steps with content, oldest first. Images that share a step share its time."""
    return tuple(
        (step.get("Created"), step.get("CreatedBy"), int(step["Size"]))
        for step in reversed(list(history))
        if step.get("Size")
    )


def _places(layers: Layers) -> Iterator[Layers]:
    """Yields each layer with those below it; the same step upon other layers is another layer."""
    return (layers[: count + 1] for count in range(len(layers)))


def _moment(created: Any) -> float:
    """Converts a time of the daemon's, a number or a text."""
    if isinstance(created, int | float):
        return float(created)
    try:
        return datetime.fromisoformat(str(created)[:19] + "+00:00").timestamp()
    except ValueError:
        return 0.0
