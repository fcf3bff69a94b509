"""Records a job from inside, for jobs that are too long to run many times.

Call ``start()`` before the first call of a compiled function, or use the backend ``accel_lab_record``:
``torch.compile(model, backend="accel_lab_record")``. The job runs on Inductor as usual. A sample of each
graph's calls is compared with the graph run eagerly and, if they differ, in float64. The first call that is
wrong, raises or hangs is saved as a capsule, a folder that ``accel-lab bisect`` accepts like a script.

The job imports only torch and the standard library for this.
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
    """Starts to record what this process compiles with Inductor.

    Of each graph, the ``first`` calls and every ``every``-th call (0: none) are checked. ``memory_mb`` limits
    the copies of one call's inputs, ``disk_mb`` one capsule, ``capsules`` their number. A call that takes
    longer than ``hang_s`` seconds is saved too (0: hangs are not watched). Under torchrun each rank has a
    subfolder of ``folder``. ``verify``: a separate process reruns each capsule while the job continues.

    Raises :class:`ValueError` for a negative number.
    """
    from accel_lab.child.capsule.main import install

    sampling = _sampling(every, first, memory_mb, disk_mb, capsules, hang_s)
    install(os.fspath(folder), sampling, _verify_apart if verify else None)


def summary() -> dict[str, Any]:
    """Returns the counts so far: ``graphs``, ``checked``, ``unchecked`` by reason, ``capsules``, ...

    Checks outstanding gradients first. Empty if nothing was compiled.
    """
    from accel_lab.child.capsule.main import finish

    return finish()


def accel_lab_record(gm: Any, example_inputs: Any, *, options: Any = None, **_: Any) -> Any:
    """Compiles a graph with Inductor and records it; ``options`` are the arguments of :func:`start`.

    Raises :class:`ValueError` for a negative number.
    """
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
            raise ValueError(f"accel_lab.record: {name} must be >= 0, got {value}")
    return values


def _verify_apart(path: str) -> None:
    """Starts a process that writes the capsule's script and runs it while the job continues."""
    from accel_lab.child.capsule.main import say
    from accel_lab.execution.processes.process import start_apart

    say(f"accel-lab record: saved {path}; verifying it in a separate process (result in capsule.json)")
    root = str(Path(__file__).resolve().parents[2])
    # Without the job's ranks, as the capsule's script is not distributed.
    env = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [root, env.get("PYTHONPATH", "")]))
    start_apart([sys.executable, "-m", "accel_lab.record", "--finish", path], cwd=Path(path), env=env)


__all__ = ["FOLDER", "accel_lab_record", "start", "summary"]
