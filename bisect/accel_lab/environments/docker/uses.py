"""Records which labs use an image and when it was last used, which the daemon does not.

Both are kept in the folder of environments. Containers exist only during runs, so without this an image that
a search needs would look unused between two runs.
"""

from __future__ import annotations

from pathlib import Path

from accel_lab.core.machine.locks import Lock


def use_lock(store: Path, image: str) -> Lock:
    """Returns the lock of an image by its id: shared by labs that run in it, exclusive for its removal."""
    return Lock(store / "locks" / f"image-{_short(image)}.lock")


def is_held(lock: Lock) -> bool:
    """Whether any process holds the lock."""
    with lock:
        try:
            return not lock.take()
        except OSError:
            return False


def note_use(store: Path, image: str) -> None:
    """Records that an image is used now."""
    file = _file(store, image)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    except OSError:
        pass  # a read-only store


def last_use(store: Path, image: str) -> float | None:
    """Returns the time of the last use, or None if unknown."""
    try:
        return _file(store, image).stat().st_mtime
    except OSError:
        return None


def forget_use(store: Path, image: str) -> None:
    """Removes the record of an image that is gone."""
    _file(store, image).unlink(missing_ok=True)


def _file(store: Path, image: str) -> Path:
    return store / "docker" / "used" / _short(image)


def _short(image: str) -> str:
    return image.rpartition(":")[2][:12]
