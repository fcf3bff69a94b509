"""Read by each Python that a probed script starts: puts the rung of the probe into it.

It lies alone in its folder, which is the first one of PYTHONPATH there. What cannot be prepared ends the
process: run without the rung it would answer another question than the one asked.
"""

import importlib
import importlib.util
import os
import sys


def _next_one(here: str) -> None:
    """Run the ``sitecustomize`` that Python would have run without this one, if there is any."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    own = sys.modules.pop("sitecustomize")
    try:
        if importlib.util.find_spec("sitecustomize") is not None:
            importlib.import_module("sitecustomize")
    finally:
        sys.modules.setdefault("sitecustomize", own)  # the import that is under way looks for it


def _load_child(folder: str) -> None:
    """The child's package, without its folder among those that the script imports from."""
    spec = importlib.util.spec_from_file_location(
        "accel_lab_child", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["accel_lab_child"] = module
    spec.loader.exec_module(module)


def _start() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    job = os.environ.get("ACCEL_LAB_PROCESS_JOB")
    _next_one(here)
    if job and os.path.isfile(job):
        _load_child(os.path.dirname(os.path.dirname(here)))
        importlib.import_module("accel_lab_child.processes.started").begin(job)


_start()
