"""The engine for Dask: connects to a scheduler and submits jobs to its workers."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from accel_lab.core.errors import LabError, UsageError
from accel_lab.core.text import shorten

#: Seconds in which a scheduler must answer the first connection.
CONNECT_S = 10.0
PREFIX = "dask:"


class DaskEngine:
    """A client of an existing scheduler.

    ``address`` is ``tcp://host:8786`` or the path of a scheduler file (``.json``). Raises :class:`UsageError`
    if ``distributed`` is not installed, :class:`LabError` if the address does not answer.
    """

    def __init__(self, address: str, *, connect_s: float = CONNECT_S) -> None:
        self.name = PREFIX + address
        self._client = _connected(address, connect_s)
        # Impure: submitting the same call again is another attempt, not the cached answer.
        self._executor = self._client.get_executor(pure=False)

    @property
    def workers(self) -> int:
        """Number of workers that are connected now."""
        return len(self._addresses())

    def submit(
        self, function: Callable[[str], str], text: str, *, key: str, avoid: Sequence[str]
    ) -> Future[str]:
        others = [one for one in self._addresses() if one not in avoid] if avoid else []
        # Not strict: a worker that leaves must not keep the job waiting.
        where = {"workers": others, "allow_other_workers": True} if others else {}
        future: Future[str] = self._executor.submit(function, text, key=key, **where)
        return future

    def close(self) -> None:
        self._client.close(timeout=2)

    def _addresses(self) -> list[str]:
        return list(self._client.scheduler_info()["workers"])


def _quiet() -> None:
    """Silences Dask's loggers, each of which has its own level; the lab itself reports faults."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith(("distributed", "tornado"))]
    for name in ("distributed", *names):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _connected(address: str, connect_s: float) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise UsageError(
            "--engine dask needs distributed, which is not installed here: pip install 'accel-lab[cluster]'"
        ) from None
    _quiet()
    where = {"scheduler_file": address} if address.endswith(".json") else {"address": address}
    if "scheduler_file" in where and not Path(address).is_file():
        raise UsageError(f"--engine {PREFIX}{address}: there is no such scheduler file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Client(**where, timeout=connect_s, set_as_default=False)
    except Exception as error:  # an unknown host, a closed port, or no scheduler
        said = shorten(" ".join(str(error).split()) or type(error).__name__, 160)
        raise LabError(
            f"no Dask scheduler answers at {address} ({said}): start one with `dask scheduler`, or name "
            "another with --engine dask:ADDRESS"
        ) from None


__all__ = ["PREFIX", "DaskEngine"]
