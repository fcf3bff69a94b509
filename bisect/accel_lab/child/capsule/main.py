"""Starts a recording in the current process, or runs a program once with a recording.

Does not import torch, so that settings which the program makes before its import take effect. The recorder is
loaded only when the program compiles something.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from typing import Any, Callable, Dict, List, Optional

from ..artifacts import write_json
from ..program import join_threads, run_program
from ..protocol import files
from ..runner import AfterImport
from ..torch_internals import dynamo

#: The recording of this process; empty until something is compiled.
_current: List[Any] = []


def rank() -> str:
    """Returns the rank of this process under torchrun; empty without torchrun."""
    return os.environ.get("RANK", "") if "WORLD_SIZE" in os.environ else ""


def home_of(folder: str) -> str:
    """Returns the folder of this process's capsules, one per rank under torchrun."""
    return os.path.join(os.path.abspath(folder), "rank" + rank()) if rank() else os.path.abspath(folder)


def install(
    folder: str, sampling: Dict[str, Any], on_capsule: Optional[Callable[[str], None]] = None
) -> None:
    """Starts to record every region that is compiled with Inductor."""

    def arrived() -> None:
        original: List[Any] = []

        def optimize(backend: Any, **kwargs: Any) -> Any:
            try:
                backend = recording(folder, sampling, on_capsule).recorded(backend)
            except Exception as error:  # an error of the recorder must not fail the job
                say("accel-lab record: this is not recorded (%s: %s)" % (type(error).__name__, error))
            return original[0](backend, **kwargs)

        original.append(dynamo.replace_optimize(optimize))

    if dynamo.MODULE in sys.modules:
        arrived()
    else:
        sys.meta_path.insert(0, AfterImport({dynamo.MODULE: arrived}))


def recording(
    folder: str, sampling: Dict[str, Any], on_capsule: Optional[Callable[[str], None]] = None
) -> Any:
    """Returns the recording of this process, created at the first call; prints its summary at exit."""
    if not _current:
        from .recording import Recording, Sampling

        _current.append(Recording(home_of(folder), Sampling(**sampling), on_capsule or _say_kept))
        atexit.register(_end)
    return _current[0]


def finish() -> Dict[str, Any]:
    """Checks outstanding gradients and returns the recording's summary; empty if nothing was compiled."""
    if not _current:
        return {}
    _current[0].finish_backward()
    found: Dict[str, Any] = _current[0].summary()
    return found


def _end() -> None:
    from .recording import summary_line

    summary = finish()
    say(summary_line(_current[0]))
    if summary["capsules"] or os.path.isdir(_current[0].home):
        write_json(os.path.join(_current[0].home, files.RECORDED), summary, indent=1)


def _say_kept(path: str) -> None:
    say("accel-lab record: kept %s" % path)


def say(line: str) -> None:
    """Writes a line to the job's standard error; errors are ignored."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except Exception:
        return


def run(program: Dict[str, Any], folder: str, sampling: Dict[str, Any], on_capsule: Any = None) -> int:
    """Runs a program as Python would, with a recording; returns the program's exit code."""
    install(folder, sampling, on_capsule)
    code, _, _ = run_program(program)
    join_threads()
    return int(code)


def main(path: str) -> None:
    """Runs a program by the options in a JSON file: ``program``, ``folder`` and ``sampling``."""
    with open(path, encoding="utf-8") as stream:
        options = json.load(stream)
    os.makedirs(home_of(options["folder"]), exist_ok=True)
    sys.exit(run(options["program"], options["folder"], options["sampling"]))
