"""Checks one compilation against the constraints: Dynamo's graph first, then each graph of AOTAutograd.

Strict: the errors of a graph end the compilation, in one message. Else they are logged, and the
device does what it can.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .catalogue import Constraint, ConstraintError, GraphView, Violation, check_graph
from .node_checks import LoweringRefuses, OperatorConstraint
from .reduced_graph import reduced, trace_of
from .repro import ReproTarget, write_repro

_log = logging.getLogger("accel_lab.accelerators")


class Watch:
    """The constraints over one region.

    ``on_violation`` is called with each violation that is new in this region. ``strict``: errors end the
    compilation; ``switch`` is what users turn that on with. ``target`` sets up the accelerator in a repro.
    """

    def __init__(
        self,
        constraints: Sequence[Constraint],
        graph_module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        name: str,
        *,
        on_violation: Callable[[Violation], None] = lambda violation: None,
        strict: bool = False,
        switch: str = "",
        target: ReproTarget | None = None,
        repro_folder: str | None = None,
    ) -> None:
        self.constraints = tuple(constraints)
        self.graph_module = graph_module
        self.inputs = inputs
        self.name = name
        self.violations: dict[Any, Violation] = {}
        self._traces: dict[Any, str] = {}
        self._on_violation = on_violation
        self._strict = strict
        self._switch = switch
        self._target = target
        self._repro_folder = repro_folder

    def dynamo(self) -> None:
        """Check the graph that Dynamo captured. Raises ConstraintError."""
        self._check(GraphView(graph_module=self.graph_module, level="dynamo", name=self.name))

    def aten(self, graph_module: torch.fx.GraphModule, direction: str) -> None:
        """Check a graph of AOTAutograd. Raises ConstraintError."""
        self._check(self._view(graph_module, direction))

    def lowering(
        self, graph_module: torch.fx.GraphModule, direction: str, refusals: Mapping[str, str]
    ) -> None:
        """Note what a lowering left to the host: node to reason.

        A lowering can refuse the arguments of an operator that the device has; only it knows. What the other
        constraints said of the same line is not said again.
        """
        operators = [c for c in self.constraints if isinstance(c, OperatorConstraint)]
        if not operators:
            return
        refused = LoweringRefuses(reasons=refusals, severity=operators[0].severity)
        known = {
            (violation.op, violation.source)
            for violation in self.violations.values()
            if violation.constraint in (refused.name, "dtype")
        }
        view = self._view(graph_module, direction)
        for violation in check_graph(view, [refused]):
            if (violation.op, violation.source) not in known:
                self._note(violation, view)

    def repro(self, violation: Violation, folder: str | None) -> str:
        """Write a script that violates the same constraint; where it is, or why there is none."""
        return write_repro(folder, self.graph_module, self.inputs, violation, self._target)

    def reduced_repro(self, violation: Violation, folder: str) -> tuple[str, int, int] | None:
        """Write a script of the violating operators alone: where it is, how many they are, and of how many.

        None where they cannot be cut out. Whether it violates the same is for a run to say.
        """
        part = reduced(self.graph_module, violation, self._traces.get(violation.key, ""))
        if part is None:
            return None
        about = f"Reduced to {part.operators} of the graph's {part.of} operators."
        said = write_repro(folder, part.graph_module, part.inputs, violation, self._target, about=about)
        return said, part.operators, part.of

    def _view(self, graph_module: torch.fx.GraphModule, direction: str) -> GraphView:
        return GraphView(
            graph_module=graph_module, level="aten", direction=direction, name=f"{self.name}_{direction}"
        )

    def _note(self, violation: Violation, view: GraphView) -> None:
        self.violations[violation.key] = violation
        self._traces[violation.key] = trace_of(view.graph_module, violation)
        self._on_violation(violation)

    def _check(self, view: GraphView) -> None:
        with _disable_current_modes():
            found = check_graph(view, self.constraints)
        for violation in found:
            if violation.key not in self.violations:
                self._note(violation, view)
        errors = [violation for violation in found if violation.severity == "error"]
        if self._strict and errors:
            repro = self.repro(errors[0], self._repro_folder)
            raise ConstraintError(view.name, errors, repro, switch=self._switch)
        for violation in found:
            level = logging.WARNING if violation.severity == "error" else logging.INFO
            _log.log(level, "%s: %s", view.name, violation.line)
