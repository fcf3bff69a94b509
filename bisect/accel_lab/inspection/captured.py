"""Represents one capture of the compiler's layers, kernels and files, and converts it to JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .layers import Layer

SCHEMA = "accel-lab/layers/1"


@dataclass(frozen=True, kw_only=True)
class KernelLine:
    """One line of a generated kernel, with the user's lines or the operators that it was generated from."""

    text: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One generated kernel; ``origins`` maps a lowering to its lines, ``sources`` to the user's line."""

    file: str
    language: str
    text: str
    origins: Mapping[str, tuple[int, ...]]
    sources: Mapping[str, str]

    @staticmethod
    def from_facts(row: Mapping[str, Any]) -> Kernel:
        """Reads an entry of the fact ``kernels``, whose shape was checked on loading."""
        return Kernel(
            file=row["file"],
            language=row["language"],
            text=row["text"],
            origins={key: tuple(lines) for key, lines in row["origins"].items()},
            sources=dict(row.get("sources") or {}),
        )

    def lines(self) -> Iterator[KernelLine]:
        """Yields every line with its origins: the user's line or, if that is not known, the operator."""
        found: dict[int, list[str]] = {}
        for key, numbers in self.origins.items():
            for number in numbers:
                found.setdefault(number, []).append(self.sources.get(key) or operator_of(key))
        for number, text in enumerate(self.text.splitlines(), 1):
            yield KernelLine(text=text, sources=tuple(dict.fromkeys(found.get(number, ()))))


@dataclass(frozen=True, kw_only=True)
class File:
    """A text file of the capture: its path in the run's folder, a title, and its text."""

    path: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Captured:
    """One capture of a script.

    ``failed`` is how the script failed, empty if it did not. ``texts`` maps a layer's order to its text.
    ``code`` are the generated programs, ``mock`` the mock accelerator's files. ``tlparse`` is the path of
    tlparse's page in the folder, empty without one.
    """

    program: str
    torch: str
    backend: str
    folder: str
    failed: str
    layers: tuple[Layer, ...]
    texts: Mapping[int, File]
    kernels: tuple[Kernel, ...]
    code: tuple[File, ...]
    mock: tuple[File, ...]
    tlparse: str
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the content of ``capture.json`` (``reporting/capture.schema.json``)."""
        return {
            "schema": SCHEMA,
            "program": self.program,
            "torch": self.torch,
            "backend": self.backend,
            "folder": self.folder,
            "failed": self.failed,
            "layers": [self._layer(layer) for layer in self.layers],
            "kernels": [
                {
                    "file": kernel.file,
                    "language": kernel.language,
                    "lines": len(kernel.text.splitlines()),
                    "operators": [
                        {
                            "operator": operator_of(key),
                            "source": kernel.sources.get(key, ""),
                            "lines": list(rows),
                        }
                        for key, rows in kernel.origins.items()
                    ],
                }
                for kernel in self.kernels
            ],
            "code": [file.path for file in self.code],
            "mock": [file.path for file in self.mock],
            "tlparse": self.tlparse,
            "notes": list(self.notes),
        }

    def _layer(self, layer: Layer) -> dict[str, Any]:
        text = self.texts.get(layer.order)
        row: dict[str, Any] = {
            "kind": layer.kind,
            "direction": layer.direction,
            "file": text.path if text is not None else "",
        }
        if not layer.is_graph:
            return {**row, "loop_nests": layer.parts}
        memory = layer.memory
        return {
            **row,
            "nodes": len(layer.nodes) + layer.left_out,
            "operators": dict(layer.operators.most_common()),
            "dtypes": dict(layer.dtypes.most_common()),
            "inputs": [
                {"name": node.name, "tensors": [tensor.text for tensor in node.tensors]}
                for node in layer.inputs
            ],
            "memory_estimate": {
                "peak_bytes": memory.peak,
                "peak_at": layer.nodes[memory.peak_at].name if layer.nodes else "",
                "input_bytes": memory.inputs,
                "unknown_sizes": memory.unknown,
                "held_bytes": list(memory.held),
            },
        }


def operator_of(key: str) -> str:
    """Returns the operator in a lowering's key: ``aten.mul.Tensor`` of ``mul target=aten.mul.Tensor#0``."""
    return key.rsplit("#", 1)[0].rsplit("target=", 1)[-1]
