"""Builds report.json: the Findings as strict JSON, and the JSON Schema that it follows."""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any

from accel_lab.core.evidence import Evidence
from accel_lab.core.findings import Findings
from accel_lab.core.stages import Rung
from accel_lab.core.text import encodable

from .words.evidence import words_of


def load_schema() -> dict[str, Any]:
    """Returns the JSON Schema (2020-12) of :func:`with_sentences`."""
    text = resources.files(__package__).joinpath("findings.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    schema["$defs"]["rung"]["enum"] = [rung.value for rung in Rung]
    return schema


def plain(value: Any) -> Any:
    """Returns the value as strict JSON can hold it: infinities, NaN and unknown types become strings.

    Lone surrogates become escapes: strict readers refuse a file that has one.
    """
    if isinstance(value, str):
        return encodable(str(value))
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)  # also converts an enum
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, dict):
        return {encodable(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=str)
    return encodable(str(value))


def with_sentences(findings: Findings) -> dict[str, Any]:
    """Returns ``findings.to_json()``, with the sentence of each piece of evidence before its record.

    Warnings are replaced by their sentences.
    """
    data = findings.to_json()
    for row in data["culprits"]:
        row["alternatives"] = [_said(other) for other in row["alternatives"]]
    data["culprits"] = [_said(row) for row in data["culprits"]]
    data["culprit"] = next(iter(data["culprits"]), None)
    data["by_design"] = _said(data["by_design"]) if data["by_design"] is not None else None
    data["warnings"] = _lines(data["warnings"])
    for flip in data["versions"]["flips"] if data["versions"] is not None else ():
        for side in (flip["details"].get("good"), flip["details"].get("bad")):
            if side is not None and "warnings" in side:
                side["warnings"] = _lines(side["warnings"])
    return data


def _said(row: dict[str, Any]) -> dict[str, Any]:
    """Returns the row with the sentences of its records, each before the record."""
    said: dict[str, Any] = {}
    for key, value in row.items():
        if key == "observation":
            said["words"] = words_of(Evidence.from_json(value))
        elif key == "observations":
            said["evidence"] = _lines(value)
        said[key] = value
    return said


def _lines(notes: list[Any]) -> list[str]:
    return [note if isinstance(note, str) else words_of(Evidence.from_json(note)) for note in notes]


def findings_json(findings: Findings) -> dict[str, Any]:
    """Returns the findings with their sentences, as strict JSON data."""
    data: dict[str, Any] = plain(with_sentences(findings))
    return data


def json_text(value: Any) -> str:
    """Returns JSON text as all reports and bundles write it: indented, in the given order, with a newline."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def report_json(findings: Findings) -> str:
    """Returns the text of ``report.json``."""
    return json_text(with_sentences(findings))
