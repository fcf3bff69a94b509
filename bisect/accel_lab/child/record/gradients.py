"""Records the gradient of each backward pass as it arrives at the parameters of a module.

The final ``.grad`` is a sum over passes, or follows optimizer steps that propagate rounding errors. A
gradient that arrives before any parameter is written has neither problem (#179804: a sum of two bfloat16
gradients does not compare like a single one).
"""

from __future__ import annotations

import itertools
from typing import Any, Callable, Dict, Tuple

import torch

from .values import has_memory, is_plain, undisturbed

#: Recorded backward passes per parameter; recording also ends once the parameter is written.
MOST_PASSES = 4
#: Limit on the total size of the watched parameters, in bytes.
GRADIENT_BYTES = 32 << 20

#: Called for each pass with ``(event, gradient)``.
Emit = Callable[[Dict[str, Any], torch.Tensor], None]


class ArrivingGradients:
    """Hooks the ``AccumulateGrad`` nodes of parameters, as Dynamo would see hooks on the tensors.

    torch frees such a node once no graph refers to it, so it is kept here until its last recorded pass.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._left = GRADIENT_BYTES
        self._known: Dict[int, torch.Tensor] = {}
        self._nodes: Dict[int, Any] = {}

    def watch(self, event: Dict[str, Any], module: torch.nn.Module) -> None:
        """Records the gradients of a module's parameters; ``event`` has the common keys of their events."""
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
    """The ``AccumulateGrad`` node of a leaf tensor, reached through a view."""
    with undisturbed(), torch.enable_grad():
        return parameter.view_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr]
