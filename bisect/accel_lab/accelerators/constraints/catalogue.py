"""The constraint interface: a constraint checks one Dynamo or ATen graph and yields violations.

A constraint sees a graph through a :class:`GraphView` and keeps no state between graphs. The lab's own
constraints are in the other modules of this package.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .operators import canonical_names_of
from .values import code_of, graph_modules, source_of, tensors, traced

SEVERITIES = ("error", "warning")


@dataclass(frozen=True, kw_only=True)
class GraphView:
    """One graph that constraints check.

    ``level`` is "dynamo" or "aten". ``direction`` is "forward", "backward" or "inference". It is empty at
    Dynamo level, where one graph covers both.
    """

    graph_module: torch.fx.GraphModule
    level: str
    direction: str = ""
    name: str = "graph"

    def nodes(self) -> Iterator[tuple[torch.fx.GraphModule, str, torch.fx.Node]]:
        """Yields (graph, path to it, node) for all nodes, including those in higher-order operators."""
        for prefix, graph_module in graph_modules(self.graph_module):
            for node in graph_module.graph.nodes:
                yield graph_module, prefix, node


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One violation of a constraint.

    ``op`` is the operator's canonical name (the same for function, method and overload). ``target`` is what
    the node calls. ``source`` is the user's ``file:line`` and ``code`` its text. ``change`` says what has to
    change.
    """

    constraint: str
    severity: str
    level: str
    direction: str
    graph: str
    node: str
    op: str
    target: str
    message: str
    change: str
    source: str = ""
    code: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Deduplication key: equal for the same violation seen in several graphs."""
        return (self.constraint, self.op, self.source or self.node, self.severity)

    @property
    def line(self) -> str:
        """The violation as one line for a log or an error message."""
        where = f" at {self.source}" if self.source else ""
        return f"{self.constraint}: {self.op}: {self.message}{where}; {self.change}"

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A constraint's objection to one node; an empty ``severity`` means the constraint's own."""

    node: torch.fx.Node
    message: str
    change: str
    severity: str = ""


class Constraint(ABC):
    """Base class of constraints. Subclasses set ``name`` and ``severity``.

    A constraint on single nodes implements :meth:`findings` only. One that needs the whole graph, such as
    memory over time, overrides :meth:`graph_findings`.
    """

    name: str = ""
    severity: str = "error"

    def graph_findings(self, view: GraphView) -> Iterator[Finding]:
        """Yields the findings in a graph, by default those of each node."""
        for graph_module, _, node in view.nodes():
            if node.op == "output" or _is_taken_apart(node):
                continue
            if node.op == "placeholder" and view.direction == "backward":
                continue  # saved activations and output gradients: the forward graph's findings cover them
            yield from self.findings(node, graph_module, view)

    @abstractmethod
    def findings(
        self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView
    ) -> Iterable[Finding]:
        """Returns the findings for one node."""

    def check(self, view: GraphView) -> Iterator[Violation]:
        """Yields the violations of one graph."""
        places = {node: (graph_module, prefix) for graph_module, prefix, node in view.nodes()}
        for finding in self.graph_findings(view):
            node = finding.node
            graph_module, prefix = places[node]
            source = source_of(node) or _user_of(node)
            yield Violation(
                constraint=self.name,
                severity=finding.severity or self.severity,
                level=view.level,
                direction=view.direction,
                graph=view.name,
                node=prefix + node.name,
                op=operator_of(node, graph_module),
                target=str(node.target),
                message=finding.message,
                change=finding.change,
                source=source,
                code=code_of(source),
            )


def operator_of(node: torch.fx.Node, graph_module: torch.fx.GraphModule) -> str:
    """Returns the operator that the user called: the one that this node was decomposed from, if known."""
    if node.op == "placeholder":
        return "input"
    if node.op == "get_attr":
        return "attribute"
    return canonical_names_of(node, graph_module)[-1] or str(node.target)


def _user_of(node: torch.fx.Node) -> str:
    """Source line of the first user of a placeholder, which has no line of its own."""
    return (
        next((found for user in node.users if (found := source_of(user))), "")
        if node.op == "placeholder"
        else ""
    )


def _is_taken_apart(node: torch.fx.Node) -> bool:
    """Whether a node is a getitem on a multi-output node, which was already checked itself."""
    source = node.args[0] if node.args else None
    if node.target is not operator.getitem or not isinstance(source, torch.fx.Node):
        return False
    return not isinstance(traced(source), torch.Tensor)


def node_tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    """Returns all tensors in a node's traced value, nested ones included."""
    return tensors(traced(node))


class UnsupportedOnDevice(RuntimeError):
    """Raised in strict mode if the device cannot run a graph; the message lists operators and reasons."""


class ConstraintError(UnsupportedOnDevice):
    """Raised in strict mode if a graph violates constraints.

    ``violations`` has all of them. ``repro`` says where the script is, or why there is none. ``switch`` in
    the message names what turned strict mode on.
    """

    def __init__(
        self, name: str, violations: Sequence[Violation], repro: str = "", *, switch: str = ""
    ) -> None:
        self.violations = tuple(violations)
        self.repro = repro
        lines = [f"  {violation.line}" for violation in self.violations]
        if repro:
            lines.append(f"  {repro}")
        super().__init__(
            f"{name}: strict mode{f' ({switch})' if switch else ''}, and {len(self.violations)} constraint"
            f"{'s are' if len(self.violations) > 1 else ' is'} violated:\n" + "\n".join(lines)
        )


def check_graph(view: GraphView, constraints: Iterable[Constraint]) -> list[Violation]:
    """Returns the violations of a graph, deduplicated by :attr:`Violation.key`, errors before warnings."""
    found: dict[Any, Violation] = {}
    for constraint in constraints:
        for violation in constraint.check(view):
            found.setdefault(violation.key, violation)
    return sorted(found.values(), key=lambda violation: SEVERITIES.index(violation.severity))
