"""The inputs of a captured graph: what Dynamo promised of each, and what it hands over at run time.

The compiler below trusts the promise: generated code reads eight bytes as four where a float64 tensor comes
in the place of a float32 one. Graphs that are run operator by operator hide it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

#: Calls of one graph that are looked at.
MOST_CALLS = 8
#: Differences that are noted.
MOST_ENTRIES = 20


class GraphInputs:
    """Notes where inputs are not as promised; with ``correct`` the graph gets them as promised."""

    def __init__(self, correct: bool) -> None:
        self.entries: List[Dict[str, str]] = []
        self._correct = correct

    def around(self, promised: List[Tuple[str, Any]], compiled: Any) -> Any:
        """The compiled graph, whose tensor inputs are held against :func:`promises`."""
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
    """Each input of a captured graph by name, with the fake value that it was captured with."""
    nodes = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return [(node.name, node.meta.get("example_value", node.meta.get("val"))) for node in nodes]
