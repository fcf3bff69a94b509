"""Reads the compiler's layers (a graph or loop IR after one stage) that the child has written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from accel_lab.core.untrusted.child_files import ChildFiles, parsed
from accel_lab.core.untrusted.shapes import Range
from accel_lab.protocol.files import LAYERS

MOST_LAYERS = 200
#: Kinds of layers, in the order of the compiler, with their titles.
TITLES = {
    "dynamo": "Dynamo graph",
    "joint": "AOTAutograd joint graph",
    "forward": "forward graph",
    "backward": "backward graph",
    "post_grad": "post-grad graph",
    "ir_pre_fusion": "loop IR before fusion",
    "ir_post_fusion": "loop IR after fusion",
}
_TENSOR = {"dtype": str, "shape": [Range(-1)], "bytes": Range(-1), "storage": Range(0)}
_NODE = {
    **dict.fromkeys(("name", "op", "target", "source", "code"), str),
    "inputs": [str],
    "tensors": [_TENSOR],
}
_LAYER = {
    "kind": str,
    "direction": str,
    "order": Range(0),
    "file": str,
    "nodes?": [_NODE],
    "left_out?": Range(0),
    "parts?": Range(0),
}


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor of a traced graph; ``bytes`` and sizes that depend on data are -1.

    Tensors with the same ``storage`` share memory.
    """

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    storage: int

    @property
    def text(self) -> str:
        """The tensor as text, such as ``float32[2, 3]``."""
        return f"{self.dtype}[{', '.join('?' if n < 0 else str(n) for n in self.shape)}]"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of a graph: its operator, input nodes, output tensors, and the user's line."""

    name: str
    op: str
    target: str
    inputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    source: str
    code: str

    @property
    def is_call(self) -> bool:
        """Whether the node calls a function, method or module."""
        return self.op.startswith("call_")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Estimated memory of a graph from tensor sizes: bytes held while each node runs.

    Inputs and attributes count throughout, a result from its node to its last use, and returned values to the
    end; views are free. ``unknown`` is the number of tensors whose size depends on data; they count as 0. The
    estimate ignores fusion, buffer reuse, workspaces and alignment.
    """

    held: tuple[int, ...]
    inputs: int
    unknown: int

    @property
    def peak(self) -> int:
        """The peak in bytes."""
        return max(self.held, default=0)

    @property
    def peak_at(self) -> int:
        """The index of the first node at the peak; 0 for an empty graph."""
        return self.held.index(self.peak) if self.held else 0


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One graph (``nodes``) or one text of loop IR (with ``parts`` loop nests); ``file`` names its text.

    ``direction`` is forward or backward, empty if the kind implies it. ``left_out`` counts the nodes beyond
    the child's limit.
    """

    kind: str
    direction: str
    order: int
    file: str
    nodes: tuple[Node, ...] = ()
    left_out: int = 0
    parts: int | None = None

    @property
    def is_graph(self) -> bool:
        """Whether this is a graph, not loop IR."""
        return self.parts is None

    @property
    def title(self) -> str:
        """The title, such as ``post-grad graph, backward``."""
        title = TITLES.get(self.kind, self.kind)
        return f"{title}, {self.direction}" if self.direction else title

    @property
    def operators(self) -> Counter[str]:
        """The number of calls of each operator."""
        return Counter(node.target for node in self.nodes if node.is_call)

    @property
    def dtypes(self) -> Counter[str]:
        """The number of input and result tensors of each dtype."""
        return Counter(tensor.dtype for node in self.nodes if node.op != "output" for tensor in node.tensors)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The graph's inputs and attributes."""
        return tuple(node for node in self.nodes if node.op in ("placeholder", "get_attr"))

    @property
    def memory(self) -> Memory:
        """The estimated memory of the graph over time."""
        return _memory(self.nodes)


def read(files: ChildFiles) -> list[Layer]:
    """Reads at most ``MOST_LAYERS`` layers of a run in the order of their creation; empty without a file.

    Drops an incomplete last line of a killed process. Any other malformed line raises UntrustedFileError.
    """
    text = files.text(LAYERS)
    if text is None:
        return []
    lines = text.split("\n")[:-1]
    return [_layer(parsed(line, LAYERS, _LAYER)) for line in lines[:MOST_LAYERS]]


def _layer(row: dict[str, Any]) -> Layer:
    return Layer(
        kind=row["kind"],
        direction=row["direction"],
        order=row["order"],
        file=row["file"],
        nodes=tuple(_node(node) for node in row.get("nodes", ())),
        left_out=row.get("left_out", 0),
        parts=row.get("parts"),
    )


def _node(row: dict[str, Any]) -> Node:
    tensors = tuple(
        Tensor(dtype=one["dtype"], shape=tuple(one["shape"]), bytes=one["bytes"], storage=one["storage"])
        for one in row["tensors"]
    )
    return Node(
        name=row["name"],
        op=row["op"],
        target=row["target"],
        inputs=tuple(row["inputs"]),
        tensors=tensors,
        source=row["source"],
        code=row["code"],
    )


def _memory(nodes: Sequence[Node]) -> Memory:
    born: dict[int, int] = {}
    last: dict[int, int] = {}
    size: dict[int, int] = {}
    kept: set[int] = set()
    unknown: set[int] = set()
    storages = {node.name: [tensor.storage for tensor in node.tensors] for node in nodes}
    for place, node in enumerate(nodes):
        for tensor in node.tensors:
            key = tensor.storage
            if key not in born:
                born[key], last[key], size[key] = place, place, max(tensor.bytes, 0)
                if tensor.bytes < 0:
                    unknown.add(key)
            if node.op in ("placeholder", "get_attr"):
                kept.add(key)
        for name in node.inputs:
            last.update((key, place) for key in storages.get(name, ()))
    last.update((key, len(nodes) - 1) for key in kept)
    born.update((key, 0) for key in kept)
    change = [0] * (len(nodes) + 1)
    for key, bytes_ in size.items():
        change[born[key]] += bytes_
        change[last[key] + 1] -= bytes_
    held, now = [], 0
    for place in range(len(nodes)):
        now += change[place]
        held.append(now)
    return Memory(held=tuple(held), inputs=sum(size[key] for key in kept), unknown=len(unknown))


def amount(size: float) -> str:
    """Formats a number of bytes with a suitable unit, such as ``1.5 MiB``."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    step = min(int(math.log(size, 1024)), len(units) - 1) if size >= 1 else 0
    return f"{size / 1024**step:.{0 if step == 0 else 1}f} {units[step]}"
