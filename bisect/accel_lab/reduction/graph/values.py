"""Reads values from safetensors files and writes files with only the used entries, without torch."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

from .load import header, read_entry
from .program import Gradient, Program, Storage, Stored

_FORMATS = {
    "float64": "d",
    "float32": "f",
    "float16": "e",
    "int64": "q",
    "int32": "i",
    "int16": "h",
    "int8": "b",
    "uint8": "B",
    "bool": "?",
    "complex64": "ff",
    "complex128": "dd",
}


def read_bytes(file: str, key: str) -> bytes:
    """Returns the bytes of one entry."""
    return read_entry(Path(file), key)


def read_literal(file: str, key: str, dtype: str) -> str:
    """Returns the values as a Python list literal that reproduces them exactly; ``[]`` for other dtypes."""
    data = read_bytes(file, key)
    if dtype == "bfloat16":
        numbers: list[Any] = [
            struct.unpack("<f", b"\0\0" + data[i : i + 2])[0] for i in range(0, len(data), 2)
        ]
    elif dtype in _FORMATS:
        numbers = [
            parts[0] if len(parts) == 1 else complex(*parts)
            for parts in struct.iter_unpack("<" + _FORMATS[dtype], data)
        ]
    else:
        return "[]"
    return "[" + ", ".join(_text(number, dtype) for number in numbers) + "]"


def _text(number: Any, dtype: str) -> str:
    if isinstance(number, float):
        if not math.isfinite(number):
            return f"float('{number}')"
        if dtype in ("float32", "float16", "bfloat16"):
            return _shortest(number)
    return repr(number)


def _shortest(number: float) -> str:
    """Returns the shortest text that gives the same number in single precision."""
    for digits in range(1, 10):
        text = f"{number:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", number):
            return repr(float(text))
    return repr(number)


def packed(program: Program, path: Path) -> Program:
    """Writes the used entries to one file at ``path``, and returns the program that reads it."""
    entries: dict[str, bytes] = {}
    kinds: dict[str, str] = {}

    def moved(source: Stored) -> Stored:
        origin = program.files[source.file]
        data = read_bytes(origin, source.key)
        kind = header(Path(origin))[source.key]["dtype"]
        key = next((k for k, known in entries.items() if known == data and kinds[k] == kind), None)
        if key is None:
            key = f"t{len(entries)}"
            entries[key], kinds[key] = data, kind
        return Stored(file=path.name, key=key)

    def storage(known: Storage) -> Storage:
        if isinstance(known.source, Stored) and known.numel:
            return replace(known, source=moved(known.source))
        return known

    def gradient(known: Gradient) -> Gradient:
        return replace(known, source=moved(known.source))

    calls = tuple(
        replace(
            call,
            storages=tuple(storage(s) for s in call.storages),
            backward=tuple(gradient(g) for g in call.backward)
            if isinstance(call.backward, tuple)
            else call.backward,
            values=(),
        )
        for call in program.calls
    )
    if not entries:
        return replace(program, files={})
    write_safetensors(path, entries, kinds)
    return replace(program, calls=calls, files={path.name: str(path)})


_WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "C64": 8}


def write_safetensors(path: Path, entries: dict[str, bytes], kinds: dict[str, str]) -> None:
    """Writes flat entries in the safetensors format."""
    head: dict[str, Any] = {}
    offset = 0
    for key, data in entries.items():
        shape = [len(data) // _WIDTHS.get(kinds[key], 1)]
        head[key] = {"dtype": kinds[key], "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for data in entries.values():
            stream.write(data)
