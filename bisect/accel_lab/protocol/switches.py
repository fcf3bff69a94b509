"""Defines the switches: changes on top of a rung, with the shape of each value and the rungs that support it.

A child refuses an unknown switch, a value of another shape, and a switch that its rung does not support:
if it ignored one, the result of one probe would pass for that of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Dict, Mapping, Tuple

from .rungs import Rung


class Shape(Enum):
    """JSON type of a switch's value; the enum's value is the phrase for error messages."""

    FLAG = "true or false"
    NUMBER = "a whole number"
    TEXT = "text"
    NAMES = "a list of names"
    TABLE = "an object"


@dataclass(frozen=True)
class SwitchRecord:
    """One switch: the ``rungs`` that support it (empty: all) and the ``keys`` of an object (empty: any)."""

    name: str
    shapes: Tuple[Shape, ...]
    words: str
    rungs: Tuple[Rung, ...] = ()
    keys: Tuple[str, ...] = ()


_FLAG, _NUMBER, _TEXT, _NAMES, _TABLE = (
    (shape,) for shape in (Shape.FLAG, Shape.NUMBER, Shape.TEXT, Shape.NAMES, Shape.TABLE)
)
_GRAPHS = (Rung.AOT, Rung.PARTITION, Rung.DECOMP, Rung.FX)
_KERNELS = (Rung.SCHEDULED, Rung.KERNEL)
_LAYERED = (Rung.KERNEL, Rung.MOCK)
#: ``kernel`` fills torch's caches; ``uncompiled`` and ``dynamo`` compile nothing that they could hold.
_CACHED = (Rung.UNCOMPILED, Rung.DYNAMO, Rung.KERNEL)

_RECORDS = (
    # Which parts of the compiler run.
    SwitchRecord("inductor", _TABLE, "Inductor's settings"),
    SwitchRecord("off", _TABLE, "switched off"),
    SwitchRecord("hold", _TABLE, "regions kept on a rung"),
    SwitchRecord("fresh", _FLAG, "all compiled code forgotten before each call"),
    SwitchRecord("caches", _NAMES, "torch's caches on", rungs=_CACHED),
    SwitchRecord("bisector", _TABLE, "torch's own bisector", keys=("backend", "subsystem", "max")),
    SwitchRecord(
        "front",
        _TABLE,
        "Dynamo and AOTAutograd",
        keys=("look", "eager", "guard_on", "outside", "functorch", "dynamo", "fullgraph", "stop"),
    ),
    SwitchRecord(
        "mixed_sources",
        _TABLE,
        "pieces of another release's sources",
        keys=("served", "watched", "headers"),
    ),
    SwitchRecord("native_kernels", _NAMES, "without the Python kernels of"),
    SwitchRecord("meta_fix", _NAMES, "corrected meta kernels of"),
    SwitchRecord("correct_inputs", _FLAG, "inputs converted to their captured dtypes"),
    # How kernels are generated and run.
    SwitchRecord("strict_math", _FLAG, "C++ without relaxed floating-point rules"),
    SwitchRecord("sanitize", _FLAG, "C++ with the address sanitizer"),
    SwitchRecord("contiguous", _FLAG, "contiguous copies for every operator", rungs=_GRAPHS),
    SwitchRecord("together", _FLAG, "fused loops interpreted as one", rungs=(Rung.SCHEDULED,)),
    SwitchRecord("before_compiler", _FLAG, "stopped where the native compiler would start", rungs=_KERNELS),
    # Instrumentation.
    SwitchRecord("shadow", _FLAG, "a float64 run alongside"),
    SwitchRecord("measure", _FLAG, "time and memory measured, nothing recorded"),
    SwitchRecord("compile_log", _FLAG, "compilations, guards and graph breaks noted, nothing recorded"),
    SwitchRecord("layers", _FLAG, "every graph of the compiler dumped, nothing recorded", rungs=_LAYERED),
    SwitchRecord("trace", _FLAG, "torch's structured trace written, nothing recorded", rungs=_LAYERED),
    SwitchRecord("meta_eager", _FLAG, "meta kernels checked"),
    SwitchRecord("meta_watch", _FLAG, "meta kernels checked as Dynamo calls them"),
    SwitchRecord("python_kernels", _TEXT, "kernels of the Python dispatcher"),
    SwitchRecord("show_pass", _TEXT, "graphs before and after", rungs=(Rung.DECOMP, Rung.FX)),
    SwitchRecord("annotate", _FLAG, "kernels annotated with their operators", rungs=_KERNELS),
    SwitchRecord(
        "divergence",
        (Shape.FLAG, Shape.TABLE),
        "buffers compared between kernels",
        rungs=_KERNELS,
        keys=("realize",),
    ),
    SwitchRecord("capture", (Shape.FLAG, Shape.TABLE), "graphs and their calls captured"),
    # Changed behaviour of regions, of child processes and of random numbers.
    SwitchRecord("identity", _FLAG, "torch.compile returns its argument", rungs=(Rung.UNCOMPILED,)),
    SwitchRecord(
        "disable_everywhere", _FLAG, "no torch.compile in processes that it starts", rungs=(Rung.UNCOMPILED,)
    ),
    SwitchRecord("other_processes", _FLAG, "the Python processes that the script starts as well"),
    SwitchRecord("other_random", _NUMBER, "another random seed"),
    SwitchRecord("other_rounding", _NUMBER, "perturbed rounding"),
    # Accelerators.
    SwitchRecord("mock", _TABLE, "the mock accelerator"),
    SwitchRecord("adapter", _TABLE, "the accelerator"),
    SwitchRecord(
        "check",
        _TABLE,
        "constraints checked",
        keys=("adapter", "options", "repros"),
    ),
)

SWITCHES: Dict[str, SwitchRecord] = {record.name: record for record in _RECORDS}


def switch_error(rung: str, switches: Mapping[str, Any]) -> str:
    """Returns why these switches are refused on this rung; empty if they are accepted."""
    for name, value in switches.items():
        record = SWITCHES.get(name)
        if record is None:
            return "unknown switch %s" % name
        if not any(_fits(value, shape) for shape in record.shapes):
            return "switch %s takes %s" % (name, " or ".join(shape.value for shape in record.shapes))
        if isinstance(value, dict) and record.keys:
            strange = sorted(set(value) - set(record.keys))
            if strange:
                return "switch %s has no key %s" % (name, ", ".join(strange))
        if record.rungs and rung not in record.rungs:
            return "rung %s does not support switch %s" % (rung, name)
    return ""


def _fits(value: Any, shape: Shape) -> bool:
    if shape is Shape.FLAG:
        return isinstance(value, bool)
    if shape is Shape.NUMBER:
        return isinstance(value, int) and not isinstance(value, bool)
    if shape is Shape.NAMES:
        return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
    return isinstance(value, str if shape is Shape.TEXT else dict)
