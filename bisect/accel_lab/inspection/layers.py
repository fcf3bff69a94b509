"""Layer: a graph, or the loop IR, at one point of the compiler, read from what the child wrote down."""

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
#: The kinds in the order in which the compiler makes them, and their titles.
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
    """A tensor of a traced graph. ``bytes`` is -1 and an extent is -1 where only the data knows it.

    Tensors with the same ``storage`` share memory.
    """

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    storage: int

    @property
    def text(self) -> str:
        """``float32[2, 3]``."""
        return f"{self.dtype}[{', '.join('?' if n < 0 else str(n) for n in self.shape)}]"


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of a graph: its operator, the nodes that it takes, what it makes, and the user's line."""

    name: str
    op: str
    target: str
    inputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    source: str
    code: str

    @property
    def is_call(self) -> bool:
        """Whether the node computes something."""
        return self.op.startswith("call_")


@dataclass(frozen=True, kw_only=True)
class Memory:
    """An estimate from tensor sizes: bytes that are held while each node runs, by node.

    Inputs and attributes are held throughout, a result from its node to its last use, what is returned to
    the end; views take nothing. ``unknown`` tensors, whose sizes only the data knows, count as nothing.
    Fusion, buffer reuse, workspaces and alignment are not in it.
    """

    held: tuple[int, ...]
    inputs: int
    unknown: int

    @property
    def peak(self) -> int:
        """The most that is held at once, in bytes."""
        return max(self.held, default=0)

    @property
    def peak_at(self) -> int:
        """The place of the node at which most is held."""
        return self.held.index(self.peak) if self.held else 0


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One graph (``nodes``) or one text of loop IR (``parts`` loop nests); ``file`` is its text.

    ``direction`` is forward or backward where the kind does not say. ``left_out`` counts the nodes that were
    too many.
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
        """Whether this is a graph of nodes, and not loop IR."""
        return self.parts is None

    @property
    def title(self) -> str:
        """``post-grad graph, backward``."""
        title = TITLES.get(self.kind, self.kind)
        return f"{title}, {self.direction}" if self.direction else title

    @property
    def operators(self) -> Counter[str]:
        """How often each operator is called."""
        return Counter(node.target for node in self.nodes if node.is_call)

    @property
    def dtypes(self) -> Counter[str]:
        """How many tensors of each dtype the graph takes and makes."""
        return Counter(tensor.dtype for node in self.nodes if node.op != "output" for tensor in node.tensors)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The graph's inputs and attributes."""
        return tuple(node for node in self.nodes if node.op in ("placeholder", "get_attr"))

    @property
    def memory(self) -> Memory:
        """What the graph holds over time, estimated."""
        return _memory(self.nodes)


def read(files: ChildFiles) -> list[Layer]:
    """The layers that a run wrote, in the order of their making; none where there is no file.

    A last line that a killed process left unfinished is dropped. Raises ``Refused`` for any other line that
    is not what the child writes.
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
    """Bytes in a unit that fits, such as ``1.5 MiB``."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    step = min(int(math.log(size, 1024)), len(units) - 1) if size >= 1 else 0
    return f"{size / 1024**step:.{0 if step == 0 else 1}f} {units[step]}"
