"""Checks the graphs of one compilation against the constraints: Dynamo's, then each of AOTAutograd.

In strict mode the errors of a graph abort the compilation with one message. Otherwise they are logged and the
compilation goes on.
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
    """Checks the constraints on one region and collects its violations.

    ``on_violation`` is called with each violation that is new in this region. ``strict``: errors abort the
    compilation. ``switch`` names what turns strict mode on. ``target`` sets up the accelerator in a repro.
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
        """Checks Dynamo's graph. Raises ConstraintError in strict mode."""
        self._check(GraphView(graph_module=self.graph_module, level="dynamo", name=self.name))

    def aten(self, graph_module: torch.fx.GraphModule, direction: str) -> None:
        """Checks a graph of AOTAutograd. Raises ConstraintError in strict mode."""
        self._check(self._view(graph_module, direction))

    def lowering(
        self, graph_module: torch.fx.GraphModule, direction: str, refusals: Mapping[str, str]
    ) -> None:
        """Records the nodes that a lowering left to the host (``refusals``: node name to reason).

        Only a lowering can tell that it refuses certain arguments of a supported operator. A violation
        already recorded for the same operator and line is skipped.
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
        """Writes a script that violates the same constraint. Returns where it is, or why there is none."""
        return write_repro(folder, self.graph_module, self.inputs, violation, self._target)

    def reduced_repro(self, violation: Violation, folder: str) -> tuple[str, int, int] | None:
        """Writes a script of the violating operators alone.

        Returns (where it is, operators kept, operators before), None if they cannot be cut out. The caller
        runs the script to find out whether it still violates.
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
