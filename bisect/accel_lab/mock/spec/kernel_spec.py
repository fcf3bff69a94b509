"""The kernel spec: one JSON document that says all of one kernel, written by the front end, run by the back
end.

Units, and what a spec of each must say:

- ``pointwise``: ``space`` runs over the device dimensions of the output (all but the last two are
  ``outer``, then ``sticks``/``outer``/``lanes`` as in :attr:`Layout.device_size`); every operand has one
  stride per dimension of the space, 0 where it is broadcast. ``body`` is the fused program, statement by
  statement, over operand names.
- ``reduction``: as ``pointwise``, and the output's stride is 0 along each ``reduced`` dimension; the last
  statement of the body is the reduction, those before it are its fused prologue. Lanes of padding take
  part, so the reduced operand's ``padding`` must be the neutral element: a ``mask_tail`` statement or the
  operand's declared state sees to it.
- ``matmul``: (batch..., m, k) x (batch..., k, n): ``left`` is sticked on k, ``right`` and ``output`` on n;
  both operands' k padding must be zero. ``space`` is batch..., m, n, k (logical extents; k is ``reduced``
  and never divided).
- ``convolution`` (forward, ``input_grad``, ``weight_grad``), ``pool``, ``movement``, ``gather``,
  ``scatter``, ``scan``, ``fill``, ``sort``: operands by layout, the rest in ``attributes``; ``space`` is
  the logical size of the output, used for the division over cores; no strides.

What strides may say (pointwise and reduction):

- A reduction's space is that of the operand which is reduced; the output is laid out as the reduced size
  (the reduced dimensions of extent 1, or left out), and may be sticked on a dimension of extent 1: one
  valid lane a stick.
- Tensors whose formats have other numbers of lanes meet in one kernel only where their places are an affine
  function of the space (one stick, a broadcast, nothing between the sticks). Where they are not, a
  ``movement`` kernel ``copy`` from layout to layout stands before or after: it converts the number format
  too (input and output formats may differ).
- A scratchpad operand's strides count within one tile, the share of one core in one step: the index along a
  dimension is taken modulo extent / (cores * steps). Its size is what those strides reach, in its own
  format; its layout gives the format and the logical size of the whole, nothing else.
- ``mask_tail`` may stand in any pointwise or reduction body; ``index`` yields the logical index.

Addresses are bytes: from the start of device memory for ``hbm``, from the start of each core's own
scratchpad for ``scratchpad`` (where every core holds its own slice of the operand).
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
#: What the lanes after the last element hold: nothing known, or a constant that a consumer may rely on.
PADDINGS = ("undefined", "zero", "one", "lowest", "highest")


@dataclass(frozen=True, kw_only=True)
class Dim:
    """One dimension of the iteration space: ``extent`` = ``cores`` x ``steps`` x (what one core does at a
    time).

    ``cores`` slices run side by side, ``steps`` one after the other; both divide the extent.
    """

    name: str
    extent: int
    cores: int = 1
    steps: int = 1
    kind: str = "outer"
    reduced: bool = False


@dataclass(frozen=True, kw_only=True)
class Operand:
    """One tensor of a kernel. ``strides`` are elements per dimension of the space; ``address`` is in
    bytes."""

    name: str
    role: str
    memory: str
    address: int
    layout: Layout
    strides: tuple[int, ...] = ()
    padding: str = "undefined"


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One step of a fused program: ``output = op(inputs)``; an input is an operand's name or a Python
    number."""

    op: str
    inputs: tuple[str | float | int | bool, ...]
    output: str
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KernelSpec:
    """One kernel. ``origins`` are the names of the ATen graph's nodes that it computes, in order;
    ``source`` is the line of the user's program that the last of them comes from, where known."""

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
        """The operands that are read only."""
        return tuple(operand for operand in self.operands if operand.role == "input")

    @property
    def outputs(self) -> tuple[Operand, ...]:
        """The operands that are written for others to read."""
        return tuple(operand for operand in self.operands if operand.role == "output")

    @property
    def cores(self) -> int:
        """Cores that this kernel runs on: the product of the divisions."""
        product = 1
        for dim in self.space:
            product *= dim.cores
        return product

    def operand(self, name: str) -> Operand:
        """The operand of that name. Raises KeyError."""
        for operand in self.operands:
            if operand.name == name:
                return operand
        raise KeyError(name)

    def to_json(self) -> dict[str, Any]:
        """The document; ``json.dumps`` of it is the text form, and its hash the key of the kernel cache."""
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
        """The document as indented JSON."""
        return json.dumps(self.to_json(), indent=1)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> KernelSpec:
        """The spec that :meth:`to_json` wrote. Raises KeyError or ValueError where it is not one."""
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
