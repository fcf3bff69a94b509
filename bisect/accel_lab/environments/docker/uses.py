"""Who uses an image of the lab now, and when it was used last: the daemon remembers neither.

Both are kept in the folder of environments: containers come and go with each run, and between two runs an
image that a search needs would look forgotten.
"""

from __future__ import annotations

from pathlib import Path

from accel_lab.core.machine.locks import Lock


def use_lock(store: Path, image: str) -> Lock:
    """The lock of an image by its id: shared while a lab may run in it, exclusive to remove it."""
    return Lock(store / "locks" / f"image-{_short(image)}.lock")


def is_held(lock: Lock) -> bool:
    """Whether anyone has it."""
    with lock:
        try:
            return not lock.take()
        except OSError:
            return False


def note_use(store: Path, image: str) -> None:
    """Note that an image is used now."""
    file = _file(store, image)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError:
        pass  # a store that may only be read


def last_use(store: Path, image: str) -> float | None:
    """When it was; None if that is not known."""
    try:
        return _file(store, image).stat().st_mtime
    except OSError:
        return None


def forget_use(store: Path, image: str) -> None:
    """The image is gone."""
    _file(store, image).unlink(missing_ok=True)


def _file(store: Path, image: str) -> Path:
    return store / "docker" / "used" / _short(image)


def _short(image: str) -> str:
    return image.rpartition(":")[2][:12]
