"""Constraints: what a device asks of a graph, Dynamo's or AOTAutograd's, each with a name.

A constraint sees one graph at a time through a :class:`GraphView` and yields :class:`Violation` s; nothing is
kept between graphs. The constraints that the lab has itself are in the other modules of this package.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .operators import entries_of
from .values import code_of, graph_modules, source_of, tensors, traced

SEVERITIES = ("error", "warning")


@dataclass(frozen=True, kw_only=True)
class GraphView:
    """One graph as a constraint sees it.

    ``level`` is "dynamo" or "aten". ``direction`` is "forward", "backward" or "inference"; it is empty at
    Dynamo level, where both are one graph.
    """

    graph_module: torch.fx.GraphModule
    level: str
    direction: str = ""
    name: str = "graph"

    def nodes(self) -> Iterator[tuple[torch.fx.GraphModule, str, torch.fx.Node]]:
        """All nodes, each with its graph and the path to it, those of higher-order operators included."""
        for prefix, graph_module in graph_modules(self.graph_module):
            for node in graph_module.graph.nodes:
                yield graph_module, prefix, node


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One breach.

    ``op`` is the operator's entry (one name for function, method and overload), ``target`` what the node
    calls, ``source`` the user's ``file:line``, ``change`` what would have to change.
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
        """What makes two violations one for a reader: the same breach, seen in several graphs."""
        return (self.constraint, self.op, self.source or self.node, self.severity)

    @property
    def line(self) -> str:
        """One line for a log or an error."""
        where = f" at {self.source}" if self.source else ""
        return f"{self.constraint}: {self.op}: {self.message}{where}; {self.change}"

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return dict(self.__dict__)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What a constraint says of one node."""

    node: torch.fx.Node
    message: str
    change: str
    severity: str = ""


class Constraint(ABC):
    """Something that a graph must keep to. Subclasses set ``name`` and ``severity`` and say what they find.

    A subclass that looks at one node at a time gives :meth:`findings` only; one that needs the whole graph
    (memory over time) overrides :meth:`graph_findings`.
    """

    name: str = ""
    severity: str = "error"

    def graph_findings(self, view: GraphView) -> Iterator[Finding]:
        """What is wrong with a graph."""
        for graph_module, _, node in view.nodes():
            if node.op == "output" or _is_taken_apart(node):
                continue
            if node.op == "placeholder" and view.direction == "backward":
                continue  # what the forward graph kept, and gradients of its outputs: said there
            yield from self.findings(node, graph_module, view)

    @abstractmethod
    def findings(
        self, node: torch.fx.Node, graph_module: torch.fx.GraphModule, view: GraphView
    ) -> Iterable[Finding]:
        """What is wrong with one node."""

    def check(self, view: GraphView) -> Iterator[Violation]:
        """The violations of one graph."""
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
    """A node's operator as the user called it: what it was decomposed from, where that is known."""
    if node.op == "placeholder":
        return "input"
    if node.op == "get_attr":
        return "attribute"
    return entries_of(node, graph_module)[-1] or str(node.target)


def _user_of(node: torch.fx.Node) -> str:
    """An input has no line of its own: where it is used first."""
    return (
        next((found for user in node.users if (found := source_of(user))), "")
        if node.op == "placeholder"
        else ""
    )


def _is_taken_apart(node: torch.fx.Node) -> bool:
    """Whether a node takes one result of several, which the node before it already answers for."""
    source = node.args[0] if node.args else None
    if node.target is not operator.getitem or not isinstance(source, torch.fx.Node):
        return False
    return not isinstance(traced(source), torch.Tensor)


def node_tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    """The tensors that a node yields, however nested."""
    return tensors(traced(node))


class UnsupportedOnDevice(RuntimeError):
    """Strict mode: the device cannot run all of a graph; the message names each operator, why, and where."""


class ConstraintError(UnsupportedOnDevice):
    """Strict mode: a graph breaks constraints.

    ``violations`` has them all; ``repro`` says where the script is, or why there is none; ``switch`` is what
    turned strict mode on.
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
    """The violations of a graph, one for each breach at each line, those that count most first."""
    found: dict[Any, Violation] = {}
    for constraint in constraints:
        for violation in constraint.check(view):
            found.setdefault(violation.key, violation)
    return sorted(found.values(), key=lambda violation: SEVERITIES.index(violation.severity))
