"""Reads the earlier bench.json of ``accel-lab bench --compare``, and prints ``accel-lab bench --list``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from accel_lab.cli.streams import print_json
from accel_lab.core.benchmark import SCHEMA, BenchmarkComparison, Measurement
from accel_lab.core.errors import UsageError
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.search.timeline.bench_regression import BaseRow, Key, compared
from accel_lab.workloads import registry
from accel_lab.workloads.measure import Settings

#: Settings that two benchmarks must share to be compared.
SHARED = ("size", "device", "dtype", "train", "seed")
_MOST_BYTES = 64 * 1024 * 1024
#: Required shape of a bench.json, as far as it is read.
_SHAPE = {
    "schema": str,
    "settings": object,
    "environment?": object,
    "rows": [
        {"model": str, "backend": str, "standing": str, "samples_ms": [float], "eager_samples_ms": [float]}
    ],
}


@dataclass(frozen=True, kw_only=True)
class Base:
    """An earlier benchmark, reduced to what a comparison needs."""

    path: Path
    torch: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[Key, BaseRow] = field(default_factory=dict)

    def must_suit(self, settings: Settings) -> None:
        """Raises :class:`UsageError` if the earlier benchmark used other settings."""
        ours = settings.to_json()
        for name in SHARED:
            if name in self.settings and self.settings[name] != ours[name]:
                raise UsageError(
                    f"{self.path} was measured with {name} {self.settings[name]!r}, this run has "
                    f"{ours[name]!r}: their times cannot be compared"
                )

    def against(self, rows: Sequence[Measurement]) -> BenchmarkComparison:
        """Compares ``rows``, the new measurements, with this benchmark."""
        return BenchmarkComparison(base=str(self.path), torch=self.torch, rows=compared(rows, self.rows))


def read_base(path: Path) -> Base:
    """Reads a bench.json, which may come from a stranger. Raises :class:`UsageError` if it is not one."""
    try:
        found = ChildFiles(path.parent).json(path.name, _SHAPE, most=_MOST_BYTES)
    except UntrustedFileError as error:
        raise UsageError(f"--compare takes the bench.json of an earlier run: {error}") from None
    if found is None:
        raise UsageError(f"there is no file {path}: --compare takes the bench.json of an earlier run")
    if found["schema"] != SCHEMA:
        raise UsageError(
            f"{path} is not a benchmark of this version: its schema is {found['schema'][:100]!r}"
        )
    environment, settings = found.get("environment"), found["settings"]
    rows = {
        (row["model"], row["backend"]): BaseRow(
            standing=row["standing"],
            samples_ms=tuple(row["samples_ms"]),
            eager_samples_ms=tuple(row["eager_samples_ms"]),
        )
        for row in found["rows"]
    }
    torch = environment.get("torch", "") if isinstance(environment, dict) else ""
    return Base(
        path=path,
        torch=str(torch)[:100],
        settings=settings if isinstance(settings, dict) else {},
        rows=rows,
    )


def show_list(*, as_json: bool) -> None:
    """Prints the models with the packages they need, and the backends."""
    models = [
        {"name": model.name, "title": model.title, "needs": list(model.needs)}
        for model in registry.MODELS.values()
    ]
    backends = [{"name": one.name, "title": one.title} for one in registry.BACKENDS.values()]
    if as_json:
        print_json({"models": models, "backends": backends})
        return
    rows = [(m["name"], m["title"], ", ".join(m["needs"]) or "torch alone") for m in models]
    click.echo(tabulate(rows, headers=("model", "what it is", "needs"), tablefmt="simple"))
    click.echo()
    click.echo(tabulate([(b["name"], b["title"]) for b in backends], headers=("backend", "what it is")))
    click.echo("\nEvery adapter that a package of the probed environment registers is a backend too.")
