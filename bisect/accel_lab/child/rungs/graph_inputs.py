"""Compares the inputs of a captured graph at run time with the fake tensors that it was captured with.

Generated code trusts the captured dtype: given a float64 tensor for a float32 input, it reads the wrong
bytes. A graph that is interpreted hides the mismatch.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

#: Calls of one graph that are checked.
MOST_CALLS = 8
#: Mismatches that are noted in a run.
MOST_ENTRIES = 20


class GraphInputs:
    """Notes inputs whose dtype differs from the captured one; ``correct`` converts them before the call."""

    def __init__(self, correct: bool) -> None:
        self.entries: List[Dict[str, str]] = []
        self._correct = correct

    def around(self, promised: List[Tuple[str, Any]], compiled: Any) -> Any:
        """Wraps the compiled graph so that its tensor inputs are compared with those of :func:`promises`."""
        if not any(isinstance(fake, torch.Tensor) for _, fake in promised):
            return compiled
        calls = 0

        def call(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if (self._correct or calls <= MOST_CALLS) and len(args) == len(promised):
                wrong = [n for n, given in enumerate(args) if self._differs(promised[n], given)]
                if wrong and self._correct:
                    args = tuple(
                        given.to(promised[n][1].dtype) if n in wrong else given
                        for n, given in enumerate(args)
                    )
            return compiled(*args)

        return call

    def _differs(self, promise: Tuple[str, Any], given: Any) -> bool:
        name, fake = promise
        if not (isinstance(fake, torch.Tensor) and type(given) in (torch.Tensor, torch.nn.Parameter)):
            return False
        if fake.dtype == given.dtype:
            return False
        entry = {
            "name": name,
            "what": "dtype",
            "promised": str(fake.dtype)[6:],
            "given": str(given.dtype)[6:],
        }
        if entry not in self.entries and len(self.entries) < MOST_ENTRIES:
            self.entries.append(entry)
        return True


def promises(gm: Any) -> List[Tuple[str, Any]]:
    """Returns ``(name, fake value)`` of each input of a captured graph."""
    nodes = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return [(node.name, node.meta.get("example_value", node.meta.get("val"))) for node in nodes]
