"""The facts: what a child notes of a run in ``result.json``, and what the lab adds when it reads that.

One key a line; ``core/untrusted/fact_shapes.py`` has the shape of each one that comes from a child.
"""

from __future__ import annotations

from typing import Any, Dict, List, TypedDict

#: Of a meta kernel that did not come back: what differs, what the real kernel gives, what this one gave.
NO_META_RESULT = ("outcome", "a result", "the run ended inside it")


class ChildFacts(TypedDict, total=False):
    """What the child notes."""

    #: The regions of torch.compile, the graphs that were captured, the rungs that were really reached.
    regions: List[Dict[str, Any]]
    graphs: int
    graph_texts: List[str]
    reached: List[str]
    #: Exceptions that came out of regions, and calls of compilers that no rung reaches.
    caught: List[Dict[str, Any]]
    other_entries: List[Dict[str, Any]]
    #: Why the run says nothing: the rung does not apply here, or the lab itself failed.
    not_applicable: str
    lab_error: Any
    #: What the captured graphs compute with.
    random: bool
    dtypes: List[str]
    #: What torch counted, compiled again, and was set to.
    counters: Dict[str, Any]
    compiles: Dict[str, Any]
    config: Dict[str, Any]
    determinism: Dict[str, Any]
    #: Passes, decompositions, lowerings, fusions that were applied; one of them with its graphs.
    applied: Dict[str, List[str]]
    applications: List[Dict[str, Any]]
    shown: Any
    #: What the looks inside found, each under the switch or rung that asks for it.
    front: Dict[str, Any]
    meta_mismatches: List[Dict[str, Any]]
    order_conflicts: List[Dict[str, Any]]
    python_kernels: Dict[str, Any]
    kernels: List[Dict[str, Any]]
    divergence: Dict[str, Any]
    measures: Dict[str, Any]
    #: What Dynamo compiled, and which exchanged sources of torch were loaded.
    compile_log: Dict[str, Any]
    mixed_sources: Dict[str, Any]
    shadow_fallbacks: List[str]
    #: Accelerators.
    mock: Dict[str, Any]
    accelerator: Dict[str, Any]


class Facts(ChildFacts, total=False):
    """What the lab adds: files that were opened, reports of memory faults, a crash of the child itself."""

    opened: Dict[str, Any]
    sanitizer: Dict[str, Any]
    heap_check: str
    crashed: str


#: Every key that a child may write and the lab reads.
CHILD_KEYS = frozenset(ChildFacts.__annotations__)
