"""Records a job that is too long to be run many times: ``accel_lab.record`` inside it.

``start()`` before the first call of a compiled function is enough, or the backend ``accel_lab_record``:
``torch.compile(model, backend="accel_lab_record")``. The job runs on Inductor as it would; a sample of each
compiled graph's calls is held against the same graph run eagerly, in doubt in float64. The first that is
wrong, raises or hangs is kept as a capsule, a folder that ``accel-lab bisect`` takes like a script.

Only torch and the standard library are imported in the job.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

FOLDER = "accel-lab-capsules"


def start(
    folder: str | os.PathLike[str] = FOLDER,
    *,
    every: int = 100,
    first: int = 2,
    memory_mb: int = 4096,
    disk_mb: int = 1024,
    capsules: int = 1,
    hang_s: float = 600.0,
    verify: bool = True,
) -> None:
    """Record what this process compiles with Inductor from now on.

    Of each compiled graph the ``first`` calls and each ``every``-th one are checked (0: none). ``memory_mb``
    bounds the copies of one call's inputs, ``disk_mb`` one capsule, ``capsules`` how many are kept. A call of
    more than ``hang_s`` seconds is kept too (0: none). Under torchrun each rank has a folder of its own in
    ``folder``. ``verify``: a process of its own runs each capsule by itself, while the job goes on.

    Raises :class:`ValueError` for a number below zero.
    """
    from accel_lab.child.capsule.main import install

    sampling = _sampling(every, first, memory_mb, disk_mb, capsules, hang_s)
    install(os.fspath(folder), sampling, _verify_apart if verify else None)


def summary() -> dict[str, Any]:
    """What was done so far: ``graphs``, ``checked``, ``unchecked`` by reason, ``capsules`` and so on.

    The gradients that have arrived are checked first. Empty where nothing was compiled.
    """
    from accel_lab.child.capsule.main import finish

    return finish()


def accel_lab_record(gm: Any, example_inputs: Any, *, options: Any = None, **_: Any) -> Any:
    """The backend of that name: Inductor, recorded. ``options`` are the arguments of :func:`start`."""
    from accel_lab.child.capsule.main import recording
    from accel_lab.child.torch_internals.backends import lookup_backend

    given = {"folder": FOLDER, "verify": True, **dict(options or {})}
    folder, verify = os.fspath(given.pop("folder")), given.pop("verify")
    made = recording(folder, _sampling(**given), _verify_apart if verify else None)
    return made.compiled(gm, example_inputs, lookup_backend("inductor"), None)


def _sampling(
    every: int = 100,
    first: int = 2,
    memory_mb: int = 4096,
    disk_mb: int = 1024,
    capsules: int = 1,
    hang_s: float = 600.0,
) -> dict[str, Any]:
    values = {
        "every": every,
        "first": first,
        "memory_mb": memory_mb,
        "disk_mb": disk_mb,
        "capsules": capsules,
        "hang_s": hang_s,
    }
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"accel_lab.record: {name} is a number from 0 on, not {value}")
    return values


def _verify_apart(path: str) -> None:
    """Let a process of its own write the capsule's script and run it, while the job goes on."""
    from accel_lab.child.capsule.main import say
    from accel_lab.execution.processes.process import start_apart

    say(
        f"accel-lab record: kept {path}; it is run by itself in a process of its own (see capsule.json there)"
    )
    root = str(Path(__file__).resolve().parents[2])
    # Not the job's ranks: the capsule's script is a program by itself.
    env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [root, env.get("PYTHONPATH", "")]))
    start_apart([sys.executable, "-m", "accel_lab.record", "--finish", path], cwd=Path(path), env=env)


__all__ = ["FOLDER", "accel_lab_record", "start", "summary"]
