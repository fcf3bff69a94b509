"""Installs the probe's rung in each Python process that a probed script starts.

It is alone in its folder, which is first on PYTHONPATH there. If the rung cannot be prepared, the process
ends: a run without the rung would give a wrong result.
"""

import importlib
import importlib.util
import os
import sys


def _next_one(here: str) -> None:
    """Imports the ``sitecustomize`` that this one shadows, if there is one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    own = sys.modules.pop("sitecustomize")
    try:
        if importlib.util.find_spec("sitecustomize") is not None:
            importlib.import_module("sitecustomize")
    finally:
        sys.modules.setdefault("sitecustomize", own)  # the current import needs the entry


def _load_child(folder: str) -> None:
    """Imports the child's package without adding its folder to ``sys.path``."""
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
