"""Options of the providers: package sources, the script's requirements, and the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accel_lab.core.machine.environment import Index
from accel_lab.core.machine.places import environments_folder
from accel_lab.core.process_exit import ProcessExit
from accel_lab.core.record import Record

from .index.pip_settings import pip_index
from .index.reader import without_secrets

SLIM = ("auto", "yes", "no")


#: Runs a command, as ``execution.process.run`` does; this layer starts no process itself.
Run = Callable[..., ProcessExit]


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions(Record):
    """Options for all providers; each provider reads the ones that it needs.

    ``python`` is the version for the whole line (``3.11``); if empty, the provider chooses the local one for
    which most releases have a wheel. ``with_packages`` are requirements (``numpy<2``), ``with_requirements``
    requirements files, ``script`` a script whose PEP 723 block is read. ``slim`` is ``auto``, ``yes`` or
    ``no``. ``pre`` includes pre-releases and nightlies. ``folder`` is the store. ``pythons`` are the
    interpreters of the ``local`` line. ``image`` (a name with ``{version}``), ``builds`` (a table of pinned
    builds), ``build_images`` (build missing ones) and ``docker_host`` are for docker.
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
        """Converts to JSON without the passwords of an index."""
        return Record.to_json(replace(self, index=without_secrets(self.index)))

    @classmethod
    def from_json(cls, data: Any) -> EnvironmentOptions:
        """Reads JSON; takes the passwords from pip's configuration if it names the same index."""
        read, now = super().from_json(data), pip_index()
        return replace(read, index=now) if without_secrets(now) == read.index else read
