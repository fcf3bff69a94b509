"""What providers are set up with: where packages come from, what the script needs, where to keep things."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import platformdirs

from accel_lab.core.ended import Ended
from accel_lab.core.environment import Index

SLIM = ("auto", "yes", "no")


#: Runs a command; ``execution.process.run`` is one. This layer starts no process by itself.
Run = Callable[..., Ended]


def default_folder() -> Path:
    """Where environments are kept: under ``ACCEL_LAB_HOME`` or in the user's cache folder."""
    home = os.environ.get("ACCEL_LAB_HOME")
    return Path(home or platformdirs.user_cache_dir("accel-lab")) / "environments"


@dataclass(frozen=True, kw_only=True)
class EnvironmentOptions:
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
    folder: Path = field(default_factory=default_folder)
    pythons: tuple[str, ...] = ()
    build_timeout_s: float = 3600.0
    image: str = ""
    builds: Path | None = None
    build_images: bool = False
    docker_host: str = ""
