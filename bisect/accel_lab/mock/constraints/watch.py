"""Holds one compilation to the constraints: Dynamo's graph first, then each graph of AOTAutograd.

Strict: the errors of a graph end the compilation, all of them told at once. Else they are logged, and the
device does what it can.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from accel_lab.mock.frontend.pipeline import lower
from accel_lab.mock.ir.concrete import is_symbolic
from accel_lab.mock.settings import Settings

from .catalogue import ConstraintError, GraphView, Violation, check_graph
from .choice import Choice
from .node_checks import LoweringRefuses, OperatorConstraint
from .repro import write_repro

_log = logging.getLogger("accel_lab.mock")


class Watch:
    """The constraints over one region. ``told`` is called with each violation that is new in this region."""

    def __init__(
        self,
        choice: Choice,
        settings: Settings,
        graph_module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        name: str,
        told: Callable[[Violation], None] = lambda violation: None,
    ) -> None:
        self.choice = choice
        self.settings = settings
        self.graph_module = graph_module
        self.inputs = inputs
        self.name = name
        self.told = told
        self.violations: dict[Any, Violation] = {}

    def dynamo(self) -> None:
        """Check the graph that Dynamo captured. Raises ConstraintError."""
        self._check(
            GraphView(
                graph_module=self.graph_module, level="dynamo", name=self.name, device=self.settings.device
            )
        )

    def aten(self, graph_module: torch.fx.GraphModule, direction: str) -> None:
        """Check a graph of AOTAutograd. Raises ConstraintError."""
        self._check(self._view(graph_module, direction))

    def _view(self, graph_module: torch.fx.GraphModule, direction: str) -> GraphView:
        return GraphView(
            graph_module=graph_module,
            level="aten",
            direction=direction,
            name=f"{self.name}_{direction}",
            device=self.settings.device,
        )

    def lowering(self, graph_module: torch.fx.GraphModule, inputs: Sequence[Any], direction: str) -> None:
        """Lower a graph, run nothing, and note what the front end then leaves to the host.

        A lowering can refuse the arguments of an operator that the device has; only it knows. Graphs with
        symbols are lowered when they are called, so not here.
        """
        operators = [c for c in self.choice.constraints if isinstance(c, OperatorConstraint)]
        if not operators or is_symbolic(graph_module):
            return
        view = self._view(graph_module, direction)
        with _disable_current_modes():
            program = lower(graph_module, inputs, self.settings.device, view.name)
        reasons = {call.node: call.reason for call in program.fallbacks}
        refused = LoweringRefuses(reasons=reasons, severity=operators[0].severity)
        known = {
            (violation.op, violation.source)
            for violation in self.violations.values()
            if violation.constraint in (refused.name, "dtype")
        }
        for violation in check_graph(view, [refused]):
            if (violation.op, violation.source) not in known:
                self.violations[violation.key] = violation
                self.told(violation)

    def repro(self, violation: Violation, folder: str | None) -> str:
        """Write a script that violates the same constraint; where it is, or why there is none."""
        environment: Mapping[str, str] | None = self.choice.environment
        if environment is not None:
            settings = self.settings.environment()
            settings.pop("ACCEL_LAB_MOCK_ARTIFACTS", None)
            environment = {**settings, **environment}
        return write_repro(folder, self.graph_module, self.inputs, violation, environment)

    def _check(self, view: GraphView) -> None:
        with _disable_current_modes():
            found = check_graph(view, self.choice.constraints)
        for violation in found:
            if violation.key not in self.violations:
                self.violations[violation.key] = violation
                self.told(violation)
        errors = [violation for violation in found if violation.severity == "error"]
        if self.settings.strict and errors:
            raise ConstraintError(view.name, errors, self.repro(errors[0], self.settings.artifacts or None))
        for violation in found:
            level = logging.WARNING if violation.severity == "error" else logging.INFO
            _log.log(level, "%s: %s", view.name, violation.line)
