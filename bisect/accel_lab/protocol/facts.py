"""Lists the facts of a run: those that a child writes to ``result.json``, and those that the lab adds.

``core/untrusted/fact_shapes.py`` defines the shape of each fact that a child writes.
"""

from __future__ import annotations

from typing import Any, Dict, List, TypedDict

#: ``(what, real, fake)`` of a mismatch where the run ended inside the meta kernel.
NO_META_RESULT = ("outcome", "returns", "did not return")


class ChildFacts(TypedDict, total=False):
    """The facts that a child writes to ``result.json``."""

    #: torch.compile regions, captured graphs, and the rungs that the run reached.
    regions: List[Dict[str, Any]]
    graphs: int
    graph_texts: List[str]
    reached: List[str]
    #: Exceptions raised by regions, and calls to compilers that no rung covers (torch.export, TorchScript).
    caught: List[Dict[str, Any]]
    other_entries: List[Dict[str, Any]]
    #: Why the run is inconclusive: the rung does not apply to this script or torch, or the lab itself failed.
    not_applicable: str
    lab_error: Any
    #: Whether a captured graph draws random numbers, and its floating-point dtypes.
    random: bool
    dtypes: List[str]
    #: torch's counters, recompilations and settings.
    counters: Dict[str, Any]
    compiles: Dict[str, Any]
    config: Dict[str, Any]
    determinism: Dict[str, Any]
    #: Applied passes, decompositions, lowerings and fusions; ``shown``: one of them with its graphs.
    applied: Dict[str, List[str]]
    applications: List[Dict[str, Any]]
    shown: Any
    #: Results of instrumentation; each needs its switch or rung.
    front: Dict[str, Any]
    meta_mismatches: List[Dict[str, Any]]
    graph_inputs: List[Dict[str, str]]
    order_conflicts: List[Dict[str, Any]]
    python_kernels: Dict[str, Any]
    kernels: List[Dict[str, Any]]
    divergence: Dict[str, Any]
    measures: Dict[str, Any]
    #: Dynamo's compilations, and the replaced source files of torch that were loaded.
    compile_log: Dict[str, Any]
    mixed_sources: Dict[str, Any]
    shadow_fallbacks: List[str]
    #: Accelerators.
    mock: Dict[str, Any]
    accelerator: Dict[str, Any]


class Facts(ChildFacts, total=False):
    """All facts; the lab adds opened files, reports of memory errors and a crash of the child itself."""

    opened: Dict[str, Any]
    sanitizer: Dict[str, Any]
    heap_check: str
    crashed: str


#: Every key that a child may write and the lab reads.
CHILD_KEYS = frozenset(ChildFacts.__annotations__)
