"""The kernel spec: a JSON document that describes one kernel; the front end emits it, the back end runs it.

Units, and the required content of a spec:

- ``pointwise``: ``space`` has the device dimensions of the output (as in :attr:`Layout.device_size`: all but
  the last three are ``outer``, then ``sticks``, ``outer``, ``lanes``). Every operand has one stride per
  dimension of the space, 0 for a broadcast. ``body`` is the fused program, a list of statements over operand
  names.
- ``reduction``: as ``pointwise``, with output stride 0 along each ``reduced`` dimension. The last statement
  of the body is the reduction; those before it are its fused prologue. Padding lanes take part, so the
  reduced operand's ``padding`` must be the neutral element, by a ``mask_tail`` statement or by the
  operand's declared state.
- ``matmul``: (batch..., m, k) x (batch..., k, n). The stick dimension of ``left`` is k, that of ``right`` and
  ``output`` is n. The k padding of ``left`` must be zero. ``space`` is batch..., m, n, k (logical
  extents; k is ``reduced`` and never divided).
- ``convolution`` (forward, ``input_grad``, ``weight_grad``), ``pool``, ``movement``, ``gather``,
  ``scatter``, ``scan``, ``fill``, ``sort``: operands are read by layout, without strides; all else is in
  ``attributes``. ``space`` is the logical size of the output, used for the division over cores.

Rules for strides (pointwise and reduction):

- A reduction's space is that of the reduced operand. The output has the reduced size (reduced dimensions of
  extent 1, or removed). Its stick dimension may have extent 1: one valid lane per stick.
- Formats with different lane counts can be in one kernel only if their element positions are affine
  functions of the space (one stick, a broadcast, adjacent sticks). Otherwise a ``movement`` kernel ``copy``
  before or after it changes the layout; it also converts the format.
- A scratchpad operand's strides index one tile, the share of one core in one step: the index along a
  dimension is taken modulo extent / (cores * steps). Its size follows from the strides; of its layout only
  the format and the logical size of the whole are used.
- ``mask_tail`` is allowed in any pointwise or reduction body; ``index`` yields the logical index.

Addresses are in bytes: from the start of device memory for ``hbm``, from the start of each core's own
scratchpad for ``scratchpad`` (every core holds its own slice of the operand).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from accel_lab.mock.ir.layout import Layout

SCHEMA = "accel-lab/kernel-spec/1"
UNITS = (
    "pointwise",
    "reduction",
    "matmul",
    "convolution",
    "pool",
    "movement",
    "gather",
    "scatter",
    "scan",
    "fill",
    "sort",
)
KINDS = ("outer", "sticks", "lanes")
ROLES = ("input", "output", "scratch")
MEMORIES = ("hbm", "scratchpad")
#: States of padding lanes: undefined, or a constant that consumers may rely on.
PADDINGS = ("undefined", "zero", "one", "lowest", "highest")


@dataclass(frozen=True, kw_only=True)
class Dim:
    """One dimension of the iteration space: ``extent`` = ``cores`` x ``steps`` x (slice of one core).

    ``cores`` slices run in parallel, ``steps`` sequentially; their product divides the extent.
    """

    name: str
    extent: int
    cores: int = 1
    steps: int = 1
    kind: str = "outer"
    reduced: bool = False


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One tensor of a kernel. ``strides`` (elements) are per dimension of the space; ``address`` in bytes."""

    name: str
    role: str
    memory: str
    address: int
    layout: Layout
    strides: tuple[int, ...] = ()
    padding: str = "undefined"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement of a fused program, ``output = op(inputs)``; inputs are operand names or numbers."""

    op: str
    inputs: tuple[str | float | int | bool, ...]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """One kernel.

    ``origins`` are the names of the ATen nodes that it computes, in order. ``source`` is the user's line of
    the last of them, empty if unknown.
    """

    name: str
    unit: str
    op: str
    space: tuple[Dim, ...]
    operands: tuple[Operand, ...]
    body: tuple[Statement, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    origins: tuple[str, ...] = ()
    source: str = ""

    @property
    def inputs(self) -> tuple[Operand, ...]:
        """The input operands."""
        return tuple(operand for operand in self.operands if operand.role == "input")

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The output operands."""
        return tuple(operand for operand in self.operands if operand.role == "output")

    @property
    def cores(self) -> int:
        """The number of cores that the kernel runs on: the product over all dimensions."""
        product = 1
        for dim in self.space:
            product *= dim.cores
        return product

    def operand(self, name: str) -> Operand:
        """Returns the operand of that name. Raises KeyError."""
        for operand in self.operands:
            if operand.name == name:
                return operand
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON document of the spec."""
        return {
            "schema": SCHEMA,
            "name": self.name,
            "unit": self.unit,
            "op": self.op,
            "origins": list(self.origins),
            "source": self.source,
            "space": [dict(vars(dim)) for dim in self.space],
            "operands": [
                {
                    "name": operand.name,
                    "role": operand.role,
                    "memory": operand.memory,
                    "address": operand.address,
                    "layout": operand.layout.to_json(),
                    "strides": list(operand.strides),
                    "padding": operand.padding,
                    "word_bytes": operand.layout.number.word_bytes,
                }
                for operand in self.operands
            ],
            "body": [{**vars(step), "inputs": list(step.inputs)} for step in self.body],
            "attributes": self.attributes,
        }

    def to_text(self) -> str:
        """Returns the document as indented JSON text."""
        return json.dumps(self.to_json(), indent=1)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> KernelSpec:
        """Reads what :meth:`to_json` wrote. Raises KeyError or ValueError for other data."""
        if data.get("schema") != SCHEMA:
            raise ValueError(f"not a kernel spec: its schema is {data.get('schema')!r}, not {SCHEMA!r}")
        return cls(
            name=data["name"],
            unit=data["unit"],
            op=data["op"],
            origins=tuple(data["origins"]),
            source=data["source"],
            space=tuple(Dim(**dim) for dim in data["space"]),
            operands=tuple(
                Operand(
                    name=entry["name"],
                    role=entry["role"],
                    memory=entry["memory"],
                    address=entry["address"],
                    layout=Layout.from_json(entry["layout"]),
                    strides=tuple(entry["strides"]),
                    padding=entry["padding"],
                )
                for entry in data["operands"]
            ),
            body=tuple(
                Statement(
                    op=step["op"],
                    inputs=tuple(step["inputs"]),
                    output=step["output"],
                    attributes=dict(step["attributes"]),
                )
                for step in data["body"]
            ),
            attributes=dict(data["attributes"]),
        )
