"""Gradients as they arrive at the parameters of a module, one backward pass at a time.

What a script leaves in ``.grad`` is the sum of all passes, or what the last one brought after an optimizer
has carried roundings from step to step. A gradient that arrives before any parameter is written has neither
in it (#179804: a sum of two gradients in bfloat16 no longer looks like one).
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Tuple

import torch

from .values import has_memory, is_plain, undisturbed

#: Backward passes of a parameter that are recorded, as long as nothing writes to it.
MOST_PASSES = 4
#: Gradients that are recorded, in bytes; they are a part of what one run may keep.
GRADIENT_BYTES = 32 << 20

#: What receives one pass: its event and the gradient.
Emit = Callable[[Dict[str, Any], torch.Tensor], None]


class ArrivingGradients:
    """Hooks on the nodes that sum up gradients: on a tensor itself Dynamo would see them.

    torch keeps such a node only while a graph leads to it; it is held here until its last pass is recorded.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._left = GRADIENT_BYTES
        self._known: Dict[int, torch.Tensor] = {}
        self._nodes: Dict[int, Any] = {}

    def watch(self, event: Dict[str, Any], module: torch.nn.Module) -> None:
        """Await the gradients of a module's parameters; ``event`` is what their records begin with."""
        for name, parameter in module.named_parameters():
            size = parameter.numel() * parameter.element_size()
            fits = size <= self._left
            if not (fits and parameter.requires_grad and is_plain(parameter) and has_memory(parameter)):
                continue
            if id(parameter) not in self._known:
                self._left -= size
                self._known[id(parameter)] = parameter
                self._await({**event, "phase": "parameter_grad"}, name, parameter)

    def _await(self, event: Dict[str, Any], name: str, parameter: torch.Tensor) -> None:
        key, version, passes = id(parameter), parameter._version, itertools.count(1)

        def arrived(gradients: Tuple[Any, ...]) -> None:
            turn = next(passes)
            if parameter._version == version and turn <= MOST_PASSES:
                self._emit({**event, "path": f"{name} backward {turn}"}, gradients[0])
            else:
                self._nodes.pop(key, None)

        node = self._nodes[key] = _summing_node(parameter)
        node.register_prehook(arrived)


def _summing_node(parameter: torch.Tensor) -> Any:
    """The node that adds to a leaf's ``.grad``; a view leads to it."""
    with undisturbed(), torch.enable_grad():
        return parameter.view_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
