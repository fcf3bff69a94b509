"""What ``accel-lab bench`` compares with, an earlier bench.json, and what it lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from tabulate import tabulate

from accel_lab.cli.streams import print_json
from accel_lab.core.benchmark import SCHEMA, Compared, Measurement
from accel_lab.core.errors import UsageError
from accel_lab.core.untrusted.child_files import ChildFiles, Refused
from accel_lab.search.timeline.bench_regression import BaseRow, Key, compared
from accel_lab.workloads import registry
from accel_lab.workloads.measure import Settings

#: Settings that two benchmarks must share to be compared.
SHARED = ("size", "device", "dtype", "train", "seed")
_MOST_BYTES = 64 * 1024 * 1024
#: The shape of what is read of a bench.json.
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
    """An earlier benchmark, as far as it is compared."""

    path: Path
    torch: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[Key, BaseRow] = field(default_factory=dict)

    def must_suit(self, settings: Settings) -> None:
        """Raises UsageError where it measured something else."""
        ours = settings.to_json()
        for name in SHARED:
            if name in self.settings and self.settings[name] != ours[name]:
                raise UsageError(
                    f"{self.path} was measured with {name} {self.settings[name]!r}, this run has "
                    f"{ours[name]!r}: their times cannot be compared"
                )

    def against(self, rows: Sequence[Measurement]) -> Compared:
        """The comparison with what was measured now."""
        return Compared(base=str(self.path), torch=self.torch, rows=compared(rows, self.rows))


def read_base(path: Path) -> Base:
    """Read a bench.json, whoever wrote it. Raises UsageError in one line where it is none."""
    try:
        found = ChildFiles(path.parent).json(path.name, _SHAPE, most=_MOST_BYTES)
    except Refused as error:
        raise UsageError(f"--compare takes the bench.json of an earlier run: {error}") from None
    if found is None:
        raise UsageError(f"there is no file {path}: --compare takes the bench.json of an earlier run")
    if found["schema"] != SCHEMA:
        raise UsageError(f"{path} is no benchmark of this version: its schema is {found['schema'][:100]!r}")
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
    """The models with what they need, and the backends."""
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
