"""Writes the compiler's intermediate forms: FX graphs with their tensors, loop IR as text.

Each is written as soon as it exists, so that those before a failure or crash are kept: its text under
``layers/``, and a row of JSON in ``layers.jsonl``.
"""

from __future__ import annotations

import functools
import json
import os
import threading
from typing import Any, Dict, Optional

import torch
from torch.utils import _pytree as pytree

from ..artifacts import Artifacts, open_file
from ..capture.graph_text import target_text
from ..capture.source_lines import source_of
from ..protocol import files
from ..torch_internals import layers as places
from .scheduler import quietly

MOST_LAYERS, MOST_NODES, MOST_BYTES = 120, 4000, 24 << 20
#: Prefix of AOTAutograd's names for the gradient inputs of a backward graph.
_TANGENT = "tangents_"


class Layers:
    """Writes the layers of one run into ``folder``, the probe's folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._texts = Artifacts(os.path.join(folder, "layers"), MOST_BYTES)
        self._count = 0
        self._installed = False
        self._lock = threading.RLock()
        self._local = threading.local()

    def _install(self) -> None:
        """Hooks into Inductor; a layer whose place this torch lacks is not written.

        Runs at the first graph: if a script starts with an import of Inductor, the ladder is installed while
        Inductor is half imported.
        """
        for module, name, kind in places.graph_passes():
            setattr(module, name, self._around(getattr(module, name), kind))
        context = places.debug_context()
        for name in ("ir_pre_fusion", "ir_post_fusion"):
            setattr(context, name, self._loop_ir(name))

    def _around(self, original: Any, kind: str) -> Any:
        @functools.wraps(original)
        def run(gm: Any, *args: Any, **kwargs: Any) -> Any:
            depth = getattr(self._local, "depth", 0)
            if depth:  # a subgraph
                return original(gm, *args, **kwargs)
            tangents = _has_tangents(gm)
            if kind == "post_grad":
                self._local.direction = "backward" if tangents else "forward"
                self.graph(self._local.direction, gm)
            elif tangents:
                self.graph("joint", gm)
            self._local.depth = depth + 1
            try:
                result = original(gm, *args, **kwargs)
            finally:
                self._local.depth = depth
            if kind == "post_grad":
                self.graph("post_grad", gm)
            return result

        return run

    def _loop_ir(self, name: str) -> Any:
        layers = self

        def noted(context: Any, nodes: Any) -> Any:
            quietly(lambda: layers._text(name, places.loop_ir_text(nodes), len(nodes)))
            own = places.debug_method(context, name)
            return own(nodes) if own is not None else None

        return noted

    # -- writing -----------------------------------------------------------------------------------

    def graph(self, kind: str, gm: Any) -> None:
        """Writes a graph; a graph that cannot be described is skipped without an error."""
        with self._lock:
            installed, self._installed = self._installed, True
        if not installed:
            quietly(self._install)
        kind = {"dynamo_graph": "dynamo"}.get(kind, kind)
        quietly(lambda: self._graph(kind, gm))

    def _graph(self, kind: str, gm: Any) -> None:
        if self._count >= MOST_LAYERS:
            return
        nodes = list(gm.graph.nodes)
        storages: Dict[Any, int] = {}
        rows = [_node(node, storages) for node in nodes[:MOST_NODES]]
        self._write(kind, self._texts.graph(kind, gm), nodes=rows, left_out=max(0, len(nodes) - MOST_NODES))

    def _text(self, kind: str, text: str, parts: int) -> None:
        if self._count < MOST_LAYERS:
            self._write(kind, self._texts.text(kind, text + "\n", "txt"), parts=parts)

    def _write(self, kind: str, file: str, **more: Any) -> None:
        follows = kind in ("post_grad", "ir_pre_fusion", "ir_post_fusion")
        with self._lock:
            row = {
                "kind": kind,
                "direction": getattr(self._local, "direction", "") if follows else "",
                "order": self._count,
                "file": file,
                **more,
            }
            self._count += 1
            with open_file(os.path.join(self._folder, files.LAYERS), "a", encoding="utf-8") as stream:
                stream.write(json.dumps(row) + "\n")


def _has_tangents(gm: Any) -> bool:
    return any(node.op == "placeholder" and _TANGENT in str(node.target) for node in gm.graph.nodes)


def _node(node: Any, storages: Dict[Any, int]) -> Dict[str, Any]:
    """The row of a node: inputs, output tensors, and the user's line."""
    value = node.meta.get("val", node.meta.get("example_value"))
    leaves = [leaf for leaf in pytree.tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]
    place, code = source_of(node)
    return {
        "name": str(node.name),
        "op": str(node.op),
        "target": target_text(node.target),
        "inputs": [str(one.name) for one in node.all_input_nodes],
        "tensors": [tensor for leaf in leaves if (tensor := _tensor(leaf, storages)) is not None],
        "source": place,
        "code": code,
    }


def _tensor(tensor: Any, storages: Dict[Any, int]) -> Optional[Dict[str, Any]]:
    """The dtype, shape, size in bytes and storage number of a tensor; -1 for a size that depends on data."""
    shape = [_number(size) for size in tensor.shape]
    size = 1
    for extent in shape:
        size = -1 if size < 0 or extent < 0 else size * extent
    key = quietly(lambda: tensor.untyped_storage()._cdata)
    return {
        "dtype": str(tensor.dtype).replace("torch.", ""),
        "shape": shape,
        "bytes": size * tensor.element_size() if size >= 0 else -1,
        "storage": storages.setdefault(id(tensor) if key is None else key, len(storages)),
    }


def _number(extent: Any) -> int:
    """A size as a number: a symbolic one as its hint, -1 without a hint."""
    if isinstance(extent, int):
        return extent
    hint = quietly(lambda: extent.node.hint)
    return hint if isinstance(hint, int) else -1
