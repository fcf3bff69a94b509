"""Maps a provider's name to the object that makes environments."""

from __future__ import annotations

import importlib
from types import TracebackType
from typing import Protocol

from accel_lab.core.errors import UsageError
from accel_lab.core.machine.environment import EnvironmentUnavailable, Provider

from .options import SLIM, EnvironmentOptions, Run

NAMES = ("local", "uv", "docker")


class OpenProvider(Provider, Protocol):
    """A provider that holds its environments until it is closed, and collects notes for the user."""

    notes: list[str]

    def close(self) -> None: ...

    def __enter__(self) -> OpenProvider: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def provider(name: str, options: EnvironmentOptions, run: Run) -> OpenProvider:
    """Returns the provider of that name. ``run`` starts its commands and has the arguments of
    ``process.run``.

    Raises :class:`UsageError` for an unknown name.
    """
    if options.slim not in SLIM:
        raise UsageError(f"slim is {' or '.join(SLIM)}, not {options.slim!r}")
    if name == "local":
        from .local import LocalProvider

        return LocalProvider(options, run)
    if name == "uv":
        from .uv.provider import UvProvider

        return UvProvider(options, run)
    if name == "docker":
        return _docker(options, run)
    raise UsageError(f"there is no provider {name!r}: use {', '.join(NAMES)}")


def _docker(options: EnvironmentOptions, run: Run) -> OpenProvider:
    try:
        module = importlib.import_module("accel_lab.environments.docker.provider")
    except ImportError as error:
        raise EnvironmentUnavailable(f"the docker provider cannot be loaded: {error}") from None
    made: OpenProvider = module.DockerProvider(options, run)
    return made
