"""``accel-lab bench --engine``: workers of a cluster measure the models, each model on one machine."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from accel_lab.core.benchmark import Benchmark, Measurement, RowStatus
from accel_lab.core.errors import LabError
from accel_lab.core.untrusted.child_files import ChildFiles, UntrustedFileError
from accel_lab.engine.dispatch import Dispatch, EngineLost, Fetched, Stopped
from accel_lab.engine.job import SCRIPT_FOLDER, PackedJob, Request, lab_identity
from accel_lab.engine.store import StoreLost

_SHAPE = {"environment": object, "rows": [object], "complete": bool}


def gather(
    benchmark: Benchmark,
    models: Sequence[str],
    words: Sequence[str],
    *,
    python: str,
    torch: str,
    dispatch: Dispatch,
    folder: Path,
    jobs: int,
    listener: Callable[[Measurement], None],
) -> None:
    """Has workers measure the models, and appends the rows to ``benchmark`` in the order of ``models``.

    ``words`` are the options of ``accel-lab bench`` besides the model. A measurement is never reused from an
    earlier benchmark. A model that no worker could measure becomes a failed row. Raises :class:`EngineLost`
    and :class:`StoreLost`; rows measured until then are in the benchmark.
    """
    # Part of the job's hash, so that a repeated benchmark is measured again instead of reused.
    session = secrets.token_hex(8)

    def ask(model: str) -> list[Measurement] | LabError:
        request = Request(
            words=("bench", "--model", model, *words, "--quiet"),
            script="",
            cwd=SCRIPT_FOLDER,
            python=python,
            torch=torch,
            lab=lab_identity(),
            session=session,
        )
        try:
            fetched = dispatch.ask(PackedJob(request=request, files={}), model, folder / "models" / model)
            return _rows(fetched, benchmark)
        except (EngineLost, StoreLost) as error:
            return error
        except Stopped:
            return []
        except (LabError, OSError) as error:
            return [Measurement(model=model, backend="", standing=RowStatus.FAILED, reason=str(error))]

    lost: LabError | None = None
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        for answer in pool.map(ask, models):
            if isinstance(answer, LabError):
                lost = lost or answer
                continue
            for row in answer:
                benchmark.rows.append(row)
                listener(row)
    if lost is not None:
        raise lost


def _rows(fetched: Fetched, benchmark: Benchmark) -> list[Measurement]:
    """Reads the rows of a fetched benchmark; each row notes the worker that measured it."""
    found = sorted((fetched.folder / "runs").glob("*/bench.json"))
    if not found:
        raise UntrustedFileError("the worker left no bench.json")
    run = found[-1].parent
    read: dict[str, Any] = ChildFiles(run).json(found[-1].name, _SHAPE)
    try:
        rows = [Measurement.from_json(row) for row in read["rows"]]
    except ValueError as error:
        raise UntrustedFileError(f"{found[-1]}: {error}") from None
    environment = read["environment"]
    if isinstance(environment, dict):
        benchmark.environment.update({**environment, **benchmark.environment})
    note = f"measured on {fetched.ran.worker}"
    return [replace(row, notes=(*row.notes, note), folder=_here(row.folder, fetched)) for row in rows]


def _here(path: str, fetched: Fetched) -> str:
    """Maps a path on the worker to the path of the fetched copy."""
    origin = fetched.ran.origin.rstrip("/")
    return os.path.join(fetched.folder, path[len(origin) + 1 :]) if path.startswith(f"{origin}/") else path
