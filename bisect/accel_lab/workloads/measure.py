"""Runs a benchmark plan: sends jobs to workers and turns their facts into rows. Does not import torch.

The caller passes the function that runs a worker, so this module knows nothing about processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from accel_lab.core.benchmark import Distance, Measurement, Reply, RowStatus, Spread
from accel_lab.core.record import Record
from accel_lab.numerics.tolerances import ComparisonConfig

from .registry import Backend, Model, lacking

#: The worker's module, for ``python -m``.
WORKER = "accel_lab.workloads.worker"
#: The number of differing tensors that are named; there may be hundreds, one per gradient.
NAMED = 10


@dataclass(frozen=True, kw_only=True)
class Settings(Record):
    """The settings of all rows of a run.

    ``budget_s`` limits the timed calls of one row, in seconds, after a minimum number of calls. ``warmup``
    calls follow the first call before any is timed.
    """

    size: str = "base"
    device: str = "cpu"
    dtype: str = "float32"
    runs: int = 10
    warmup: int = 2
    train: bool = False
    seed: int = 0
    budget_s: float = 60.0


#: Runs a worker on a job; the arguments are a name for the job, and the job.
Ask = Callable[[str, dict[str, Any]], Reply]


@dataclass(frozen=True, kw_only=True)
class Described:
    """The adapters and the device of the probed environment."""

    adapters: tuple[str, ...]
    device_ready: bool


def describe(ask: Ask, device: str) -> Described | Reply:
    """Asks a worker for adapters and device; returns the reply itself if it has no answer."""
    reply = ask("describe", {"ask": "describe", "device": device})
    if reply.ended or "error" in reply.facts or "adapters" not in reply.facts:
        return reply
    return Described(
        adapters=tuple(reply.facts["adapters"]),
        device_ready=bool(reply.facts.get("device_ready", True)),
    )


def run(
    models: Sequence[Model],
    backends: Sequence[Backend],
    settings: Settings,
    packages: Sequence[str],
    ask: Ask,
) -> Iterator[tuple[Measurement, dict[str, Any]]]:
    """Yields each row as soon as it is measured, with the worker's facts.

    A model whose packages are missing is skipped.
    """
    for model in models:
        missing = lacking(model, packages)
        if missing:
            names = " and ".join(missing)
            reason = f"{names} is not installed in the probed environment: pip install {' '.join(missing)}"
            yield Measurement(model=model.name, backend="", standing=RowStatus.SKIPPED, reason=reason), {}
            continue
        for backend in backends:
            job = job_of(model, backend, settings)
            reply = ask(f"{model.name}-{backend.name}", job)
            yield row_of(model, backend, reply), reply.facts


def job_of(model: Model, backend: Backend, settings: Settings) -> dict[str, Any]:
    """Returns the worker's job, which is complete without the registry."""
    return {
        "ask": "measure",
        "model": {"name": model.name, "module": model.module},
        "backend": {
            "name": backend.name,
            "target": backend.target,
            "adapter": backend.adapter,
            "statistics": backend.statistics,
        },
        **settings.to_json(),
        "size": model.size(settings.size),
    }


def row_of(model: Model, backend: Backend, reply: Reply) -> Measurement:
    """Returns the row of a reply, including the facts measured before a failure."""
    facts = reply.facts
    distance = distance_of(facts.get("distances"))
    standing, reason = _standing(reply, distance)
    return Measurement(
        model=model.name,
        backend=backend.name,
        standing=standing,
        reason=reason,
        import_s=facts.get("import_s"),
        first_call_s=facts.get("first_call_s"),
        latency_ms=Spread.of(facts.get("samples_ms", ())),
        eager_latency_ms=Spread.of(facts.get("eager_samples_ms", ())),
        samples_ms=tuple(facts.get("samples_ms", ())),
        eager_samples_ms=tuple(facts.get("eager_samples_ms", ())),
        memory=dict(facts.get("memory", {})),
        graphs=facts.get("graphs") if backend.target else None,
        graph_breaks=facts.get("graph_breaks") if backend.target else None,
        kernels=facts.get("kernels"),
        violations=facts.get("violations"),
        violation_lines=tuple(facts.get("violation_lines", ())),
        fallbacks=facts.get("fallbacks"),
        parts_ms=facts.get("parts_ms"),
        distance=distance,
        parameters=facts.get("parameters"),
        notes=tuple(facts.get("notes", ())),
        seconds=reply.seconds,
        folder=reply.folder,
    )


def _standing(reply: Reply, distance: Distance | None) -> tuple[RowStatus, str]:
    error, part = reply.facts.get("error"), reply.facts.get("part", "start")
    if error is not None and error["unavailable"]:
        return RowStatus.SKIPPED, error["message"]
    if error is not None:
        said = f"{error['type']}: {error['message']}" if error["message"] else error["type"]
        return RowStatus.FAILED, f"{said} (in: {part})"
    if part:
        said = reply.ended or (
            f"the worker ended early: {reply.stderr_line}" if reply.stderr_line else "the worker ended early"
        )
        return RowStatus.FAILED, f"{said} (in: {part})"
    if distance is not None and distance.differing:
        more = len(distance.differing) - 1
        return RowStatus.DIFFERS, distance.differing[0] + (f" (and {more} more)" if more else "")
    return RowStatus.OK, ""


def distance_of(rows: Sequence[dict[str, Any]] | None) -> Distance | None:
    """Returns the greatest distances over all tensors and the differing ones; None without rows."""
    if not rows:
        return None
    config = ComparisonConfig()
    far = [(badness, words) for badness, words in (_judge(row, config) for row in rows) if words]
    far.sort(key=lambda pair: -pair[0])
    return Distance(
        to_eager=_worst(rows, "to_eager") or 0.0,
        to_float64=_worst(rows, "to_float64"),
        eager_to_float64=_worst(rows, "eager_to_float64"),
        tensors=len(rows),
        differing=tuple(words for _, words in far[:NAMED]),
    )


def _worst(rows: Sequence[dict[str, Any]], name: str) -> float | None:
    values = [row[name] for row in rows if row.get(name) is not None]
    return max(values) if values else None


def _judge(row: dict[str, Any], config: ComparisonConfig) -> tuple[float, str]:
    """(error divided by the allowed error, the reason in words); the reason is empty if it is within bounds.

    This is the lab's float64 rule for the whole tensor: its error may exceed eager's by a given factor and
    the dtype's floor.
    """
    if row["reason"]:
        return math.inf, f"{row['name']}: {row['reason']}"
    to_eager, dtype, size = row["to_eager"], row["dtype"], row["magnitude"]
    if not dtype.startswith(("float", "bfloat", "complex")):
        return (math.inf, f"{row['name']}: off by {to_eager:g}") if to_eager else (0.0, "")
    ours, eagers = row.get("to_float64"), row.get("eager_to_float64")
    if to_eager == 0 or (ours is not None and eagers is not None and ours <= eagers):
        return 0.0, ""
    if ours is None or eagers is None or not math.isfinite(eagers):
        ours, limit = to_eager, config.relative(dtype) * size + config.noise(dtype)
    elif eagers <= config.no_digits * size:
        limit = config.factor * eagers + config.floor(dtype) * size
    else:
        limit = config.noise_factor * eagers + config.floor(dtype) * size + config.noise(dtype)
    if ours <= limit:
        return 0.0, ""
    words = f"{row['name']}: error {ours:.3g}, allowed {limit:.3g}, largest value {size:.3g}"
    return (ours / limit if limit else math.inf), words
