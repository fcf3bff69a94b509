"""Environments: the specification, the key and the record of a torch build that probes run on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from accel_lab.core.errors import LabError
from accel_lab.core.record import Record, as_json, json_property


class EnvironmentUnavailable(LabError):
    """The environment cannot be created: no such release, no wheel, no network, no room, no daemon.

    The message is one line with the reason. A version search skips the release and goes on.
    """


@dataclass(frozen=True, kw_only=True)
class EnvironmentId:
    """Identifies where a probe runs: the user's own interpreter, or the environment of a release.

    ``text`` is part of a probe's key, by which the journal finds answers. ``release`` is empty for the user's
    own interpreter.
    """

    text: str = "local"
    release: str = ""

    @classmethod
    def of_interpreter(cls, python: str, torch: str) -> EnvironmentId:
        """Identifies the interpreter at the path ``python``."""
        return cls(text=f"{python} torch {torch}")

    @classmethod
    def of_release(cls, version: str, spec: EnvironmentSpec) -> EnvironmentId:
        """Identifies a torch release in a provider's environment."""
        return cls(text=f"torch {version} {spec.provider} {spec.key}", release=version)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class Index(Record):
    """Package indexes. An empty field means the installer's default.

    ``url`` is the main index; ``extra_urls`` and ``find_links`` add to it. ``ca_bundle`` is a file of CA
    certificates. ``nightly_url`` is an index of nightly builds.
    """

    url: str = ""
    extra_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    ca_bundle: str = ""
    nightly_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Release(Record):
    """A release of torch as the index lists it.

    ``uploaded`` is an ISO date (UTC), empty if unknown. ``pythons`` are the CPython tags (``cp311``) with a
    wheel for this machine. ``size_bytes`` is the size of the wheel for the line's Python, 0 if unknown.
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
    """The specification of an environment. ``key`` is a hash of it and names its folder or image.

    ``provider`` is ``local``, ``uv`` or ``docker``. ``python`` is a version (``3.11``), or the path of an
    interpreter for ``local``. ``packages`` are the script's own requirements. ``pins`` are companions held at
    a version (``("numpy", "1.26.4")``). ``exclude_newer`` is an ISO date; later uploads are ignored.
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
    @json_property(after="index")
    def key(self) -> str:
        """Hash of all fields, as sixteen hex digits."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    @property
    def label(self) -> str:
        """Short description for progress lines."""
        pinned = "".join(f" {name}=={version}" for name, version in self.pins)
        return f"torch {self.torch or '?'}{pinned} ({self.provider}{', slim' if self.slim else ''})"


@dataclass(frozen=True, kw_only=True)
class Environment(Record):
    """An existing environment. ``python`` is the interpreter to probe, inside the container for docker.

    ``provenance`` says what is in it (``packages``: name to version, ``wheels``, ``image digest``...).
    ``size_bytes`` is its disk usage beyond what it shares. ``seconds`` is the time to create it; 0.0, and
    ``cached``, if it existed.
    """

    spec: EnvironmentSpec
    python: str
    folder: str = ""
    provenance: dict[str, Any] = field(default_factory=dict)
    size_bytes: int = 0
    seconds: float = field(default=0.0, metadata=as_json(digits=3))
    cached: bool = False


class Provider(Protocol):
    """Interface to create environments of one kind. All methods raise :class:`EnvironmentUnavailable`."""

    @property
    def name(self) -> str: ...

    def releases(self, *, pre: bool = False) -> Sequence[Release]:
        """Returns the torch releases that this provider can install, oldest first."""

    def spec(self, version: str, *, pins: Sequence[tuple[str, str]] = ()) -> EnvironmentSpec:
        """Returns the specification of a release's environment; creates nothing."""

    def make(self, spec: EnvironmentSpec) -> Environment:
        """Returns the verified environment, creating it if needed. Safe across threads and processes."""
