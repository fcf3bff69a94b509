"""Forces a graph break at a chosen line of a frame, and records the lines that each trace went through.

If an instruction cannot be traced while the stack is empty, Dynamo compiles the graph so far and runs the
rest of the frame eagerly (``torch/_dynamo/symbolic_convert.py: InstructionTranslatorBase.step``). A *place*
is the first instruction of a line at which this is possible. Lines between two places form one segment;
the body of a loop is one example.
"""

from __future__ import annotations

import linecache
from typing import Any, Dict, List, Optional, Sequence

from ..exceptions import NotApplicable, code_key
from ..torch_internals.dynamo import hook_steps, unsupported

MAX_SEGMENTS = 1000


class Lines:
    """Records traced lines; ``stop`` is ``(frame key, place)``, the place where that frame's trace ends.

    Places are numbered from 1; the first segment of a trace precedes place 1.
    """

    def __init__(self, stop: Optional[Sequence[Any]]) -> None:
        self.stop = None if stop is None else (str(stop[0]), int(stop[1]))
        self._segments: Dict[str, List[List[int]]] = {}
        self._sources: Dict[str, str] = {}

    def install(self) -> None:
        """Hooks into Dynamo's frame translator; inlined code counts as the line that calls it.

        Raises ``NotApplicable`` if ``stop`` is set and this torch lacks the hook.
        """
        if not hook_steps(self._at) and self.stop is not None:
            raise NotApplicable("this torch cannot break the graph at a line")

    def _at(self, trace: Any) -> None:
        place = trace.instruction_pointer
        instruction = None if place is None else trace.instructions[place]
        line = getattr(instruction, "starts_line", None)
        if line is None:
            return
        trace.current_instruction = instruction  # ``step`` sets it later, but ``_may_end`` already needs it
        key = code_key(trace.f_code)
        segments = trace.__dict__.setdefault("accel_lab_segments", [[]])
        if _may_end(trace):
            segments.append([])
            if self.stop == (key, len(segments) - 1):
                trace.dispatch_table = _Untraceable(line)
                # Dynamo would not compile a partial graph of fewer than two calls.
                trace.is_non_empty_graph = lambda: True
        if line not in segments[-1]:
            segments[-1].append(line)
        # Dynamo restarts the trace after each graph break; keep the longest one.
        known = self._segments.get(key)
        if known is None or len(segments) > len(known):
            self._segments[key] = segments
            self._sources[key] = trace.f_code.co_filename

    def facts(self) -> Dict[str, Any]:
        """Returns ``{frame key: {"segments": lists of lines, "source": {line: text}}}``.

        Leaves out frames with one segment or more than ``MAX_SEGMENTS``.
        """
        found = {}
        for key, segments in self._segments.items():
            if 1 < len(segments) <= MAX_SEGMENTS:
                lines = sorted({line for segment in segments for line in segment})
                texts = {line: linecache.getline(self._sources[key], line).rstrip()[:200] for line in lines}
                found[key] = {"segments": segments, "source": {str(k): text for k, text in texts.items()}}
        return found


def _may_end(trace: Any) -> bool:
    """Whether Dynamo could break the graph before this instruction."""
    try:
        return not trace.stack and bool(trace.should_compile_partial_graph())
    except Exception:
        return False


class _Untraceable:
    """A dispatch table that raises ``Unsupported`` for every instruction."""

    def __init__(self, line: int) -> None:
        self._line = line

    def __getitem__(self, opcode: int) -> Any:
        def refuse(trace: Any, instruction: Any) -> None:
            raise unsupported("accel-lab ends the trace before line %d" % self._line)

        return refuse
