"""Describes the environment as PyTorch's issue form asks for it, and the C++ compiler that Inductor takes."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, Dict


def main() -> None:
    """Print one JSON object on standard output: ``text`` as ``collect_env`` of this torch has it, ``cxx``."""
    import torch
    from torch.utils import collect_env

    facts: Dict[str, Any] = {}
    try:
        facts["text"] = collect_env.get_pretty_env_info()
    except Exception as error:  # it parses what other programs print
        facts["text_error"] = "%s: %s" % (type(error).__name__, error)
    try:
        facts["cxx"] = _compiler(torch, collect_env)
    except Exception as error:
        facts["cxx_error"] = "%s: %s" % (type(error).__name__, error)
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _compiler(torch: Any, collect_env: Any) -> str:
    """The compiler by name, the first line that it says of its version, and the OpenMP that torch has."""
    from .torch_internals.compilers import cpp_compiler

    name = cpp_compiler()
    code, said, error = collect_env.run([name, "--version"])
    version = (
        (said.strip().splitlines() or [error.strip() or "no version"])[0] if code == 0 else "does not run"
    )
    found = re.search(r"OpenMP \d+.*", torch.__config__.parallel_info())
    openmp = found.group() if found else "OpenMP" if torch.backends.openmp.is_available() else "no OpenMP"
    return "%s: %s; torch has %s" % (name, version, openmp)
