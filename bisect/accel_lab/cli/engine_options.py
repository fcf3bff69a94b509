"""Defines ``--engine`` and ``--store``: where jobs run, and the folder through which their files travel."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from accel_lab.core.errors import UsageError
from accel_lab.engine.dask_engine import PREFIX, DaskEngine
from accel_lab.engine.dispatch import Dispatch
from accel_lab.engine.store import Store
from accel_lab.engine.worker import Worker

F = TypeVar("F", bound=Callable[..., Any])
LOCAL = "local"
#: Jobs submitted to a cluster at a time; enough for its scheduler to see the queue.
CLUSTER_JOBS = 128


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The address of a cluster's scheduler, and the URL of the store."""

    address: str
    store: str

    @property
    def name(self) -> str:
        return PREFIX + self.address


def chosen(engine: str | None, store: str | None) -> Cluster | None:
    """Returns the cluster that the options name, or None for this machine. Raises :class:`UsageError`."""
    if engine in (None, LOCAL):
        if store is not None and engine is None:
            raise UsageError("--store is the folder of a cluster: name its scheduler, --engine dask:ADDRESS")
        return None
    assert engine is not None
    address = engine.removeprefix(PREFIX)
    if address == engine or not address:
        raise UsageError(f"--engine {engine}: it is local, or dask:ADDRESS, as dask:tcp://host:8786")
    if not store:
        raise UsageError(
            f"--engine {engine} needs --store URL: a folder that this machine and the workers reach, such as "
            "file:///shared/accel-lab"
        )
    if store.startswith("memory:"):
        raise UsageError("--store memory:// is of one process only: name a folder that the workers reach too")
    if "://" not in store:  # a path: make it absolute, because workers have another working directory
        store = f"file://{os.path.abspath(store)}"
    return Cluster(address=address, store=store)


def release_engine_option(command: F) -> F:
    """Adds ``--engine`` to a command that runs releases; ``environment_options`` adds its ``--store``."""
    return click.option(
        "--engine",
        metavar="ENGINE",
        help="Where releases are run: local, or dask:ADDRESS, the scheduler of a cluster; with it --store is "
        "the URL of a folder that its workers reach too. [default: local]",
    )(command)


@contextmanager
def dispatching(cluster: Cluster, listener: Callable[[str], None]) -> Iterator[Dispatch]:
    """Opens the dispatch of jobs to a cluster's workers. ``listener`` gets a line for each fault."""
    store = Store(cluster.store, listener=listener)
    engine = DaskEngine(cluster.address)
    try:
        if not engine.workers:
            listener("no worker is connected to the scheduler: jobs wait for one")
        yield Dispatch(engine, store, Worker(store=cluster.store), listener=listener)
    finally:
        engine.close()
