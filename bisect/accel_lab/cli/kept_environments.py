"""Lists and checks the environments for ``accel-lab env``: those of the store, images of docker, or both."""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accel_lab.cli.settings import read_settings
from accel_lab.core.machine.environment import EnvironmentUnavailable
from accel_lab.core.machine.places import environments_folder
from accel_lab.environments.store.folder import Entry, Store
from accel_lab.environments.store.pruning import Census
from accel_lab.environments.store.thorough_check import verify_entry
from accel_lab.execution.processes import process

if TYPE_CHECKING:
    from accel_lab.environments.docker.images import ImageShelf, KeptImage


class KeptEnvironments:
    """The environments of the store, the images of the docker daemon, or both."""

    def __init__(self, store: str | None, provider: str | None, config: str | None = None) -> None:
        settings = read_settings(config)
        self._there = _store(store or settings.text("store"))
        self.folder = self._there.folder
        self.store = None if provider == "docker" else self._there
        self.images: ImageShelf | None = None
        if provider == "docker" or (provider is None and store is None):
            self.images = _images(
                self.folder,
                wanted=provider == "docker",
                configured=settings.text("provider") == "docker",
            )
        self._entries = {entry.key: entry for entry in self.store.entries()} if self.store else {}
        self._kept = {entry.key: entry for entry in self.images.entries()} if self.images else {}

    @property
    def keys(self) -> list[str]:
        return [*self._entries, *self._kept]

    @property
    def places(self) -> str:
        """Where they are kept, in words."""
        places = [str(self.folder)] if self.store is not None else []
        return " and ".join([*places, *(["docker"] if self.images is not None else [])])

    def label(self, key: str) -> str:
        return self._entries[key].label if key in self._entries else self._kept[key].label

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each environment, the most recently used first."""
        rows = []
        if self._census is not None:
            usage = self._census.environments
            for entry in self._entries.values():
                sizes = usage.get(entry.key)
                row = {"bytes": sizes.total if sizes else 0, "own_bytes": sizes.own if sizes else 0}
                rows.append((entry.moment, {**_row(entry), **row}))
        if self.images is not None:
            own = self.images.own
            for image in self._kept.values():
                rows.append((image.moment, {**_image_row(image), "own_bytes": own[image.key]}))
        return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]

    @functools.cached_property
    def _census(self) -> Census | None:
        return Census(self.store) if self.store is not None else None

    @property
    def bytes(self) -> int:
        """Bytes of all environments together."""
        return sum(taken for taken, _ in self.summary)

    @property
    def summary(self) -> list[tuple[int, str]]:
        """Bytes and description of each place."""
        lines = []
        if self._census is not None:
            lines.append((self._census.together, f"in {self.folder}, downloads included"))
        if self.images is not None and self._kept:
            taken = self.images.takes(self._kept)
            lines.append((taken, "in docker, without the layers that other images have too"))
        return lines

    def verify(self, key: str) -> list[str]:
        if key in self._entries:
            return verify_entry(self._entries[key], process.run)
        assert self.images is not None
        return self.images.verify(key)

    def try_remove(self, key: str) -> bool:
        if key in self._entries:
            return self._there.try_remove(key)
        assert self.images is not None
        return self.images.try_remove(key)


def _images(folder: Path, *, wanted: bool, configured: bool) -> ImageShelf | None:
    """Returns the images of the daemon, or None if there is no daemon.

    With ``wanted`` a missing daemon raises EnvironmentUnavailable. With ``configured`` it is noted on
    standard error.
    """
    try:
        from accel_lab.environments.docker.images import ImageShelf
    except ImportError as error:
        if wanted:
            raise EnvironmentUnavailable(f"the docker provider cannot be loaded: {error}") from None
        return None
    try:
        return ImageShelf(folder)
    except EnvironmentUnavailable as error:
        if wanted:
            raise
        if configured:
            sys.stderr.write(f"note: {error}\n")
        return None


def _store(named: str) -> Store:
    return Store(Path(named).expanduser().resolve() if named else environments_folder())


def _row(entry: Entry) -> dict[str, Any]:
    provenance, spec = entry.manifest.get("provenance", {}), entry.manifest.get("spec", {})
    return {
        "key": entry.key,
        "provider": "uv",
        "torch": provenance.get("torch", spec.get("torch", "")),
        "python": provenance.get("python", spec.get("python", "")),
        "slim": bool(spec.get("slim")),
        "era": provenance.get("era", ""),
        "made": entry.made,
        "used": entry.used,
        "in_use": entry.in_use,
        "seconds": entry.manifest.get("seconds", 0.0),
        "folder": str(entry.folder),
        "provenance": provenance,
        "spec": spec,
    }


def _image_row(image: KeptImage) -> dict[str, Any]:
    provenance = image.provenance
    return {
        "key": image.key,
        "provider": "docker",
        "torch": provenance["torch"],
        "python": provenance["python"],
        "slim": image.slim,
        "era": "pinned",
        "bytes": image.size,
        "made": image.made,
        "used": image.used,
        "in_use": image.in_use,
        "seconds": image.seconds,
        "folder": "",
        "provenance": provenance,
        "spec": {},
    }
