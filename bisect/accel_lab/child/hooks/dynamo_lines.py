"""Ends Dynamo's trace of a frame at a line, and writes down which lines each trace went through.

Where an instruction cannot be traced and nothing lies on the stack, Dynamo compiles what it has and leaves
the rest of the frame as it is (``torch/_dynamo/symbolic_convert.py: InstructionTranslatorBase.step``). Such a
place is made of a line's first instruction. Lines between two places, a loop's body for one, stay together.
"""

from __future__ import annotations

import linecache
from typing import Any, Dict, List, Optional, Sequence

from ..exceptions import NotApplicable, code_key
from ..torch_internals.dynamo import hook_steps, unsupported

MAX_SEGMENTS = 1000


class Lines:
    """The lines of all traces; ``stop`` is a frame's key and the number of the place where its trace ends.

    Places count from 1; the first segment of a trace lies before the first place.
    """

    def __init__(self, stop: Optional[Sequence[Any]]) -> None:
        self.stop = None if stop is None else (str(stop[0]), int(stop[1]))
        self._segments: Dict[str, List[List[int]]] = {}
        self._sources: Dict[str, str] = {}

    def install(self) -> None:
        """Hook into the translator of frames; what is inlined into them belongs to the line that calls it."""
        if not hook_steps(self._at) and self.stop is not None:
            raise NotApplicable("this torch has no place to end the trace of a frame")

    def _at(self, trace: Any) -> None:
        place = trace.instruction_pointer
        instruction = None if place is None else trace.instructions[place]
        line = getattr(instruction, "starts_line", None)
        if line is None:
            return
        trace.current_instruction = instruction  # what is asked below looks at it; the step sets it itself
        key = code_key(trace.f_code)
        segments = trace.__dict__.setdefault("accel_lab_segments", [[]])
        if _may_end(trace):
            segments.append([])
            if self.stop == (key, len(segments) - 1):
                trace.dispatch_table = _Untraceable(line)
                # Dynamo itself would not end a graph of less than two calls.
                trace.is_non_empty_graph = lambda: True
        if line not in segments[-1]:
            segments[-1].append(line)
        # A trace begins anew at each place where it was ended, so the longest one is kept.
        known = self._segments.get(key)
        if known is None or len(segments) > len(known):
            self._segments[key] = segments
            self._sources[key] = trace.f_code.co_filename

    def facts(self) -> Dict[str, Any]:
        """``{key: {"segments": the lines between places, "source": {line: text}}}``, but of long traces."""
        found = {}
        for key, segments in self._segments.items():
            if 1 < len(segments) <= MAX_SEGMENTS:
                lines = sorted({line for segment in segments for line in segment})
                texts = {line: linecache.getline(self._sources[key], line).rstrip()[:200] for line in lines}
                found[key] = {"segments": segments, "source": {str(k): text for k, text in texts.items()}}
        return found


def _may_end(trace: Any) -> bool:
    """Whether Dynamo could end the graph before this instruction, as it asks itself."""
    try:
        return not trace.stack and bool(trace.should_compile_partial_graph())
    except Exception:
        return False


class _Untraceable:
    """A table of instructions in which none can be traced."""

    def __init__(self, line: int) -> None:
        self._line = line

    def __getitem__(self, opcode: int) -> Any:
        def refuse(trace: Any, instruction: Any) -> None:
            raise unsupported("accel-lab ends the trace before line %d" % self._line)

        return refuse
