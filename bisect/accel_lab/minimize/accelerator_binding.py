"""Returns how a script binds the accelerator of a run, and the variables that configure it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from accel_lab.core.findings import Findings

from .on_backend import NAME, Binding

#: Name of the lab's own accelerator, and the prefix of its variables.
MOCK = "mock"
_MOCK_VARIABLES = "MOCK_"
_MOST_CHARACTERS = 1_000


def binding_of(name: str, facts: Mapping[str, Any], findings: Findings) -> Binding | None:
    """Returns the code and variables by which a standalone script uses the accelerator; None without one."""
    if not name:
        return None
    code = f"from accel_lab import mock_backend as {NAME}"
    if name != MOCK:
        code = f"from accel_lab import load_adapter\n\n{NAME} = load_adapter({name!r}).backend"
    return Binding(code=code, variables=variables_of(name, facts, findings))


def variables_of(name: str, facts: Mapping[str, Any], findings: Findings) -> dict[str, str]:
    """Returns the variables that configured the accelerator: the mock's by prefix, an adapter's as reported.

    Values with a path are dropped, since they mean nothing on another machine.
    """
    if name == MOCK:
        variables = facts.get("variables") or {}
        reported = {key: value for key, value in variables.items() if key.startswith(_MOCK_VARIABLES)}
    else:
        steps = [*findings.baseline, *findings.ladder]
        rows = [step.outcome.facts.get("accelerator") for step in steps]
        places = [row["environment"] for row in rows if isinstance(row, dict) and row.get("environment")]
        reported = next(
            (place["variables"] for place in places if isinstance(place, dict) and place.get("variables")), {}
        )
    return {key: value for key, value in _sorted(reported) if _is_variable(key, value)}


def _sorted(reported: Any) -> list[tuple[Any, Any]]:
    return sorted(reported.items(), key=str) if isinstance(reported, dict) else []


def _is_variable(key: Any, value: Any) -> bool:
    """Whether a variable that the child reported, and so may be anything, is acceptable."""
    texts = isinstance(key, str) and isinstance(value, str)
    return texts and key.isidentifier() and os.sep not in value and len(value) <= _MOST_CHARACTERS
