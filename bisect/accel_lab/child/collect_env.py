"""Prints the environment as PyTorch's issue form requires it, and Inductor's C++ compiler."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Dict


def main() -> None:
    """Prints one JSON object: ``text`` of torch's ``collect_env`` and ``cxx``, or ``*_error`` for either."""
    import torch
    from torch.utils import collect_env

    facts: Dict[str, Any] = {}
    try:
        facts["text"] = collect_env.get_pretty_env_info()
    except Exception as error:  # it parses the output of other programs
        facts["text_error"] = "%s: %s" % (type(error).__name__, error)
    try:
        facts["cxx"] = _compiler(torch, collect_env)
    except Exception as error:
        facts["cxx_error"] = "%s: %s" % (type(error).__name__, error)
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _compiler(torch: Any, collect_env: Any) -> str:
    """The compiler's name, the first line of its ``--version``, and torch's OpenMP."""
    from .torch_internals.compilers import cpp_compiler

    name = cpp_compiler()
    code, said, error = collect_env.run([name, "--version"])
    version = (
        (said.strip().splitlines() or [error.strip() or "no version"])[0] if code == 0 else "does not run"
    )
    found = re.search(r"OpenMP \d+.*", torch.__config__.parallel_info())
    openmp = found.group() if found else "OpenMP" if torch.backends.openmp.is_available() else "no OpenMP"
    return "%s: %s; torch has %s" % (name, version, openmp)
