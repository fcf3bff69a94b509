"""Maps each line of a generated kernel to the FX node that it was generated from.

Lowering a node marks the node's loop body; every loop IR operation inherits the mark; code generation
appends it to the operation's line as a comment with the node's number. A line that belongs to no single
operation has no mark. The comments are removed before a kernel is shown.
"""

from __future__ import annotations

import functools
import os
import re
from typing import Any, Dict, List, Optional

from ..artifacts import write_json
from ..capture.source_lines import source_of
from ..torch_internals import loop_ir
from .scheduler import quietly, wrap

_ORIGIN = "accel_lab_origin"
_MARK = re.compile(r"(?<! )[ ]*(?:/\*@(\d+)\*/|# @(\d+)$)")

#: First line of the Python bindings that Inductor appends to a kernel's file.
_BINDINGS = "// Python bindings to call"


class Annotator:
    """Marks the lines of generated kernels with the node that they were generated from."""

    def __init__(self, subsystems: Any) -> None:
        self._subsystems = subsystems
        self._labels: List[str] = []
        self._sources: Dict[str, str] = {}
        self._numbers: Dict[str, int] = {}
        self._keys: Dict[Any, str] = {}
        self._stack: List[int] = []

    def install(self) -> bool:
        """Hooks into lowering, loop bodies and code generation; False if this torch lacks the places."""
        places = loop_ir.written_lines()
        if places is None:
            return False
        ir, tracer, lines = places
        ask = self._subsystems._ask

        def noting(subsystem: str, debug_info: Any) -> Any:
            off = ask(subsystem, debug_info)
            if subsystem == "lowerings":
                node = _current_node()
                if node is not None:
                    self._keys[node] = self._subsystems.applied[subsystem][-1]
            return off

        self._subsystems._ask = noting
        wrap(ir.IRNode, "__post_init__", self._made)
        for kind in list(vars(ir).values()):
            if isinstance(kind, type) and issubclass(kind, ir.IRNode):
                for name in ("store_output", "store_reduction"):
                    if name in vars(kind):
                        wrap(kind, name, self._storing)
        wrap(tracer, "create_node", self._traced)
        wrap(lines, "writeline", self._written)
        return True

    def _made(self, original: Any, ir_node: Any) -> None:
        original(ir_node)
        inner = getattr(ir_node, "inner_fn", None)
        node = _current_node()
        if node is None or not callable(inner):
            return
        number = self._number_of(node)
        object.__setattr__(ir_node, _ORIGIN, number)
        object.__setattr__(ir_node, "inner_fn", self._within(inner, number))

    def _within(self, function: Any, number: int) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            self._stack.append(number)
            try:
                return function(*args, **kwargs)
            finally:
                self._stack.pop()

        return call

    def _storing(self, original: Any, ir_node: Any, *args: Any, **kwargs: Any) -> Any:
        number = getattr(ir_node, _ORIGIN, None)
        function = functools.partial(original, ir_node)
        if number is not None:
            self._stack.append(number)
        try:
            return function(*args, **kwargs)
        finally:
            if number is not None:
                self._stack.pop()

    def _traced(self, original: Any, tracer: Any, *args: Any, **kwargs: Any) -> Any:
        node = original(tracer, *args, **kwargs)
        number = self._stack[-1] if self._stack else _mark_of_operation()
        if number is not None:
            node.meta[_ORIGIN] = number
        return node

    def _written(self, original: Any, buffer: Any, line: Any) -> Any:
        number = None if self._stack else _mark_of_operation()
        form = _comment() if number is not None else None
        if form is not None:
            line = _with_comment(line, form % number)
        return original(buffer, line)

    def _number_of(self, node: Any) -> int:
        label = self._keys.get(node, node.name)
        if label not in self._numbers:
            self._numbers[label] = len(self._labels)
            self._labels.append(label)
            self._sources[label] = " ".join(source_of(node)).strip()
        return self._numbers[label]

    # -- reading back ------------------------------------------------------------------------------

    def write(self, folder: str) -> None:
        """Writes the kernels so far to ``kernels.json``, in case one of them ends the process."""
        cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
        if cache:
            write_json(os.path.join(folder, "kernels.json"), self.kernels(cache))

    @staticmethod
    def cleaned(text: str) -> str:
        """Returns generated code without the annotator's comments."""
        return "\n".join(_MARK.sub("", line) for line in text.splitlines()) + "\n"

    def kernels(self, cache_folder: str) -> List[Dict[str, Any]]:
        """Returns at most 16 kernels: file, language, text without marks, and the lines of each node."""
        found: List[Dict[str, Any]] = []
        for path, source in _sources(cache_folder):
            for language, text in _kernels_in(path, source):
                found.append(self._read(os.path.basename(path), language, text))
        return sorted(found, key=lambda kernel: -len(kernel["origins"]))[:16]

    def _read(self, file: str, language: str, text: str) -> Dict[str, Any]:
        origins: Dict[str, List[int]] = {}
        lines = text.splitlines()
        for number, line in enumerate(lines, 1):
            for groups in _MARK.findall(line):
                mark = int(groups[0] or groups[1])
                if mark < len(self._labels):
                    origins.setdefault(self._labels[mark], []).append(number)
        clean = self.cleaned(text).split(_BINDINGS)[0]
        sources = {label: self._sources[label] for label in origins if self._sources.get(label)}
        return {
            "file": file,
            "language": language,
            "text": clean[:80_000],
            "origins": origins,
            "sources": sources,
        }


def _current_node() -> Any:
    """The FX node that is being lowered, or None."""
    import torch

    node = quietly(lambda: loop_ir.virtualized().current_node)
    return node if isinstance(node, torch.fx.Node) else None


def _mark_of_operation() -> Optional[int]:
    """The mark of the loop IR operation that is being interpreted or generated, or None."""
    node = getattr(quietly(lambda: loop_ir.virtualized().interpreter), "current_node", None)
    return getattr(node, "meta", {}).get(_ORIGIN)


def _comment() -> Optional[str]:
    """The format of a mark in the language of the current kernel; None for an unknown language."""
    names = {kind.__name__ for kind in type(quietly(lambda: loop_ir.virtualized().kernel)).__mro__}
    if "CppKernel" in names:
        return " /*@%d*/"
    return "  # @%d" if "TritonKernel" in names else None


def _with_comment(line: Any, comment: str) -> Any:
    if isinstance(line, str):
        return "\n".join(_commented(part, comment) for part in line.split("\n"))
    text = getattr(line, "line", None)
    renew = getattr(line, "_new_line", None)
    if isinstance(text, str) and renew is not None and text:
        return quietly(lambda: renew(_with_comment(text, comment))) or line
    return line


def _commented(line: str, comment: str) -> str:
    bare = line.strip()
    if not bare or bare.startswith("#") or bare.endswith("\\") or _MARK.search(line):
        return line
    return line + comment


def _sources(cache_folder: str) -> List[Any]:
    found = []
    for root, _, names in os.walk(cache_folder):
        if "precompiled_headers" in root or "vec_isa" in root:
            continue
        for name in sorted(names):
            if name.endswith((".py", ".cpp")):
                try:
                    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as stream:
                        found.append((os.path.join(root, name), stream.read(400_000)))
                except OSError:
                    continue
    return found


def _kernels_in(path: str, source: str) -> List[Any]:
    if path.endswith(".cpp"):
        return [("cpp", source)] if 'extern "C"' in source and "/*@" in source else []
    parts = re.findall(r"async_compile\.triton\([^,]*,\s*r?'''(.*?)'''", source, re.DOTALL)
    return [("python", part.strip("\n")) for part in parts]
