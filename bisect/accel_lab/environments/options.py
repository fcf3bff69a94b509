"""What providers are set up with: where packages come from, what the script needs, where to keep things."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_lab.core.ended import Ended
from accel_lab.core.machine.environment import Index
from accel_lab.core.machine.places import environments_folder
from accel_lab.core.record import Record

from .index.pip_settings import pip_index
from .index.reader import without_secrets

SLIM = ("auto", "yes", "no")


#: Runs a command; ``execution.process.run`` is one. This layer starts no process by itself.
Run = Callable[..., Ended]


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions(Record):
    """One value for all providers; each reads what concerns it.

    ``python``: the version that the whole line runs on (``3.11``); empty lets the provider choose the one,
    among those of this machine, that most releases have a wheel for. ``with_packages`` are requirements
    (``numpy<2``), ``with_requirements`` requirements files, ``script`` a script whose PEP 723 block is read.
    ``slim``: ``auto``, ``yes`` or ``no``. ``pre``: pre-releases and nightlies count. ``folder`` is the store.
    ``pythons`` are the interpreters of the ``local`` line. ``image`` (a name that holds ``{version}``),
    ``builds`` (a table of pinned builds), ``build_images`` (build those that are missing) and ``docker_host``
    are for docker.
    """

    python: str = ""
    index: Index = field(default_factory=Index)
    with_packages: tuple[str, ...] = ()
    with_requirements: tuple[Path, ...] = ()
    script: Path | None = None
    slim: str = "auto"
    pre: bool = False
    folder: Path = field(default_factory=environments_folder)
    pythons: tuple[str, ...] = ()
    build_timeout_s: float = 3600.0
    image: str = ""
    builds: Path | None = None
    build_images: bool = False
    docker_host: str = ""

    def to_json(self) -> dict[str, Any]:
        """Without the passwords of an index."""
        return Record.to_json(replace(self, index=without_secrets(self.index)))

    @classmethod
    def from_json(cls, data: Any) -> EnvironmentOptions:
        """The passwords are taken from pip's configuration again, if it names the same index."""
        read, now = super().from_json(data), pip_index()
        return replace(read, index=now) if without_secrets(now) == read.index else read
