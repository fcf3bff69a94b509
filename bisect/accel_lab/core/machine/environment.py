"""An environment: what a probed build of torch is made of, described before it is made, hence with a key."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from accel_lab.core.errors import LabError
from accel_lab.core.record import Record, as_json, written


class EnvironmentUnavailable(LabError):
    """This environment cannot be had: no such release, no wheel, no network, no room, no daemon.

    The message is one line that says why. A version search skips the release and goes on.
    """


@dataclass(frozen=True, kw_only=True)
class EnvironmentId:
    """Where a probe runs: the user's own interpreter, or the environment of a release on a line.

    ``text`` goes into a probe's key, so answers in a journal are found by it. ``release`` is empty for an
    interpreter of the user's own.
    """

    text: str = "local"
    release: str = ""

    @classmethod
    def of_interpreter(cls, python: str, torch: str) -> EnvironmentId:
        """The interpreter at the path ``python``."""
        return cls(text=f"{python} torch {torch}")

    @classmethod
    def of_release(cls, version: str, spec: EnvironmentSpec) -> EnvironmentId:
        """A release of torch in the environment that a provider built."""
        return cls(text=f"torch {version} {spec.provider} {spec.key}", release=version)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class Index(Record):
    """Where packages come from. Empty fields are the installer's own default.

    ``url`` is the main index, ``extra_urls`` and ``find_links`` stand beside it, ``ca_bundle`` is a file of
    CA certificates, ``nightly_url`` an index of nightly builds.
    """

    url: str = ""
    extra_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    ca_bundle: str = ""
    nightly_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Release(Record):
    """A release of torch as the index lists it. ``uploaded`` is an ISO date (UTC), empty where unknown.

    ``pythons`` are the CPython tags (``cp311``) that a wheel for this machine exists for; ``size_bytes`` is
    that of the wheel for the line's Python, 0 where unknown.
    """

    version: str
    uploaded: str = ""
    pythons: tuple[str, ...] = ()
    size_bytes: int = 0
    sha256: str = ""
    prerelease: bool = False
    yanked: bool = False


@dataclass(frozen=True, kw_only=True)
class EnvironmentSpec(Record):
    """What an environment is made from; ``key`` names its folder or image and is the same for the same spec.

    ``provider`` is ``local``, ``uv`` or ``docker``. ``python`` is a version (``3.11``), for ``local`` the
    path of an interpreter. ``packages`` are the script's own requirements, ``pins`` companions that are held
    at a version (``("numpy", "1.26.4")``), ``exclude_newer`` an ISO date: nothing uploaded later is taken.
    ``slim``: without the CUDA libraries, for runs on the CPU. ``image`` is a docker image by name or digest.
    """

    provider: str
    torch: str = ""
    python: str = ""
    packages: tuple[str, ...] = ()
    pins: tuple[tuple[str, str], ...] = ()
    exclude_newer: str = ""
    slim: bool = False
    image: str = ""
    index: Index = field(default_factory=Index)

    @property
    @written(after="index")
    def key(self) -> str:
        """Sixteen hex digits over everything that the environment is made from."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """How a person would call it in a progress line."""
        pinned = "".join(f" {name}=={version}" for name, version in self.pins)
        return f"torch {self.torch or '?'}{pinned} ({self.provider}{', slim' if self.slim else ''})"


@dataclass(frozen=True, kw_only=True)
class Environment(Record):
    """An environment that is there. ``python`` is the interpreter to probe, inside the container for docker.

    ``provenance`` says what is in it (``packages``: name to version, ``wheels``, ``image digest``...).
    ``size_bytes`` is what it takes on disk beyond what it shares, ``seconds`` what making it took; 0.0 and
    ``cached`` where it was there already.
    """

    spec: EnvironmentSpec
    python: str
    folder: str = ""
    provenance: dict[str, Any] = field(default_factory=dict)
    size_bytes: int = 0
    seconds: float = field(default=0.0, metadata=as_json(digits=3))
    cached: bool = False


class Provider(Protocol):
    """Makes environments of one kind. All methods raise :class:`EnvironmentUnavailable` in one line."""

    @property
    def name(self) -> str: ...

    def releases(self, *, pre: bool = False) -> Sequence[Release]:
        """The releases of torch that this provider can make, oldest first."""

    def spec(self, version: str, *, pins: Sequence[tuple[str, str]] = ()) -> EnvironmentSpec:
        """What the environment of a release would be made from; nothing is made yet."""

    def make(self, spec: EnvironmentSpec) -> Environment:
        """The environment, verified; made if it is not there. Safe with several threads and processes."""
